"""Feeds a PIM channel the rows of a command stream and their data, and notes what it issues and returns.

given: rows int64[n] (packed `row_layout`); data uint16[k, lanes] and lanes int64[k], in the order in which commands
take them; drain: clocks without a command after which all is over. Left: issued int64[m, 3] (clock, source, command);
results uint16[r, banks]; reads uint16[q, lanes]; clocks of both; underrun; seconds.
"""

import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow.exchange import given, leave


def _pack(values: np.ndarray, lane: int) -> int:
    """A word and, above it, the lane."""
    return int.from_bytes(values.tobytes(), "little") | lane << (8 * values.nbytes)


@cocotb.test()
async def run(dut: Any) -> None:
    """Until all rows have gone and nothing came for `drain` clocks."""
    g = given()
    rows = iter(g["rows"].tolist())
    data = iter([_pack(word, lane) for word, lane in zip(g["data"], g["lanes"].tolist(), strict=True)])
    Clock(dut.clk, 2, unit="step").start()
    feeds = [
        (getattr(dut, f"{n}__valid"), getattr(dut, f"{n}__ready"), getattr(dut, f"{n}__payload"), it)
        for n, it in (("rows", rows), ("data", data))
    ]
    outs = {
        n: (getattr(dut, f"{n}__valid"), getattr(dut, f"{n}__values"), list[int](), list[int]())
        for n in ("results", "reads")
    }
    dut.rst.value = 1
    for valid, _, payload, _ in feeds:
        valid.value = payload.value = 0
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    issued, clock, quiet, start = list[tuple[int, int, int]](), 0, 0, time.perf_counter()
    taken = [True, True]
    left = True
    while left or quiet < int(g["drain"]):
        for i, (valid, _, payload, it) in enumerate(feeds):
            if taken[i]:
                head = next(it, None)
                valid.value = head is not None
                if head is not None:
                    payload.value = head
                elif i == 0:
                    left = False
        await ReadOnly()
        taken = [bool(valid.value) and bool(ready.value) for valid, ready, _, _ in feeds]
        quiet += 1
        if dut.buses__0__valid.value:
            issued.append((clock, int(dut.buses__0__source.value), int(dut.buses__0__command.value)))
            quiet = 0
        for valid, values, found, clocks in outs.values():
            if valid.value:
                found.append(int(values.value))
                clocks.append(clock)
        await FallingEdge(dut.clk)
        clock += 1
    kind = g["data"].dtype
    width = {n: len(values) // 8 for n, (_, values, _, _) in outs.items()}  # bytes of a word
    words = {n: b"".join(word.to_bytes(width[n], "little") for word in found) for n, (_, _, found, _) in outs.items()}
    leave(
        issued=np.array(issued, np.int64).reshape(-1, 3),
        underrun=np.array(int(dut.underrun.value)),
        seconds=np.array(time.perf_counter() - start),
        **{n: np.frombuffer(all_, kind).reshape(-1, width[n] // kind.itemsize) for n, all_ in words.items()},
        **{f"{n}_ck": np.array(clocks, np.int64) for n, (_, _, _, clocks) in outs.items()},
    )
