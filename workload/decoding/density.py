"""Attention that looks at a part of what it could: what is gained, what is needed, and how heads are shared."""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple

from pimloom.arch.error import UserError, of_option


class Density(NamedTuple):
    """share: of all pairs of tokens that are looked at; selection: what finding them takes, as a share of looking at
    all; prompts: only of these, or of all tokens."""

    share: float
    selection: float = 0.0
    prompts: bool = True

    @property
    def of_full(self) -> float:
        """Time of attention, as a share of that of all pairs."""
        return self.share + self.selection


def density_of(text: str) -> Density:
    """As a user writes it: 0.19, with `selection=0.11`, `phase=prefill` or `phase=all`. Raises UserError.

    >>> density_of("0.19, selection=0.11")
    Density(share=0.19, selection=0.11, prompts=True)
    """
    first, *others = (part.strip() for part in text.split(","))
    words = dict(part.partition("=")[::2] for part in others)
    if len(words) < len(others) or not words.keys() <= {"selection", "phase"}:
        raise of_option("density", text, "expected a share such as 0.19, then selection=0.11 or phase=all")
    phase = words.get("phase", "prefill")
    if phase not in ("prefill", "all"):
        raise of_option("density", text, "expected phase=prefill or phase=all")
    try:
        share, selection = float(first), float(words.get("selection", 0))
    except ValueError:
        raise of_option("density", text, "expected numbers, such as 0.19, selection=0.11") from None
    if not 0 < share <= 1 or not 0 <= selection <= 1:
        raise of_option("density", text, "expected a share above 0 and at most 1, and a selection from 0 to 1")
    return Density(share, selection, phase == "prefill")


def needed(speedup: float, selection: float = 0.0) -> float:
    """The share that attention may look at for it to be so many times as fast.

    >>> round(needed(3.36, 0.11), 3)
    0.188
    """
    return 1 / speedup - selection


def of_part(speedup: float, part: float) -> float:
    """How many times as fast a part must be for all to be `speedup` times as fast. Raises UserError if it cannot be.

    >>> round(of_part(3.02, 0.95), 2)
    3.38
    """
    if (left := 1 / speedup - (1 - part)) <= 0:
        raise UserError(f"{speedup:g} times as fast by a part of {part:g}: expected less than {1 / (1 - part):.3g}")
    return part / left


def rows_kept(share: float, block: int, row: int) -> float:
    """Share of a memory's rows that must be opened, if blocks of tokens are kept at random: a row is skipped only if
    all blocks in it are.

    >>> rows_kept(0.25, 64, 64), rows_kept(0.5, 64, 128), rows_kept(0.5, 64, 32)
    (0.25, 0.75, 0.5)
    """
    return 1 - (1 - share) ** max(row / block, 1)


def longest_first(loads: Sequence[float], devices: int) -> list[int]:
    """The device of each load: the largest first, each to the one that has least."""
    free: list[tuple[float, int]] = [(0.0, i) for i in range(devices)]
    heapify(free)
    found = [0] * len(loads)
    for i in sorted(range(len(loads)), key=lambda i: -loads[i]):
        had, device = free[0]
        found[i] = device
        heapreplace(free, (had + loads[i], device))
    return found


def slowest(loads: Sequence[float], devices: Sequence[int]) -> float:
    """What the device that has most has."""
    sums = dict.fromkeys(devices, 0.0)
    for load, device in zip(loads, devices, strict=True):
        sums[device] += load
    return max(sums.values())
