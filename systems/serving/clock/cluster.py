"""Replicas that share nothing but a router, which sends each request to one of them when it arrives."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import cycle
from typing import Protocol

from pimloom.systems.serving.schedulers.live import NEVER, LiveRequest


class Runs(Protocol):
    """A replica, whatever runs it."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        ...

    @property
    def due(self) -> int:
        """The tick of the next event."""
        ...

    def arrive(self, request: LiveRequest, now: int) -> None:
        """A request joins those that wait."""
        ...

    def run_until(self, until: int) -> None:
        """All that happens before a tick."""
        ...


Router = Callable[[LiveRequest], Runs]


def round_robin(replicas: Sequence[Runs]) -> Router:
    """One after the other, from the first on."""
    turn = cycle(replicas)
    return lambda request: next(turn)


def least_waiting(replicas: Sequence[Runs]) -> Router:
    """The one with the fewest that wait at that moment, whoever runs there; of equal ones the first."""
    return lambda request: min(replicas, key=lambda replica: replica.waiting)


ROUTERS = {"round-robin": round_robin, "least-waiting": least_waiting}


def serve(requests: Sequence[LiveRequest], replicas: Sequence[Runs], router: Router) -> None:
    """Run until no event is left. requests: in order of arrival. At each tick only replicas with an event are visited,
    in their order."""
    place, due = {id(replica): i for i, replica in enumerate(replicas)}, list[tuple[int, int]]()
    for request in requests:
        ready = set[int]()
        while due and due[0][0] < request.arrival:
            ready.add(heappop(due)[1])
        for i in sorted(ready):
            replicas[i].run_until(request.arrival)
            if replicas[i].due != NEVER:
                heappush(due, (replicas[i].due, i))
        chosen = router(request)
        before = chosen.due
        chosen.arrive(request, request.arrival)
        if chosen.due < before:
            heappush(due, (chosen.due, place[id(chosen)]))
    for replica in replicas:
        replica.run_until(NEVER)
