# amaranth: UnusedElaboratable=no
"""Every decision, count and edge of the NPU's blocks, wrong in the gates alone: the models tell each from the right
one, but for those that change nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pimloom.rtl.flow.npu import engine, sequence
from pimloom.rtl.flow.npu.engine import draw_cases, run_gemms
from pimloom.rtl.flow.npu.sequence import Size, draw_sizes, run_script, script
from pimloom.rtl.flow.npu.vector import vector_scene
from pimloom.rtl.flow.scenes.scene import mismatches, play
from pimloom.rtl.flow.simulator.environment import SimulationError
from pimloom.rtl.npu.gemm import Gemm
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.tiles import TileSequencer
from pimloom.rtl.npu.vector import VectorUnit
from pimloom.rtl.verilog import to_verilog
from tests.bent_sources import Bent, bend, reading
from tests.gemm_cases import PLAIN, READY, READY_OS, SLOWLY_TAKEN, late_halves
from tests.npu_mutants import GEMM, SAME, SAME_VECTORS, VECTORS
from tests.simulators import needs

DEPTH = 8
NARROW = Size((1, 1, 6), True), Size((1, 1, 1), True)  # the tile before, wider, ends later; results before operands


def untold(bent: Bent, is_told: Callable[[], bool]) -> list[str]:
    """What each wrong text says that nobody tells from the right one."""
    bent.take(0)
    assert not is_told()
    left = []
    for number, said in enumerate(bent.said, 1):
        bent.take(number)
        try:
            told = is_told()
        except (SimulationError, ValueError, IndexError):  # it never ends, or does what no command does
            told = True
        if not told:
            left.append(said)
    return left


@pytest.mark.slow
@pytest.mark.parametrize("shape", [ArrayShape(3, 4, "ws"), ArrayShape(3, 5, "os")], ids=str)
def test_of_gemms(shape: ArrayShape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bent, simulator = bend(GEMM[shape.dataflow], tmp_path, monkeypatch), needs("verilator")
    gemm = bent.verilog(to_verilog(reading(Gemm(shape, DEPTH), bent), "npu_gemm"))
    tiles = bent.verilog(to_verilog(reading(TileSequencer(shape, DEPTH), bent), "npu_tiles"))
    monkeypatch.setattr(engine, "to_verilog", lambda *_: gemm)
    monkeypatch.setattr(sequence, "to_verilog", lambda *_: tiles)
    rng = np.random.default_rng(2)
    cases = [*PLAIN, *READY, *READY_OS, *SLOWLY_TAKEN, *draw_cases(shape, DEPTH, rng, 150)]
    sizes = [*NARROW, *draw_sizes(shape, DEPTH, rng, 120)]
    scripts = [script(shape, DEPTH, sizes, eager) for eager in (False, True)]

    def is_told() -> bool:
        for given in scripts:
            if sequence.mismatches(shape, DEPTH, given, run_script(shape, DEPTH, given, simulator)):
                return True
        went = run_gemms(shape, DEPTH, cases, simulator)[0]
        return bool(late_halves(shape, cases, went) or engine.mismatches(shape, cases, went))

    assert set(untold(bent, is_told)) == SAME[shape.dataflow].keys()


@pytest.mark.slow
def test_of_the_vector_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bent, unit = bend(VECTORS, tmp_path, monkeypatch), VectorUnit(200)
    verilog = bent.verilog(to_verilog(reading(unit, bent), "npu_vector"))
    scene = vector_scene(unit, None, np.random.default_rng(1), 3000)

    bent.take(0)
    cycles = play(verilog, "npu_vector", scene, needs("verilator"))["cycles"]  # no model says it of many vectors

    def is_told() -> bool:
        left = play(verilog, "npu_vector", scene, needs("verilator"))
        return left["cycles"] != cycles or bool(mismatches(scene, left))

    assert set(untold(bent, is_told)) == SAME_VECTORS.keys()
