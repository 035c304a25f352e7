"""Which experts run on the xPU and which on Logic-PIM, when both work at once: Duplex's co-processing.

Yun et al., MICRO 2024, section on expert co-processing, and HeliosZhou/LLMSimulator@f71dde4 [secondary S], restated.
Times are in any unit, one for each expert; experts of a group (of a memory space) stay together. `time` of both sides:
the larger, where they do not hinder one another.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError

SPACES = 4  # memory spaces of a device, one for each bundle of a pseudo channel [paper]
MOST = 16  # groups of which the optimum is looked for


class ExpertSplit(NamedTuple):
    """Experts on the xPU, in order, and the time until both processors are done."""

    xpu: tuple[int, ...]
    time: float


Groups = Sequence[Sequence[int]]
Time = Callable[[float, float], float]  # of what the xPU and Logic-PIM take by themselves


def alone(experts: int) -> tuple[tuple[int, ...], ...]:
    """Every expert a group of its own."""
    return tuple((i,) for i in range(experts))


def contiguous(experts: int, spaces: int = SPACES) -> tuple[tuple[int, ...], ...]:
    """Neighbours share a memory space, as in S; no more experts than spaces: every one alone. Raises UserError unless
    they come out even.

    >>> contiguous(8), contiguous(3)
    (((0, 1), (2, 3), (4, 5), (6, 7)), ((0,), (1,), (2,)))
    """
    if experts <= spaces:
        return alone(experts)
    if experts % spaces:
        raise UserError(f"{experts} experts on a device: expected a multiple of its {spaces} memory spaces")
    each = experts // spaces
    return tuple(tuple(range(i, i + each)) for i in range(0, experts, each))


def dealt_round(experts: int, spaces: int = SPACES) -> tuple[tuple[int, ...], ...]:
    """Expert i lies in space i mod `spaces`, as in the paper; any number of them.

    >>> dealt_round(6)
    ((0, 4), (1, 5), (2,), (3,))
    """
    return tuple(tuple(range(i, experts, spaces)) for i in range(min(spaces, experts)))


def spaces_of(groups: Groups) -> tuple[int, ...]:
    """The memory space of each expert: experts of a group lie in one.

    >>> spaces_of(dealt_round(6)), spaces_of(contiguous(8))
    ((0, 1, 2, 3, 0, 1), (0, 0, 1, 1, 2, 2, 3, 3))
    """
    space = {expert: number for number, group in enumerate(groups) for expert in group}
    return tuple(space[expert] for expert in sorted(space))


def busiest_to_xpu(
    tokens: Sequence[int], xpu: Sequence[float], pim: Sequence[float], groups: Groups, time: Time = max
) -> ExpertSplit:
    """S: all on Logic-PIM; the group of most tokens moves to the xPU while the time falls, up to the first that does
    not make it fall. Of equal ones the first."""
    moved: list[int] = []
    on_xpu, on_pim = 0.0, sum(pim)
    for g in sorted(range(len(groups)), key=lambda g: -sum(tokens[i] for i in groups[g])):
        more, less = (sum(times[i] for i in groups[g]) for times in (xpu, pim))
        if time(on_xpu + more, on_pim - less) >= time(on_xpu, on_pim):
            break
        on_xpu, on_pim = on_xpu + more, on_pim - less
        moved += groups[g]
    return _split(moved, xpu, pim, time)


def idlest_to_pim(
    tokens: Sequence[int], xpu: Sequence[float], pim: Sequence[float], groups: Groups, time: Time = max
) -> ExpertSplit:
    """The paper: all on the xPU; one group after the other, fewest tokens first, moves to Logic-PIM; of all these
    splits the one of the least time, of equal ones the first."""
    left = sorted(range(len(groups)), key=lambda g: sum(tokens[i] for i in groups[g]))
    splits = [_split([i for g in left[moved:] for i in groups[g]], xpu, pim, time) for moved in range(len(left) + 1)]
    return min(splits, key=lambda split: split.time)


def optimum(xpu: Sequence[float], pim: Sequence[float], groups: Groups, time: Time = max) -> ExpertSplit:
    """The least time of all splits, of equal ones that with the first groups on Logic-PIM. Raises UserError: more than
    MOST groups."""
    if len(groups) > MOST:
        few = f"the optimum is looked for among at most {MOST}"
        raise UserError(f"{len(groups)} groups of experts: {few}; take another `router`")
    on = np.arange(1 << len(groups))[:, None] >> np.arange(len(groups)) & 1
    more, less = (np.array([sum(times[i] for i in group) for group in groups]) for times in (xpu, pim))
    sides = zip((on @ more).tolist(), ((1 - on) @ less).tolist(), strict=True) if len(groups) else [(0.0, 0.0)]
    best = int(np.argmin([time(*each) for each in sides]))
    return _split([i for g, group in enumerate(groups) if best >> g & 1 for i in group], xpu, pim, time)


def read_units(tokens: int, op_per_byte: float, times_bandwidth: float = 1, share: float = 1) -> float:
    """S's time of an expert in the time in which the pins read its weights: reading bounds it, or `tokens` products
    with each weight at `op_per_byte` (two operations for two bytes); share: of the bandwidth that is counted on."""
    return max(1.0, share * tokens / op_per_byte) / times_bandwidth


def _split(moved: Sequence[int], xpu: Sequence[float], pim: Sequence[float], time: Time) -> ExpertSplit:
    there = set(moved)
    times = sum(xpu[i] for i in there), sum(t for i, t in enumerate(pim) if i not in there)
    return ExpertSplit(tuple(sorted(there)), time(*times))
