"""Lines of `make bench` for AttAcc, CENT and Duplex: CPU seconds beside those of the published simulators."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.cycle_sim.attacc.simulate import simulate
from pimloom.mappers.attacc.layout import Placement, Work, lay_out
from pimloom.mappers.attacc.stream import streams
from pimloom.mappers.cent_layer import layer_program
from pimloom.systems.devices.cent.placed import placed
from tests.bench_commands import Line, least, pimloom
from tests.test_attacc_cycles import table_of
from tests.test_cent import lines_of

# of the authors' simulators, run on another two-core machine, user seconds: a stack of AttAcc's, a layer of CENT's
HEADS_S, BUFFER_S, LAYER_S = 7.2, 47.8, 3.6


def pim_lines() -> Iterator[Line]:
    """What one stack, one layer and the grids take."""
    step = ("run", "attacc", "--model", "gpt3-175b", "--prompt", "2048", "--generate", "2", "-q")
    yield _beside(
        "AttAcc, units at the banks: 188 heads of 2,048 tokens; command: 71 requests of GPT-3 175B",
        _stack("bank", 188), HEADS_S, 20, pimloom(*step, "--batch", "71"),
    )  # fmt: skip
    yield _beside(
        "AttAcc, units on the buffer die: 130 heads of 2,048 tokens; command: 54 requests",
        _stack("buffer", 130), BUFFER_S, 20, pimloom(*step, "--batch", "54", "--set", "stacks.placement=buffer"),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "layer.aim")
        work, lines = _layer()
        program.write_text("\n".join(lines))
        yield _beside(
            f"CENT: a layer of Llama 2 7B on eight channels, 128 tokens; command: `aim` of its {len(lines):,} lines",
            work, LAYER_S, 10, pimloom("aim", str(program)),
        )  # fmt: skip


def _beside(what: str, work: Callable[[], object], published_s: float, times: int, command: list[str]) -> Line:
    warm = _least_cpu(work)
    target = f"≤ {published_s / times:.2f} s: {times}x less than {published_s} s"
    return Line(what, f"{warm:.3f} s, {published_s / warm:.0f}x", target, str(least(command)))


def _least_cpu(work: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of all threads; the first run, which loads kernels, does not count."""
    work()
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def _stack(placement: str, heads: int) -> Callable[[], object]:
    table, work = table_of(), Work(heads, 2048, 128, 2)
    part = load_system("attacc").part
    assert part is not None
    layout = lay_out(part.organization, Placement(placement), work)

    def run() -> int:
        every = streams(part.organization, layout, work, as_released=True)
        return max(simulate(table, placement, same.requests).cycles for same in every)

    return run


def _layer() -> tuple[Callable[[], object], list[str]]:
    """What runs it, and its lines."""
    released = placed(load_system("cent", {"devices": "8"}), load_llm("llama-2-7b"), None, None, released=True)
    program = layer_program(released.layer, released.place, 128, released=True)
    return lambda: released._run(program), lines_of(program)
