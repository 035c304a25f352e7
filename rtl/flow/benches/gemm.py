"""GEMMs on an NPU, one after the other: a job, its operands, its results, and when.

given: `jobs`, `operands`: payloads of `job` and `i`, uint32[n, words], lowest word first; of each case `counts`,
int[cases, 2]: operands and results; `paces`, float[cases, 2]: probabilities that operands are offered, and results
taken, in a clock; `after`, int[cases]: clocks before the job is offered; `idle`: clocks between cases.
left: `o`: results, uint32[n, words]; `i.clock`, `o.clock`: of each transfer, from the case's first clock; `done`: clock
of each case; cycles; seconds.
"""

import time
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow import exchange
from pimloom.rtl.flow.benches.streams import Sink, Source, reset

PATIENCE = 20_000  # clocks of a case


@cocotb.test()
async def every_gemm(dut: Any) -> None:
    """Run the given jobs one after the other; leave their results and the clocks of each."""
    given = exchange.given()
    results, clocks, dones, cycles, at = list[int](), {"i": list[int](), "o": list[int]()}, list[int](), 0, 0
    await reset(dut)
    start = time.perf_counter()
    told = (given[name].tolist() for name in ("counts", "paces", "after"))
    for job, counts, paces, after in zip(given["jobs"], *told, strict=True):
        sources = [Source(dut, "job", job[None]), Source(dut, "i", given["operands"][at : at + counts[0]])]
        sink, at = Sink(dut, "o", counts[1]), at + counts[0]
        done, clock = await _case(dut, sources, sink, paces, after)
        results += sink.taken
        clocks["i"] += sources[1].clocks
        clocks["o"] += sink.clocks
        dones.append(done)
        cycles += clock + int(given["idle"])
        for _ in range(int(given["idle"])):
            await FallingEdge(dut.clk)
    seconds = time.perf_counter() - start
    size = -(len(dut.o__payload) // -32) * 4
    words = np.frombuffer(b"".join(word.to_bytes(size, "little") for word in results), "<u4").reshape(len(results), -1)
    left = {f"{name}.clock": np.array(each) for name, each in clocks.items()}
    exchange.leave(o=words, **left, done=np.array(dones), cycles=np.array(cycles), seconds=np.array(seconds))


async def _case(dut: Any, sources: list[Source], sink: Sink, paces: list[float], after: int) -> tuple[int, int]:
    """When the job was done, and how many clocks the case took."""
    done, clock = -1, 0
    while done < 0 or not sink.done:
        sources[0].drive(float(clock >= after))
        sources[1].drive(paces[0])
        sink.drive(paces[1])
        await ReadOnly()
        for stream in [*sources, sink]:
            stream.look(clock)
        if dut.done.value == 1:
            assert done < 0, "a job was done twice"
            done = clock
        clock += 1
        assert clock < PATIENCE, f"a job is not done after {PATIENCE} clocks"
        await FallingEdge(dut.clk)
    sink.set(sink.ready, False)
    return done, clock
