"""One switch that joins all GPUs: the ideal that no fabric can beat."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BigSwitch:
    """All GPUs in one domain: any healthy GPUs form a group."""

    name: str
    summary: str


BIG_SWITCH = BigSwitch("big-switch", "one ideal switch over all GPUs: a bound")
