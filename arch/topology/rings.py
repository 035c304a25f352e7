"""Fixed rings of exactly one group each, as silicon-photonics rings are wired."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FixedRings:
    """Each group of consecutive GPUs has a ring of its own; any fault loses it."""

    name: str
    summary: str


SIP_RING = FixedRings("sip-ring", "fixed optical rings of one group; any fault loses the ring")
