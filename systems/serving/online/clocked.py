"""Requests on the clock of a scheduler, to their end."""

from collections import deque
from collections.abc import Sequence
from functools import partial

from pimloom.arch.error import UserError
from pimloom.arch.name_units import counted
from pimloom.systems.serving.clock.cluster import ROUTERS, Runs, serve
from pimloom.systems.serving.clock.compiled import CompiledReplica
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.online import compiled
from pimloom.systems.serving.online.plan import Plan
from pimloom.systems.serving.options.spans import check_end
from pimloom.systems.serving.pricing.costs import Progress
from pimloom.systems.serving.results.record import Record
from pimloom.systems.serving.schedulers.live import LiveRequest, Scheduler


def run(live: list[LiveRequest], schedulers: list[Scheduler], record: Record, plan: Plan, progress: Progress) -> None:
    """Serve them. Raises UserError if some are left that nobody ever serves."""
    machines = None if plan.exact else compiled.replicas_of(live, schedulers, record, plan.stages)
    replicas: Sequence[Replica | CompiledReplica] = machines or [
        Replica(scheduler, record.price, plan.stages, partial(record.seen, i, scheduler))
        for i, scheduler in enumerate(schedulers)
    ]
    route, arrived = ROUTERS[plan.router](replicas), 0

    def told(request: LiveRequest) -> Runs:
        nonlocal arrived
        progress(arrived, len(live))
        arrived += 1
        return route(request)

    coming = live[: plan.clients] if plan.clients else live
    if plan.clients:
        follow(live[plan.clients :], replicas)
    serve(coming, replicas, told)
    if machines:
        compiled.tell(machines, record)
    progress(len(live), len(live))
    check_ended(live, record)


def check_ended(live: Sequence[LiveRequest], *records: Record) -> None:
    """Raise UserError if some are left that nobody ever serves, or until a time that clocks do not count."""
    check_end(max((max(record.end, default=0) for record in records), default=0))
    left = [request for request in live if request.completion < 0]
    if left:
        which, known = f"request {left[0].number}", max(request.known for request in left)
        which += f" and {len(left) - 1:,} more wait" if left[1:] else " waits"
        raise UserError(
            f"{which} for ever: what is known by now, of one {counted(known, 'token')}, fits no iteration; give "
            "--batch-tokens or --blocks more"
        )


def follow(later: list[LiveRequest], replicas: Sequence[Replica | CompiledReplica]) -> None:
    """Each request that ends on a replica has the next of those `later` arrive there at once."""
    waiting = deque(later)

    def ended(replica: Runs, now: int, count: int) -> None:
        for _ in range(min(count, len(waiting))):
            request = waiting.popleft()
            request.arrival = now
            replica.arrive(request, now)

    for replica in replicas:
        replica.ended = partial(ended, replica)
