"""The result of a program on an AiM device. Its field names are a contract; see CONVENTIONS.md."""

import msgspec

from pimloom.systems.viewed import Viewed


class AimOutcome(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """One program of host instructions on one AiM device. Names end in their unit; cycles are CK of `tck_ps`.

    cycles: until EOC is answered. instructions: by name, as the host wrote them. channel: the one that `commands`,
    `active_cycles` and `precharged_cycles` tell of; commands: by AiM's names; active: clocks with a row open.
    commands_of_all: of all channels; active_cycles_mean: over them. bandwidth: columns that banks multiplied with, or
    moved, of all channels, in bytes by time.
    """

    config: str
    part: str
    channels: int
    cycles: int
    tck_ps: int
    time_s: float
    instructions: dict[str, int]
    channel: int
    commands: dict[str, int]
    active_cycles: int
    precharged_cycles: int
    commands_of_all: dict[str, int]
    active_cycles_mean: float
    bandwidth_gb_s: float
    warnings: list[str]
    spec_digest: str
    version: str
    wall_s: float
