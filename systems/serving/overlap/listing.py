"""List scheduling of chains of operators over resources that they share.

Each operator takes a time by itself, and while it runs at its full rate a share of each resource. Of all operators that
could run those that have begun come first, then the one with the longest remaining chain; each runs as fast as what
those before it have left of its resources lets it. So one at least runs at its full rate: all chains take at most the
sum of their times, and at least the work of the busiest resource.
"""

from collections.abc import Sequence
from typing import NamedTuple

DIGITS = 6  # chains that differ by less are equally long
RESOURCES = ("compute", "memory", "link", "launches")


class Task(NamedTuple):
    """An operator. alone: its time by itself; shares: of RESOURCES while it runs at its full rate, 0 to 1; after: which
    operator of the chain before must have ended, None: none."""

    name: str
    alone: float
    shares: tuple[float, ...]
    after: int | None = None


class Ran(NamedTuple):
    """An operator of a chain from start to end."""

    start: float
    end: float
    chain: int
    name: str


class Schedule(NamedTuple):
    """end: of all; work: of each resource by itself; serial: the sum of all times."""

    end: float
    ran: list[Ran]
    work: tuple[float, ...]
    serial: float


def schedule(chains: Sequence[Sequence[Task]]) -> Schedule:
    """All chains from 0 on, each in its order.

    >>> a, b = Task("a", 4.0, (1.0, 0.25)), Task("b", 4.0, (0.0, 1.0))
    >>> schedule([[a], [b]]).end, schedule([[a], [a]]).end
    (5.0, 8.0)
    """
    left = [[task.alone for task in chain] for chain in chains]
    longest = [sum(times) for times in left]
    at, begun, now, ran = [0] * len(chains), [-1.0] * len(chains), 0.0, list[Ran]()
    while True:
        for k, chain in enumerate(chains):
            while at[k] < len(chain) and left[k][at[k]] <= 0:
                ran.append(Ran(now if begun[k] < 0 else begun[k], now, k, chain[at[k]].name))
                at[k], begun[k] = at[k] + 1, -1.0
        going = [k for k, chain in enumerate(chains) if at[k] < len(chain)]
        if not going:
            break
        going.sort(key=lambda k: (begun[k] < 0, -round(longest[k], DIGITS), k))
        rates = _rates(chains, at, going)
        step = min(left[k][at[k]] / rate for k, rate in rates)
        now += step
        for k, rate in rates:
            if begun[k] < 0:
                begun[k] = now - step
            rest = left[k][at[k]] - rate * step
            left[k][at[k]] = rest if rest > chains[k][at[k]].alone * 1e-12 else 0.0
            longest[k] -= rate * step
    every = [task for chain in chains for task in chain]
    wide = max((len(task.shares) for task in every), default=0)
    work = tuple(sum(task.alone * task.shares[i] for task in every) for i in range(wide))
    return Schedule(now, sorted(ran), work, sum(task.alone for task in every))


def _rates(chains: Sequence[Sequence[Task]], at: Sequence[int], going: Sequence[int]) -> list[tuple[int, float]]:
    """Of those in `going` that run, the first before the others."""
    found, room = list[tuple[int, float]](), list[float]()
    for k in going:
        task = chains[k][at[k]]
        if task.after is not None and at[k - 1] <= task.after:
            continue
        room = room or [1.0] * len(task.shares)
        rate = 1.0
        for there, share in zip(room, task.shares, strict=True):
            if share > 0:
                rate = min(rate, there / share)
        if rate > 1e-9:
            found.append((k, rate))
            room = [max(there - rate * share, 0.0) for there, share in zip(room, task.shares, strict=True)]
    return found
