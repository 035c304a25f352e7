"""What a verification of a block says."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pimloom.rtl.flow.simulator.run import WAVES

Progress = Callable[[int, int], None]


class Verified(NamedTuple):
    """One block on one part. commands: those compared; of a block that takes none, the operations, which are pairs,
    elements of vectors or clocks.

    rules_bound: rules that decided the clock of a command at least once: one clock more and it would have issued
    later. sleeping_rules: of the others, why they did not. coverage: for each rule the number of the first case that it
    decided, or None. first_mismatch: a sentence; waves: file of the waveform that was kept.
    """

    block: str
    part: str
    simulator: str
    commands: int
    mismatches: int
    rules_bound: int
    rules_total: int
    sleeping_rules: dict[str, str]
    cycles: int
    cycles_per_s: float
    first_mismatch: str | None = None
    waves: str | None = None
    coverage: dict[str, int | None] | None = None


def wave_file(block: str, part: str, seed: int) -> Path:
    """Where a waveform is kept that nobody asked for."""
    return Path(f"{block}-{Path(part).stem.replace(' ', '-')}-{seed}{WAVES}")
