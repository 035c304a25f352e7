# amaranth: UnusedElaboratable=no
"""Runs of blocks as they are emitted, beside their models, with the waveform that is recorded."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pimloom.arch.part import Part
from pimloom.rtl.axi import DEPTH, SequencerAxi
from pimloom.rtl.flow import channel
from pimloom.rtl.flow.axi.host import draw_scripts
from pimloom.rtl.flow.axi.verify import play as play_host
from pimloom.rtl.flow.axi.verify import wrong as host_mismatches
from pimloom.rtl.flow.cosim import walk
from pimloom.rtl.flow.interleave import verify_interleave
from pimloom.rtl.flow.npu.engine import verify_gemm
from pimloom.rtl.flow.npu.sequence import verify_tiles
from pimloom.rtl.flow.npu.systolic import verify_array
from pimloom.rtl.flow.npu_pim.channel import all_mismatches, draw_words, filled, run_channel
from pimloom.rtl.flow.npu_pim.traffic import draw_traffic
from pimloom.rtl.flow.scenes import optics
from pimloom.rtl.flow.scenes.scene import mismatches, play
from pimloom.rtl.flow.sequencer import corners, most_ck
from pimloom.rtl.flow.sequencer import mismatches as differ
from pimloom.rtl.flow.simulator.run import instead
from pimloom.rtl.flow.stimulus import draw_own_cases
from pimloom.rtl.flow.verify import SCENES
from pimloom.rtl.npu_pim.channel import NpuPimChannel
from pimloom.rtl.pim_channel import PimChannel

OPERATIONS = 200  # commands or operations that are recorded
HOSTED = 100  # commands of a host, which takes several clocks for each
ROWS, TILES, TRAFFIC_CK = 2, 8, 1500  # of a PIM channel: rows that are used, tiles, clocks behind the last request
SEED = 1

Run = Callable[[Any, Any, str, Path], str]  # of a component, its part, its Verilog: what is wrong first, or nothing


def _sequencer(block: Any, part: Part, verilog: str, waves: Path) -> str:
    cases = list(draw_own_cases(part, part.organization, OPERATIONS, SEED, block.apart))
    cases += corners(cases[0].table, part.organization, SEED, block.apart)
    walks = walk(cases, 1, 0, most_ck=most_ck(cases), waves=waves, verilog=verilog).walks
    return next((said for case, found in zip(cases, walks, strict=True) for n, said in [differ(case, found)] if n), "")


def _sequencer_axi(block: Any, part: Part, verilog: str, waves: Path) -> str:
    organization = part.organization
    banks = organization.bank_groups, organization.banks_per_group
    scripts = list(draw_scripts(part, banks, HOSTED, SEED, often=False))
    same = SequencerAxi(part, DEPTH, scripts[0].told.part, block.phases)
    seen, _, _ = play_host(scripts, same, "verilator", waves, verilog)
    pairs = zip(scripts, seen, strict=True)
    wrong = [sentence for pair in pairs for sentence in host_mismatches(*pair, DEPTH, block.phases)]
    return wrong[0] if wrong else ""


def _scene(name: str, block: Any, part: Part, verilog: str, waves: Path) -> str:
    return _played(name, SCENES[name](block, part, np.random.default_rng(SEED), OPERATIONS), verilog, waves)


def _played(name: str, scene: Any, verilog: str, waves: Path) -> str:
    wrong = mismatches(scene, play(verilog, name, scene, "verilator", waves))
    return wrong[0] if wrong else ""


def _switch(block: Any, part: Any, verilog: str, waves: Path) -> str:
    scene = optics.switch_scene([optics.own_switch_case(block.switch_table, SEED)], False)
    return _played("ocs_switch", scene, verilog, waves)


def _array(verify: Callable[..., Any], block: Any, part: Any, verilog: str, waves: Path) -> str:
    with instead(lambda own, top: verilog):
        found = verify("", block.shape, "verilator", OPERATIONS, SEED, waves, _silent)
    return found.first_mismatch or ""


def _interleave(block: Any, part: Any, verilog: str, waves: Path) -> str:
    with instead(lambda own, top: verilog):
        found = verify_interleave("", part, "verilator", OPERATIONS, SEED, waves, _silent, block.sub_batches)
    return found.first_mismatch or ""


def _npu_channel(block: NpuPimChannel, part: Part, verilog: str, waves: Path) -> str:
    """A few rows are written, then PIM and accesses meet in them."""
    spec, kept = block.spec, block.device.kept
    organization = msgspec.structs.replace(spec.part.organization, rows=ROWS)
    few = spec._replace(part=msgspec.structs.replace(spec.part, organization=organization))
    traffic = filled(few, draw_traffic(few, SEED, OPERATIONS, TILES))
    words, lanes = draw_words(few, traffic, SEED), block.device.lanes
    clocks = int(traffic.data["when"].max()) + TRAFFIC_CK
    found = run_channel(spec, lanes, traffic, words, clocks, waves=waves, verilog=verilog, kept=kept)
    wrong = all_mismatches(spec, [found])
    return wrong[0] if wrong else ""


def _channel(block: PimChannel, part: Part, verilog: str, waves: Path) -> str:
    """A product with a row of each bank."""
    banks = part.organization.bank_groups, part.organization.banks_per_group
    job = channel.random_product(part, banks, 1, SEED)
    with instead(lambda own, top: verilog):
        found = channel.run_channel(part, block.kept, job.stream, job.data, waves=waves)
    wrong = channel.mismatches(job, found)
    return wrong[0] if wrong else ""


def _silent(done: int, total: int) -> None:
    """Nobody waits."""


RUNS: dict[str, Run] = {
    **{name: partial(_scene, name) for name in SCENES},
    "sequencer": _sequencer,
    "sequencer_axi": _sequencer_axi,
    "systolic": partial(_array, verify_array),
    "npu_tiles": partial(_array, verify_tiles),
    "npu_gemm": partial(_array, verify_gemm),
    "interleave": _interleave,
    "npu_pim_channel": _npu_channel,
    "pim_channel": _channel,
    "ocs_switch": _switch,
}
