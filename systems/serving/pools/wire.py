"""The link between pools: keys and values in the order in which they are there to be sent, one after the other."""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count

from pimloom.arch.units import BITS_PER_BYTE, PS_PER_NS, PS_PER_S
from pimloom.systems.serving.pools.written import Link
from pimloom.systems.serving.schedulers.live import NEVER, Iteration
from pimloom.workload.routing import even

BITS_PER_GBIT = 10**9


class Wire:
    """token_bytes: keys and values of a token, of all layers and all devices that share it. due: the next tick at which
    something begins or arrives; busy: ticks in which it carries something."""

    def __init__(self, link: Link, token_bytes: float, layers: int) -> None:
        self.ps_per_token = token_bytes * BITS_PER_BYTE / (link.gbps * BITS_PER_GBIT) * PS_PER_S
        self.latency, self.layers = round(link.latency_ns * PS_PER_NS), layers
        self.free = self.busy = 0
        self._parts = list[tuple[int, int, int, int, bool]]()  # from when on, order, ticks, request, whether the last
        self._landing = list[tuple[int, int, int]]()
        self._order = count()

    @property
    def due(self) -> int:
        """NEVER if nothing is on its way."""
        begins = max(self.free, self._parts[0][0]) if self._parts else NEVER
        return min(begins, self._landing[0][0] if self._landing else NEVER)

    def send(self, request: int, tokens: int, now: int) -> None:
        """A cache that is all there."""
        self._put(now, round(tokens * self.ps_per_token), request, True)

    def stream(self, made: Iteration, starts: Sequence[int], sent: dict[int, tuple[int, int, bool]]) -> None:
        """What an iteration adds, layer by layer, each of which takes as long in its stage: of each request that is
        `sent` its tokens from one to another, and whether those are the last. starts: ticks, of each stage."""
        of = zip(starts, even(self.layers, len(starts)), strict=True)
        there = [start + made.ticks * layer // layers for start, layers in of for layer in range(1, layers + 1)]
        for request, (first, last, ends) in sent.items():
            done = 0
            for layer, tick in enumerate(there, 1):
                at = round((last - first) * self.ps_per_token * layer / self.layers)
                self._put(tick, at - done, request, ends and layer == self.layers)
                done = at

    def _put(self, at: int, ticks: int, request: int, last: bool) -> None:
        heappush(self._parts, (at, next(self._order), ticks, request, last))

    def arrived(self, now: int) -> list[int]:
        """Requests whose cache is there by now."""
        while self._parts and max(self.free, self._parts[0][0]) <= now:
            at, order, ticks, request, last = heappop(self._parts)
            self.free = max(self.free, at) + ticks
            self.busy += ticks
            if last:
                heappush(self._landing, (self.free + self.latency, order, request))
        found = list[int]()
        while self._landing and self._landing[0][0] <= now:
            found.append(heappop(self._landing)[2])
        return found
