# amaranth: UnusedElaboratable=no
"""Tile sequencer, pads and accumulator in gates: GEMMs in the clocks of the model, sums in the order of the array."""

import inspect
from functools import cache
from typing import Any

import numpy as np
import pytest

from pimloom.cycle_sim.npu.arrays import Systolic as Model
from pimloom.cycle_sim.npu.arrays import gemm
from pimloom.rtl.flow.npu import sequence
from pimloom.rtl.flow.npu.engine import Case, Went, draw_cases, mismatches, run_gemms
from pimloom.rtl.flow.npu.gemm import tiles
from pimloom.rtl.flow.npu.sequence import Size, draw_sizes, run_script, script
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.npu import tiles as source
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.tiles import TileSequencer
from tests.gemm_cases import PLAIN, READY, READY_OS, late_halves
from tests.simulators import needs
from tests.slow import slow

DEPTH = 8
WS, OS = ArrayShape(4, 4, "ws"), ArrayShape(2, 3, "os")
SHAPES = [slow(WS), OS]


@cache
def went(shape: ArrayShape) -> tuple[list[Case], list[Went]]:
    """Cases that are always fed, then random ones, some of them slow."""
    cases = [*PLAIN, *(READY if shape == WS else READY_OS), *draw_cases(shape, DEPTH, np.random.default_rng(2), 120)]
    return cases, run_gemms(shape, DEPTH, cases, needs("icarus"))[0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gemms_are_those_of_numpy_and_done_when_the_model_says(shape: ArrayShape) -> None:
    cases, found = went(shape)
    assert mismatches(shape, cases, found) == []
    assert {case.paces for case in cases} == {(1.0, 1.0), (0.5, 1.0), (1.0, 0.3)}
    for case, each in zip(cases[: len(PLAIN)], found, strict=False):
        a, b = case.job.a.astype(np.float32), case.job.b.astype(np.float32)
        step, total = shape.rows if shape.dataflow == "ws" else a.shape[1], None
        for at in range(0, a.shape[1], step):
            part = np.zeros((len(a), b.shape[1]), np.float32)
            for k in range(at, min(at + step, a.shape[1])):
                part += a[:, k, None] * b[k]
            total = part if total is None else total + part
        assert (each.x == total).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_go_through_two_halves_as_double_buffered_says(shape: ArrayShape) -> None:
    """Operands come as fast as they are taken, a word a clock; the array computes one tile after the other."""
    assert late_halves(shape, *went(shape)) == []


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_two_overlapped_tiles_whose_operands_are_there_take_the_cycles_of_a_gemm(shape: ArrayShape) -> None:
    """More than two wait for their halves: an operand is free only when it has passed the whole array."""
    for case, each in list(zip(*went(shape), strict=True))[len(PLAIN) : len(PLAIN) + len(READY)]:
        assert len(tiles(shape, case.job)) == 2
        assert each.done == case.after + 2 + gemm(Model(*shape, True), *case.job.size).total_cyc


@pytest.mark.parametrize("shape", [ArrayShape(3, 4, "ws"), slow(ArrayShape(3, 2, "os"))], ids=str)
@pytest.mark.parametrize("eager", [slow(False), True])
def test_the_sequencer_tells_every_clock_what_the_model_says(shape: ArrayShape, eager: bool) -> None:
    sizes = draw_sizes(shape, DEPTH, np.random.default_rng(3), 120)
    given = script(shape, DEPTH, sizes, eager)
    assert given.refused and {size.overlapped for size in sizes} == {False, True}
    assert sequence.mismatches(shape, DEPTH, given, run_script(shape, DEPTH, given, needs("icarus"))) == []


@pytest.mark.slow
def test_a_mismatch_of_the_sequencer_says_which_clock() -> None:
    shape = ArrayShape(2, 2, "os")
    given = script(shape, DEPTH, [Size((2, 3, 2), False)])
    left = run_script(shape, DEPTH, given, needs("icarus"))
    (clock,) = given.done
    assert sequence.mismatches(shape, DEPTH, given._replace(done=[clock - 1]), left) == [
        f"done is 0 in CK {clock - 1}",
        f"done is 1 in CK {clock}",
    ]
    given.across[3]["address"] = 2
    (said,) = sequence.mismatches(shape, DEPTH, given, left)
    assert said.startswith("across is {'address': 0, 'first': 1") and " in CK 3, model says {'address': 2, " in said


MUTANTS = [  # of the sequencer's source
    ("ws", "self.streamed > self.next_.rows, self.streamed - self.next_.rows, 0", "1, self.streamed, 0"),
    ("ws", "gap != 0, (self.falling", "0, (self.falling"),
    ("ws", "+ (self.shape.rows - 2))\n        m.d.comb += [gap", "+ (self.shape.rows - 1))\n        m.d.comb += [gap"),
    ("ws", "self.sums ^ self.next_.lower", "self.sums ^ 1"),
    ("ws", "self.upper.eq(lowest)", "self.upper.eq(1)"),
    ("ws", "stays > later", "1"),
    ("os", "self.streamed > rows, self.streamed, rows", "1, self.streamed, rows"),
    ("os", "self.wait.eq(clocks - 1)", "self.wait.eq(clocks)"),
    ("os", "self.left == 1) &", "self.left == 2) &"),
    ("os", "self.index == self.streamed - 1", "self.index == self.streamed"),
    ("os", "max(shape.rows, shape.columns))", "max(shape.rows, shape.columns) + 1)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataflow", "old", "new"),
    MUTANTS,
)
def test_a_broken_sequencer_is_caught(dataflow: Any, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = inspect.getsource(TileSequencer)
    assert text.count(old) == 1
    names: dict[str, Any] = dict(vars(source))
    exec(text.replace(old, new), names)
    monkeypatch.setattr("pimloom.rtl.flow.npu.sequence.TileSequencer", names["TileSequencer"])
    shape = ArrayShape(3, 4, dataflow)
    narrow_last = Size((1, 1, 5), True)  # the tile before, which is wider, ends later
    given = script(shape, DEPTH, [narrow_last, *draw_sizes(shape, DEPTH, np.random.default_rng(3), 60)])
    assert sequence.mismatches(shape, DEPTH, given, run_script(shape, DEPTH, given, needs("icarus")))


@pytest.mark.slow
@pytest.mark.parametrize("block", ["npu_tiles", "npu_gemm"])
@pytest.mark.parametrize(
    "shape", [ArrayShape(8, 8, "ws"), ArrayShape(8, 8, "os"), ArrayShape(1, 5), ArrayShape(5, 1, "os")]
)
def test_other_shapes(block: str, shape: ArrayShape) -> None:
    (found,) = verify(block, "gddr6_pim_gpt", commands=1500, seed=2, sizes=shape._asdict())
    assert (found.block, found.mismatches, found.first_mismatch) == (block, 0, None) and found.commands >= 1500
