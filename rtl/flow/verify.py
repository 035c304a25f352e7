# amaranth: UnusedElaboratable=no
"""`pimloom rtl verify`: blocks of the RTL against the models they are read from, on random input."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.rtl.blocks import BLOCKS, OCSTRX
from pimloom.rtl.flow.axi.verify import verify_axi
from pimloom.rtl.flow.channel import mismatches as channel_mismatches
from pimloom.rtl.flow.channel import random_product, run_product
from pimloom.rtl.flow.interleave import verify_interleave
from pimloom.rtl.flow.lookup import build, find_blocks, load_device, part_of
from pimloom.rtl.flow.npu.engine import verify_gemm
from pimloom.rtl.flow.npu.sequence import verify_tiles
from pimloom.rtl.flow.npu.systolic import verify_array
from pimloom.rtl.flow.npu.vector import vector_scene
from pimloom.rtl.flow.npu_pim.verify import verify_npu_pim
from pimloom.rtl.flow.scenes import arithmetic, functions, optics
from pimloom.rtl.flow.scenes.scene import mismatches as scene_mismatches
from pimloom.rtl.flow.scenes.scene import play
from pimloom.rtl.flow.sequencer import verify_sequencer
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import check_waves
from pimloom.rtl.flow.verified import Progress, Verified, wave_file
from pimloom.rtl.npu.shape import array_shape
from pimloom.rtl.ocs_switch import OcsSwitch
from pimloom.rtl.verilog import to_verilog

BANKS = (2, 2)  # bank groups, banks of a group, of a PIM channel: a small netlist


def verify_channel(
    name: str, part: Part, simulator: Simulator, commands: int, seed: int, waves: Path | None, progress: Progress
) -> Verified:
    """A product of random numbers on a whole channel: results bit for bit, clocks command for command."""
    progress(0, 2)
    job = random_product(part, BANKS, commands, seed)
    progress(1, 2)
    found = run_product(job, simulator=simulator, waves=waves)
    wrong = channel_mismatches(job, found)
    if wrong and not waves:
        waves = wave_file("pim_channel", name, seed)
        run_product(job, simulator=simulator, waves=waves)
    progress(2, 2)
    cycles = int(found.issue_ck.max(initial=0)) + 1
    return Verified(
        "pim_channel", name, simulator, len(found.model_ck), len(wrong), 0, 0, {},
        cycles, cycles / found.seconds, wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip


def verify_values(
    block: str,
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
) -> Verified:
    """Random numbers, and many special ones, through a block of arithmetic: bit for bit what its model says."""
    progress(0, 2)
    component = BLOCKS[block].build(part)
    scene = SCENES[block](component, part, np.random.default_rng(seed), commands)
    verilog = to_verilog(component, block)
    progress(1, 2)
    found = play(verilog, block, scene, simulator, waves)
    wrong = scene_mismatches(scene, found)
    if wrong and not waves:
        waves = wave_file(block, name, seed)
        play(verilog, block, scene, simulator, waves)
    progress(2, 2)
    cycles = int(found["cycles"])
    return Verified(
        block, name, simulator, scene.operations, len(wrong), 0, 0, {},
        cycles, cycles / float(found["seconds"]), wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip


def verify_switch(
    name: str,
    part: Part | Optics,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
) -> Verified:
    """Random transceivers and their requests through the path controller, times and tables as ports; then the part's
    own, at full length. The rules are its times."""
    progress(0, 3)
    name, own = name if isinstance(part, Optics) else OCSTRX, BLOCKS["ocs_switch"].build(part)
    cases = optics.draw_switch_cases(commands, seed)
    alone = [optics.own_switch_case(own.switch_table, seed)]
    general = OcsSwitch(cases[0].table, optics.BITS)
    jobs = [
        (to_verilog(c, "ocs_switch"), optics.switch_scene(x, x is cases)) for c, x in ((general, cases), (own, alone))
    ]
    wrong, cycles, seconds, file = list[str](), 0, 0.0, waves
    for done, (verilog, scene) in enumerate(jobs, start=1):
        found = play(verilog, "ocs_switch", scene, simulator, waves if done == 1 else None)
        cycles, seconds = cycles + int(found["cycles"]), seconds + float(found["seconds"])
        differ = scene_mismatches(scene, found)
        if differ and not wrong and (not waves or done > 1):
            file = waves or wave_file("ocs_switch", name, seed)
            play(verilog, "ocs_switch", scene, simulator, file)
        wrong += differ
        progress(done, 3)
    table = {time: optics.decides(cases, time) for time in optics.TIMES}
    asleep = {time: "in none of these cases" for time, case in table.items() if case is None}
    progress(3, 3)
    return Verified(
        "ocs_switch", name, simulator, sum(scene.operations for _, scene in jobs), len(wrong),
        len(table) - len(asleep), len(table), asleep, cycles, cycles / seconds,
        wrong[0] if wrong else None, str(file) if file else None, table,
    )  # fmt: skip


def _of_shape(verify: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the sizes of an array in place of the part, which arrays do not depend on."""

    def verify_sizes(part_name: str, part: object, *asked: Any, **sizes: Any) -> Any:
        return verify(part_name, array_shape(**sizes), *asked)

    return verify_sizes


SCENES = arithmetic.SCENES | functions.SCENES | {"npu_vector": vector_scene}
VERIFIERS: dict[str, Callable[..., Verified]] = {
    "sequencer": verify_sequencer,
    "sequencer_axi": verify_axi,
    "timer": partial(verify_values, "timer"),
    "pim_channel": verify_channel,
    "npu_pim_channel": verify_npu_pim,
    **{block: partial(verify_values, block) for block in SCENES if block != "timer"},
    "ocs_switch": verify_switch,
    "interleave": verify_interleave,
    "systolic": _of_shape(verify_array),
    "npu_tiles": _of_shape(verify_tiles),
    "npu_gemm": _of_shape(verify_gemm),
}


def verify(
    block: str | None,
    part: str,
    *,
    simulator: Simulator = "verilator",
    commands: int = 5000,
    seed: int = 0,
    waves: Path | None = None,
    progress: Progress = lambda done, total: None,
    sizes: Mapping[str, int | str] | None = None,
) -> Iterator[Verified]:
    """Verify one block, or all that the part can have. sizes: of the block, as `given_sizes` has them.

    Raises UserError for an unknown block, a missing tool, one file for all waveforms or one of the wrong kind.
    """
    if waves and block is None:
        raise UserError(f"--waves {waves}: holds the waveform of one block; name the block")
    check_waves(waves)
    part = part_of(block, part)
    device = load_device(part)
    if block:
        build(block, part, device, sizes)  # or say why not, before anything is simulated
    for name in find_blocks(block, device):
        yield VERIFIERS[name](part, device, simulator, commands, seed, waves, progress, **(sizes or {}))
