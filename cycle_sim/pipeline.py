"""Micro-batches through the stages of a pipeline of devices."""

from collections.abc import Sequence
from typing import NamedTuple


class Flow(NamedTuple):
    """When each stage works on each micro-batch, from 0: `start` and `end` of shape [micro-batch][stage]."""

    start: tuple[tuple[int, ...], ...]
    end: tuple[tuple[int, ...], ...]

    @property
    def total(self) -> int:
        """Until the last micro-batch leaves the last stage."""
        return self.end[-1][-1]

    @property
    def bubble(self) -> float:
        """Share of the stages' time in which they have no micro-batch."""
        pairs = zip(self.start, self.end, strict=True)
        busy = sum(sum(ends) - sum(starts) for starts, ends in pairs)
        return 1 - busy / (len(self.end[0]) * self.total)


def flow(work: Sequence[Sequence[int]], sends: Sequence[int], latency: int = 0) -> Flow:
    """Micro-batches in order, each through all stages in order.

    work: time of each micro-batch in each stage; sends: for how long each holds the link to the next stage; latency:
    after that, until it is there; all in one unit, integers. A stage takes one micro-batch at a time; a link, one
    message at a time, beside the work of its stage.
    """
    stages = len(work[0])
    free, link = [0] * stages, [0] * stages
    starts, ends = [], []
    for times, send in zip(work, sends, strict=True):
        there, start, end = 0, [], []
        for s, time in enumerate(times):
            start.append(max(there, free[s]))
            end.append(start[-1] + time)
            free[s] = end[-1]
            link[s] = max(link[s], end[-1]) + send
            there = link[s] + latency
        starts.append(tuple(start))
        ends.append(tuple(end))
    return Flow(tuple(starts), tuple(ends))
