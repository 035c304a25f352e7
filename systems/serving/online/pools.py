"""Prompts on one pool of devices, decode on another, and the link that carries keys and values from one to the other:
requests through both, and one result of it all.
"""

from array import array
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, S_PER_PS
from pimloom.systems.devices.boundary import AT_REST
from pimloom.systems.serving.clock.cluster import ROUTERS
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.online.bounded import bounded
from pimloom.systems.serving.online.channels import channels_told
from pimloom.systems.serving.online.clocked import check_ended
from pimloom.systems.serving.online.running import Progress, Service, rest, sample_of, told_by, way_of
from pimloom.systems.serving.options.named import scheduler_of
from pimloom.systems.serving.pools.clock import Pooled, Routes
from pimloom.systems.serving.pools.routes import Mixed, distserve, fewest_coming, least, routed, splitwise
from pimloom.systems.serving.pools.stages import Line, Ring
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import LAYERS, Link
from pimloom.systems.serving.results.outcome import Channels, Online
from pimloom.systems.serving.results.record import Record, StagesRecord
from pimloom.systems.serving.results.summing import utilisation
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest
from pimloom.workload.requests.table import Requests

# what a pool of a scheduler is made of, where it has stages of its own
KINDS: dict[str, type[Replica]] = {"distserve prompts": Line, "distserve decode": Ring}


class Both(NamedTuple):
    """What serves in each pool, as `scheduler` has it; bytes of keys and values of a token, of all devices that share
    it; transfer: of `written.TRANSFERS`; mixed: whether machines help out in the other pool."""

    name: str
    scheduler: str
    prefill: Service
    decode: Service
    link: Link
    token_bytes: float
    transfer: str
    mixed: bool


def prompts_of(requests: Requests) -> Requests:
    """The same, which end with their first token."""
    return requests._replace(output=[1] * len(requests.output))


def kv_bytes(by: Service, tp: int) -> float:
    """Bytes of keys and values of a token on all devices that share a layer, of all stages."""
    device: Any = by.exact.device
    return float(device.capacity().cache_bytes_per_token * getattr(device, "times", 1)) * tp


def serve_pools(both: Both, requests: Requests, progress: Progress, tried: bool, sampled: bool) -> Online:
    """Serve all requests to their end. tried: limits that no request meets are no error; sampled: whether errors of
    prices are measured. Raises UserError."""
    way = way_of([both.prefill, both.decode], max(requests.output), partial(_served, both, requests, tried), sampled)
    return bounded(way, progress)


def _served(both: Both, requests: Requests, tried: bool, progress: Progress) -> Online:
    """One run."""
    numbers = range(len(requests.prompt))
    first = [LiveRequest(i, requests.arrival_ps[i], requests.prompt[i], 1) for i in numbers]
    one = _Side("prefill", both.prefill, len(numbers))
    two = _Side("decode", both.decode, len(numbers))
    wire = Wire(both.link, both.token_bytes, both.prefill.named["layers"])
    routes = _routes(both, one.replicas, two.replicas)
    clock = Pooled(one.replicas, two.replicas, wire, routes, both.transfer == LAYERS, requests.clients)
    one.formed = clock.formed
    then = clock.serve(first, requests.output, progress)
    check_ended(then, one.record, two.record)
    for before, r in zip(first, then, strict=True):
        r.hit = before.hit
        r.restarts, r.again = r.restarts + before.restarts, r.again // two.rows + before.again
    flown = [flight.landed != NOT_YET for flight in clock.flights.values()]
    last = max(max(side.record.end, default=0) for side in (one, two))
    used, busy_ps, again_ps = dict[str, float](), one.busy_ps + two.busy_ps, one.again_ps + two.again_ps
    for side in (one, two):
        side.rest(requests.arrival_ps[0], last)
        side.tell_tokens()
        machines = side.by.plan.replicas * side.by.plan.stages
        used |= utilisation(side.record.work, machines, last - requests.arrival_ps[0], f"{side.name}: ")
    shown = one.stages + two.stages
    record, causes = _joined(both, one, two, then, flown)
    plan = both.decode.plan._replace(scheduler=both.scheduler)
    prefix = both.prefill.plan.limits.prefix
    plan = plan._replace(limits=plan.limits._replace(prefix=prefix, policy=None))
    usd = [side.by.usd_per_h for side in (one, two) if side.by.usd_per_h is not None]
    price = sum(usd) if len(usd) == 2 else None
    named = both.decode.named | {"system": both.name}
    pools = {} if both.prefill.system is None else {"prefill": both.prefill.system}
    by = both.decode._replace(named=named, plan=plan, rest_w=None, usd_per_h=price, pools=pools)
    replicas = [*one.replicas, *two.replicas]
    schedulers = [replica.scheduler for replica in replicas]
    found = told_by(by, requests, then, record, causes, schedulers, None, tried)
    found = replace(found, channels=two.channels or one.channels)
    found.by_request["transfer_s"] = [
        (flight.landed - flight.then.first_token) * S_PER_PS if flight.landed != NOT_YET else None
        for flight in clock.flights.values()
    ]
    found = replace(found, utilisation=used or None)
    if two.rows == 1:
        return found
    found.by_iteration["stage"] = shown
    busy_share = busy_ps * S_PER_PS / (found.time_s * len(replicas))
    return replace(found, busy_share=busy_share, recomputing_s=again_ps * S_PER_PS)


