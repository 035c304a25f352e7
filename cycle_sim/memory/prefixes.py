"""What the first requests of a stream take on a channel, for many numbers of them: the stream is simulated once."""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from pimloom.arch.memory import Memory
from pimloom.cycle_sim.memory.addresses import address_map
from pimloom.cycle_sim.memory.channel import Channel, Tally
from pimloom.cycle_sim.memory.simulate import Chunk, placed

LEAST, SHARE = 1024, 16  # requests between places that are kept, or this share of those before, if that is more


class Prefixes:
    """A stream of requests to a memory of one channel. stream(i, j): its requests from i to before j.

    The channel is kept as it is at some places, so that what it does for the first n requests goes on from the last
    place before n: a channel that is fed piece by piece does what it does for all pieces at once. Threads may ask side
    by side. Raises ValueError for several channels.
    """

    def __init__(self, memory: Memory, stream: Callable[[int, int], Chunk]) -> None:
        if memory.channels != 1:
            raise ValueError(f"expected a memory of one channel, got {memory.channels}")
        self._map, self._stream = address_map(memory), stream
        self._kept = {0: Channel(memory, False)}

    def tally(self, n: int) -> Tally:
        """As `simulate` of the first n requests alone, but for latencies. Raises UserError."""
        at = max(place for place in list(self._kept) if place <= n)
        channel = _copied(self._kept[at])
        while at < n:
            end = at + max(LEAST, at // SHARE)
            _, requests = placed(self._map, self._stream(at, min(end, n)), at)
            channel.feed(requests)
            at = end
            if at <= n:
                self._kept[at] = _copied(channel)
        channel.settle()
        return channel.tally()


def _copied(channel: Channel) -> Channel:
    """The same channel apart, but for its histogram of latencies."""
    found, log = copy(channel), channel.state.log
    found.state = _apart(channel.state, {id(log.latency): log.latency})
    return found


def _apart(x: Any, known: dict[int, np.ndarray]) -> Any:
    """The same with arrays of its own, but for those that are known."""
    if isinstance(x, np.ndarray):
        if id(x) not in known:
            known[id(x)] = x.copy()
        return known[id(x)]
    return type(x)(*[_apart(field, known) for field in x]) if isinstance(x, tuple) else x
