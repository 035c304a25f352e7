# amaranth: UnusedElaboratable=no
"""Every decision, count and edge of the NPU's blocks and of the small machine's own, wrong in the gates alone: the
models tell each from the right one, but for those that change nothing, and one that changes something seldom."""

from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.flow.npu import engine, sequence
from pimloom.rtl.flow.npu.engine import draw_cases, run_gemms
from pimloom.rtl.flow.npu.sequence import Size, draw_sizes, run_script, script
from pimloom.rtl.flow.npu.vector import vector_scene
from pimloom.rtl.flow.scenes.scene import mismatches, play
from pimloom.rtl.flow.simulator.environment import SimulationError
from pimloom.rtl.flow.system import parts
from pimloom.rtl.flow.system import verify as machine
from pimloom.rtl.flow.system.places import sizes_of
from pimloom.rtl.flow.system.program import Programs, Steps
from pimloom.rtl.flow.system.toy import Toy
from pimloom.rtl.npu.gemm import Gemm
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.tiles import TileSequencer
from pimloom.rtl.npu.vector import Op, VectorUnit
from pimloom.rtl.system import attention, plan
from pimloom.rtl.system.dots import Dots
from pimloom.rtl.system.plan import MOVE, NpuKind
from pimloom.rtl.verilog import to_verilog
from tests import machine_mutants
from tests.bent_sources import Bent, bend, reading
from tests.gemm_cases import PLAIN, READY, READY_OS, SLOWLY_TAKEN, late_halves
from tests.npu_mutants import GEMM, SAME, SAME_VECTORS, VECTORS
from tests.simulators import needs

PART = load_part("hbm2_neupims").value
DEPTH = 8
MOVED = {"kind": int(NpuKind.VECTOR), "op": MOVE, "count": 3, "x_step": 1, "o_step": 1, "wait": 0}
NARROW = Size((1, 1, 6), True), Size((1, 1, 1), True)  # the tile before, wider, ends later; results before operands


def untold(bent: Bent, is_told: Callable[[], bool], only: Container[str] | None = None) -> list[str]:
    """What each wrong text says that nobody tells from the right one. only: these are tried."""
    bent.take(0)
    assert not is_told()
    left = []
    for number, said in enumerate(bent.said, 1):
        if only is not None and said not in only:
            continue
        bent.take(number)
        try:
            told = is_told()
        except (SimulationError, ValueError, IndexError):  # it never ends, or does what no command does
            told = True
        if not told:
            left.append(said)
    return left


def shaken(steps: Steps, rng: Random) -> Steps:
    """More steps wait for all before them. Before commands and additions some elements are moved to where they are;
    between commands the vector that was written last is written again."""
    found, written = Steps(), Steps()
    for step in steps:
        if step.get("place") == 0 and "channel" not in step:
            written = [step]
        elif "dot" in step and written:
            moved = [MOVED | {"x": written[0]["x"], "o": written[0]["x"]}]
            found += rng.choice([[], moved, written, [*moved, *written]])
        elif step.get("op") == Op.ADD:
            found.append(MOVED | {"x": step["x"], "o": step["x"], "wait": step["wait"]})
        found.append(step | {"wait": 1} if step["kind"] and rng.random() < 0.2 else step)
    return found


def machine_case(tight: bool, monkeypatch: pytest.MonkeyPatch) -> machine.Case:
    """More rows than the array has in one sub-batch. tight: programs that wait often, queues and memories so short that
    they wait for them."""
    if not tight:
        return machine.case_of(PART, Toy(layers=2, contexts=((13, 2, 1, 5, 16, 4), (7,))), 3)
    for name, entries in {"entries": 2, "queue_entries": 2, "pim_queue_entries": 2}.items():
        monkeypatch.setitem(plan.SHORT, name, entries)
    monkeypatch.setattr(attention, "Dots", partial(Dots, most=2))
    monkeypatch.setattr(parts, "RESULTS", 2)
    case, rng = machine.case_of(PART, Toy(layers=2, contexts=((13, 2, 1, 5, 16), (7,))), 3), Random(1)
    own: list[dict[Any, Steps]] = [case.programs.npu, *case.programs.channels]
    npu, *channels = ({job: shaken(steps, rng) for job, steps in jobs.items()} for jobs in own)
    longest = max(sum(map(len, jobs.values())) for jobs in (npu, *channels))
    sizes = sizes_of(PART, case.toy, case.places, longest)
    return case._replace(programs=Programs(npu, channels), sizes=sizes)


@pytest.mark.slow  # most of an hour: two netlists, and a second for each wrong text
def test_of_the_machine(tmp_path: Path) -> None:
    left = untold_by_machine(False, tmp_path)
    expected = machine_mutants.SAME.keys() | machine_mutants.SELDOM.keys()
    assert set(untold_by_machine(True, tmp_path, left)) == expected


def untold_by_machine(tight: bool, folder: Path, only: Container[str] | None = None) -> list[str]:
    """As `untold`, of a token of a toy decoder."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        case = machine_case(tight, monkeypatch)
        ran, made = machine.run_model(case)
        bent, most = bend(machine_mutants.MACHINE, folder, monkeypatch), ran.stages[-1].end + 1000
        verilog = bent.verilog(to_verilog(reading(machine.ToyMachine(case), bent), machine.TOP))

        def is_told() -> bool:
            found = machine.run_gates(case, verilog, most, needs("verilator"))
            return bool(machine.mismatches(case, ran, made, found))

        return untold(bent, is_told, only)


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
