"""Replicas that share nothing but a router, which sends each request to one of them when it arrives."""

from collections.abc import Callable, Sequence
from itertools import cycle

from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.schedulers.live import NEVER, LiveRequest

Router = Callable[[LiveRequest], Replica]


def round_robin(replicas: Sequence[Replica]) -> Router:
    """One after the other, from the first on."""
    turn = cycle(replicas)
    return lambda request: next(turn)


def least_waiting(replicas: Sequence[Replica]) -> Router:
    """The one with the fewest that wait at that moment, whoever runs there; of equal ones the first."""
    return lambda request: min(replicas, key=lambda replica: len(replica.scheduler.waiting))


ROUTERS = {"round-robin": round_robin, "least-waiting": least_waiting}


def serve(requests: Sequence[LiveRequest], replicas: Sequence[Replica], router: Router) -> None:
    """Until nothing happens any more. requests: in the order in which they arrive."""
    for request in requests:
        for replica in replicas:
            replica.run_until(request.arrival)
        router(request).arrive(request, request.arrival)
    for replica in replicas:
        replica.run_until(NEVER)
