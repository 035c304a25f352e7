# amaranth: UnusedElaboratable=no
"""The channel of an NPU with PIM as a block that a user can name."""

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.pim_channel import Controller, Mode, PimChannel
from pimloom.arch.system import load_system
from pimloom.rtl.npu_pim.channel import NpuPimChannel

SYSTEM = "neupims"  # whose controller and lanes the block has
MODES: dict[str | None, Mode] = {"neupims": "dual", "newton": "blocked"}
SHORT = {"entries": 8, "queue_entries": 4, "pim_queue_entries": 16, "window": 32}  # places: each is registers here


def mode_of(part: Part) -> Mode:
    """How PIM shares the part's rows. Raises UserError for a part without PIM commands that copy and announce."""
    if part.pim not in MODES:
        needs = f"needs pim: {' or '.join(map(str, MODES))}, as part hbm2_neupims has it"
        raise UserError(f"{part.description}: a channel of an NPU with PIM {needs}")
    return MODES[part.pim]


def controller() -> tuple[Controller, int]:
    """The system's controller with short queues, and the lanes of its PIM units."""
    system = load_system(SYSTEM).of_kind(NpuPimSystem)
    return msgspec.structs.replace(system.controller, **SHORT), system.dram.lanes


def channel_of(part: Part, kept: int) -> NpuPimChannel:
    """A channel of the part, whose banks hold that many rows."""
    own, lanes = controller()
    return NpuPimChannel(PimChannel(part, mode_of(part), own), lanes, kept)
