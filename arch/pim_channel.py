"""A channel of PIM DRAM behind its controller: the controller's sizes, and when what may issue."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from pimloom.arch.part import Part, Positive

Entries = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**6)]


class Controller(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    pim_queue_entries: Entries = 1
    window: Annotated[int, msgspec.Meta(ge=1, le=65536)]
    row_hit_cap: Positive
    drain_idle: Count
    pim_floor_ck: Count = 0
    offers_per_ck: Annotated[int, msgspec.Meta(ge=1, le=16)]


class ChannelRules(NamedTuple):
    """What may issue when, beside the timings; the defaults are the physics.

    unbound: timings of the part that bind nothing here. group_counted: an ACT before a G_ACT binds each bank that it
    opens. gemv_answers_last: a result is read behind the last COMP of its PIM_GEMV. tiles_whole: a PIM_HEADER waits for
    all commands of its tile. slack_exact: the time until a refresh is that of now, and what is left of it ages.
    """

    unbound: tuple[str, ...] = ()
    group_counted: bool = True
    gemv_answers_last: bool = True
    tiles_whole: bool = True
    slack_exact: bool = True


Mode = Literal["dram", "blocked", "dual"]
PrechargeScope = Literal["bank", "group", "channel"]


class PimChannel(NamedTuple):
    """A part, its controller, its rules, and which PIM rows one PIM_PRECHARGE closes.

    mode: no PIM; PIM in the only row buffer (part with `pim: newton`); PIM in a row buffer of its own (`pim: neupims`).
    """

    part: Part
    mode: Mode
    controller: Controller
    rules: ChannelRules = ChannelRules()
    pim_precharge: PrechargeScope = "bank"

    def device(self) -> Part:
        """The part without the timings that bind nothing."""
        timing = {name: time for name, time in self.part.timing.items() if name not in self.rules.unbound}
        return msgspec.structs.replace(self.part, timing=timing)
