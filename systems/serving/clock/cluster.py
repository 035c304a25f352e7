"""Replicas that share nothing but a router, which sends each request to one of them when it arrives."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Protocol

from pimloom.systems.serving.schedulers.live import NEVER, LiveRequest


class Runs(Protocol):
    """A replica, whatever runs it."""

    @property
    def waiting(self) -> int:
        """How many wait."""
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
    """Until nothing happens any more. requests: in the order in which they arrive."""
    for request in requests:
        for replica in replicas:
            replica.run_until(request.arrival)
        router(request).arrive(request, request.arrival)
    for replica in replicas:
        replica.run_until(NEVER)
