"""A channel of PIM DRAM behind its controller: the controller's sizes, and faults of a reference simulator."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from pimloom.arch.part import Part, Positive

Entries = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**6)]


class Controller(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the controller of one channel holds, and when it chooses what."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "entries": "reads, writes, and PIM commands, each, before their command queue [1]",
        "queue_entries": "entries of the command queue of a bank [1]",
        "pim_queue_entries": "entries of the command queue of PIM [1]",
        "window": "requests that may be on their way or wait to be collected [1]",
        "row_hit_cap": "accesses of an open row after which the oldest request may close it [1]",
        "drain_idle": "writes above which they drain while no command queue holds any [1]",
        "pim_floor_ck": "clocks of PIM before a refresh below which reads and writes leave it the bus [CK]",
        "offers_per_ck": "requests that enter by each port in a clock [1]",
    }

    entries: Entries
    queue_entries: Entries
    pim_queue_entries: Entries
    window: Annotated[int, msgspec.Meta(ge=1, le=65536)]
    row_hit_cap: Positive
    drain_idle: Count
    pim_floor_ck: Count
    offers_per_ck: Annotated[int, msgspec.Meta(ge=1, le=16)]


class ChannelFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Departures of NeuPIMs' simulator from physics, in one channel: true reproduces it, false repairs it."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "gemv_frees_row": "PIM_GEMV holds its row for tRTP after issue, however many COMPs it stands for",
        "gemv_answers_early": "the result of a PIM_GEMV is read nCL + nBL after issue, however many COMPs",
        "gwrites_overlap": "GWRITEs of one bank need no distance",
        "gact_counts_little": "a G_ACT after an ACT waits tRRD only, and for the first bank only that it opens",
        "gact_closes_early": "tRAS does not bind rows that G_ACT opened in a single row buffer",
        "headers_early": "a PIM_HEADER issues before the commands of its tile have come",
        "slack_stale": "a refresh in the next clock seems a whole interval away; time left for reads does not age",
    }

    gemv_frees_row: bool
    gemv_answers_early: bool
    gwrites_overlap: bool
    gact_counts_little: bool
    gact_closes_early: bool
    headers_early: bool
    slack_stale: bool


OPTIONAL_TIMING = {
    "gemv_frees_row": "nENDPRE",
    "gwrites_overlap": "nGWGW",
    "gact_counts_little": "nACTGACT",
    "gact_closes_early": "nGACTPRE",
}


Mode = Literal["dram", "blocked", "dual"]
PrechargeScope = Literal["bank", "group", "channel"]


class PimChannel(NamedTuple):
    """A part, its controller, its faults, and which PIM rows one PIM_PRECHARGE closes.

    mode: no PIM; PIM in the only row buffer (part with `pim: newton`); PIM in a row buffer of its own (`pim: neupims`).
    """

    part: Part
    mode: Mode
    controller: Controller
    faults: ChannelFaults
    pim_precharge: PrechargeScope = "bank"

    def device(self) -> Part:
        """The part without the timings that its faults leave out."""
        gone = {name for fault, name in OPTIONAL_TIMING.items() if getattr(self.faults, fault)}
        timing = {name: time for name, time in self.part.timing.items() if name not in gone}
        return msgspec.structs.replace(self.part, timing=timing)