class _Side:
    """A pool on its way. rows: of its record, for each stage of a pipeline, or one for all of them; stages: of each
    row, None: all; formed: told of an iteration with its replica."""

    def __init__(self, name: str, by: Service, requests: int) -> None:
        self.name, self.by, plan = name, by, by.plan
        kind = KINDS.get(plan.scheduler, Replica)
        self.rows = plan.stages if kind is Ring else 1
        self.sample = sample_of(by.costs)
        self.record = (
            Record(by.costs, requests, self.sample)
            if self.rows == 1
            else StagesRecord(by.costs, requests, self.sample, self.rows)
        )
        self.stages = list[int | None]()
        self.formed: Callable[[Replica, Iteration], object] = lambda replica, made: None
        self.replicas = [
            kind(scheduler_of(plan.scheduler, plan.limits), self.record.price, plan.stages, partial(self._seen, place))
            for place in range(plan.replicas)
        ]

    def _seen(self, place: int, made: Iteration) -> None:
        replica = self.replicas[place]
        self.record.seen(place, replica.scheduler, made)
        self.stages.append(replica.stage if isinstance(replica, Ring) else None)
        self.formed(replica, made)

    @property
    def busy_ps(self) -> float:
        """In which each stage works, in the mean, of all replicas together."""
        return sum(self.record.ticks) / self.rows

    @property
    def again_ps(self) -> float:
        """In which each stage computes once more, in the mean."""
        columns = zip(self.record.ticks, self.record.again, self.record.new, strict=True)
        return sum(ticks * again / max(new, 1) for ticks, again, new in columns) / self.rows

    def tell_tokens(self) -> None:
        """Where a row is of a stage, only those of the last one make tokens."""
        for place, replica in enumerate(self.replicas if self.rows > 1 else ()):
            came = iter(replica.scheduler.came)
            mine = [n for n, at in zip(self.stages, self.record.replica, strict=True) if at == place]
            replica.scheduler.came = array("q", [next(came) if n == self.rows - 1 else 0 for n in mine])

    def rest(self, start_ps: int, end_ps: int) -> None:
        """Add what its devices take while they have nothing to do, where it is known."""
        by = self.by
        if by.rest_w is not None and (by.exact.causes or not by.exact.steps):
            rest(by, self.record, len(by.exact.causes), start_ps, end_ps, self.busy_ps)

    @property
    def channels(self) -> Channels | None:
        """Where its requests lay, if that mattered."""
        return channels_told(self.by.plan.limits, [replica.scheduler for replica in self.replicas])

    @property
    def causes(self) -> list[str]:
        """Of its energies."""
        return [*self.by.exact.causes, *([] if self.record.rest_j is None else [AT_REST])]


def _routes(both: Both, prompts: list[Replica], decodes: list[Replica]) -> Routes:
    if both.mixed:
        return Mixed(prompts, decodes).routes()
    if both.scheduler == "distserve":
        return distserve(prompts, decodes)
    router = both.decode.plan.router
    if both.scheduler == "splitwise" and router == "least-waiting":
        return splitwise(lambda request: least(prompts), lambda request: least(decodes))
    if both.scheduler == "splitwise":
        return splitwise(_router(router, prompts), _router(router, decodes))
    chosen = fewest_coming(decodes) if router == "least-waiting" else _router(router, decodes)
    return routed(_router(router, prompts), chosen)


def _router(name: str, replicas: list[Replica]) -> Callable[[LiveRequest], Replica]:
    return cast(Callable[[LiveRequest], Replica], ROUTERS[name](replicas))


def _joined(
    both: Both, one: _Side, two: _Side, then: list[LiveRequest], flown: list[bool]
) -> tuple[Record, tuple[str, ...] | None]:
    """One record of both pools, decode behind prompts, and its causes, each with its pool."""
    record, other = one.record, two.record
    other.replica = type(other.replica)("i", [i + one.by.plan.replicas for i in other.replica])
    record.extend(other)
    if any(side.by.exact.steps and not side.by.exact.causes for side in (one, two)):
        return record, None
    causes = tuple(f"{side.name}: {cause}" for side in (one, two) for cause in side.causes)
    record.by_cause = [
        j
        for side, mine in ((one, record.by_cause), (two, other.by_cause))
        for j in [*mine, *[0.0] * len(side.causes)][: len(side.causes)]
    ]
    record.beside += other.beside
    if record.rest_j is None or other.rest_j is None or record.rest_w is None or other.rest_w is None:
        record.rest_w = record.rest_j = None
    else:
        record.rest_w, record.rest_j = record.rest_w + other.rest_w, record.rest_j + other.rest_j
    record.by_request = [a + b for a, b in zip(record.by_request, other.by_request, strict=True)]
    if both.link.pj_per_bit is not None:
        per_token = both.token_bytes * BITS_PER_BYTE * both.link.pj_per_bit * J_PER_PJ
        moved = [r.prompt * per_token if left else 0.0 for r, left in zip(then, flown, strict=True)]
        record.by_request = [a + b for a, b in zip(record.by_request, moved, strict=True)]
        record.by_cause.append(sum(moved))
        record.beside += sum(moved)
        causes = (*causes, "link between pools")
    return record, causes
