"""MuxFlow: offline work beside online services on one machine each, bounded by what it may slow the service down.

Each kind of work tells which parts of compute and of memory it keeps busy while it runs. Beside one another both get
what they want as long as there is enough of each; else all slow down alike. Online work is protected: offline work has
the largest share with which an iteration of the service becomes at most so much longer. Jobs go to machines, one to
each, so that the sum of what they get done, as parts of what they would do alone, is largest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from pimloom.systems.devices.run import Run


class Wants(NamedTuple):
    """Parts of compute and memory that are busy while it runs by itself; active: of the time in which it runs."""

    compute: float
    memory: float
    active: float = 1.0


class Match(NamedTuple):
    """A job on a service's machine: the share that it has, and what it gets done of what it would alone."""

    service: int
    job: int
    share: float
    done: float


class Use(NamedTuple):
    """Over all machines, means of time: a machine does something; compute and memory that are busy."""

    busy: float
    compute: float
    memory: float


def wants(run: Run, active: float = 1.0) -> Wants:
    """Of an iteration on a device."""
    compute, memory = (min(run.least_ps.get(name, 0) / run.end_ps, 1.0) for name in ("compute", "memory bandwidth"))
    return Wants(compute, memory, active)


def slowdown(online: Wants, offline: Wants, share: float) -> float:
    """By how much an iteration of the service is longer while a job has a share.

    >>> slowdown(Wants(0.5, 0.8), Wants(0.5, 0.5), 0.6)
    1.1
    """
    compute, memory = online.compute + share * offline.compute, online.memory + share * offline.memory
    return max(1.0, round(compute, 12), round(memory, 12))


def share_within(online: Wants, offline: Wants, bound: float) -> float:
    """The largest share of a job that slows the service down by at most `bound`, 1 or more."""
    pairs = ((online.compute, offline.compute), (online.memory, offline.memory))
    return max(min([1.0, *((bound - on) / off for on, off in pairs if off)]), 0.0)


def done(online: Wants, offline: Wants, share: float) -> float:
    """What of its own rate a job has: its share while the service runs, slowed down with it, and all of it else."""
    return online.active * share / slowdown(online, offline, share) + (1 - online.active)


def matched(online: Sequence[Wants], jobs: Sequence[Wants], bound: float) -> list[Match]:
    """One job for each machine at most; the largest sum."""
    if not online or not jobs:
        return []
    shares = [[share_within(on, off, bound) for off in jobs] for on in online]
    worth = np.array([[done(on, off, shares[i][j]) for j, off in enumerate(jobs)] for i, on in enumerate(online)])
    rows, columns = linear_sum_assignment(worth, maximize=True)
    return [
        Match(int(i), int(j), shares[int(i)][int(j)], float(worth[i, j])) for i, j in zip(rows, columns, strict=True)
    ]


def use(online: Sequence[Wants], jobs: Sequence[Wants] = (), found: Sequence[Match] = ()) -> Use:
    """Of all machines, with the jobs that were found for them."""
    busy, compute, memory = [], [], []
    beside = {one.service: one for one in found}
    for i, on in enumerate(online):
        if (match := beside.get(i)) is None:
            busy.append(on.active)
            compute.append(on.active * on.compute)
            memory.append(on.active * on.memory)
            continue
        off = jobs[match.job]
        busy.append(1.0)
        compute.append(min(on.active * on.compute + match.done * off.compute, 1.0))
        memory.append(min(on.active * on.memory + match.done * off.memory, 1.0))
    return Use(*(float(np.mean(column)) for column in (busy, compute, memory)))
