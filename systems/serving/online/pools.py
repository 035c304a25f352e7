"""Prompts on one pool of devices, decode on another, and the link that carries keys and values from one to the other:
requests through both, and one result of it all.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from msgspec.structs import replace

from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, S_PER_PS
from pimloom.systems.serving.clock.cluster import ROUTERS
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.online.named import scheduler_of
from pimloom.systems.serving.online.outcome import Online
from pimloom.systems.serving.online.record import Record
from pimloom.systems.serving.online.running import AT_REST, Progress, Service, check_ended, ended_by, rest, told_by
from pimloom.systems.serving.online.sampling import Sample, worst
from pimloom.systems.serving.online.summing import utilisation
from pimloom.systems.serving.pools.clock import Pooled, Routes
from pimloom.systems.serving.pools.routes import Mixed, distserve, fewest_coming, least, routed, splitwise
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import LAYERS, Link
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest
from pimloom.workload.requests.table import Requests


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
    """Bytes of keys and values of a token on all devices that share a layer."""
    return float(by.exact.device.capacity().cache_bytes_per_token) * tp


def serve_pools(both: Both, requests: Requests, progress: Progress, *, tried: bool = False) -> Online:
    """Until all requests have ended. tried: limits that none holds are no error. Raises UserError."""
    numbers = range(len(requests.prompt))
    first = [LiveRequest(i, requests.arrival_ps[i], requests.prompt[i], 1) for i in numbers]
    pools, records, samples = list[list[Replica]](), list[Record](), list[Sample | None]()
    clock: Pooled | None = None

    def seen(record: Record, place: int, made: Iteration) -> None:
        replica = pools[0][place] if record is records[0] else pools[1][place]
        record.seen(place, replica.scheduler, made)
        if clock and record is records[0]:
            clock.formed(replica, made)

    for by in (both.prefill, both.decode):
        sample = None if by.grid is None else Sample(0 if tried else by.plan.sample, by.plan.seed)
        record = Record(by.costs, len(numbers), sample)
        samples.append(sample)
        records.append(record)
        pools.append([
            Replica(scheduler_of(by.plan.scheduler, by.plan.limits), record.price, 1, partial(seen, record, place))
            for place in range(by.plan.replicas)
        ])  # fmt: skip
    wire = Wire(both.link, both.token_bytes, both.prefill.named["layers"])
    prompts, decodes = pools
    clock = Pooled(prompts, decodes, wire, _routes(both, prompts, decodes), both.transfer == LAYERS, requests.clients)
    then = clock.serve(first, requests.output, progress)
    check_ended(then, *records)
    for one, r in zip(first, then, strict=True):
        r.hit = one.hit
        r.restarts, r.again = r.restarts + one.restarts, r.again + one.again
    parts = [(name, by, record) for name, by, record in zip(("prefill", "decode"), both[2:4], records, strict=True)]
    flown = [flight.landed != NOT_YET for flight in clock.flights.values()]
    last = max(max(record.end, default=0) for record in records)
    for by, record in zip(both[2:4], records, strict=True):
        if by.rest_w is not None and (by.exact.causes or not by.exact.steps):
            rest(by, record, len(by.exact.causes), requests.arrival_ps[0], last)
    used = dict[str, float]()
    for name, by, record in parts:
        used |= utilisation(record.work, by.plan.replicas, last - requests.arrival_ps[0], f"{name}: ")
    record, causes = _joined(both, parts, then, flown)
    pricing = [ended_by(by, sample) for by, sample in zip(both[2:4], samples, strict=True)]
    plan = both.decode.plan._replace(scheduler=both.scheduler)
    prefix = both.prefill.plan.limits.prefix
    plan = plan._replace(limits=plan.limits._replace(prefix=prefix))
    usd = [by.usd_per_h for by in both[2:4] if by.usd_per_h is not None]
    price = sum(usd) if len(usd) == 2 else None
    named = both.decode.named | {"system": both.name}
    by = both.decode._replace(named=named, plan=plan, rest_w=None, usd_per_h=price)
    schedulers = [replica.scheduler for some in pools for replica in some]
    found = told_by(by, requests, then, record, causes, schedulers, worst(pricing), None, tried)
    found.by_request["transfer_s"] = [
        (flight.landed - flight.then.first_token) * S_PER_PS if flight.landed != NOT_YET else None
        for flight in clock.flights.values()
    ]
    return replace(found, utilisation=used or None)


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
    both: Both, parts: list[tuple[str, Service, Record]], then: list[LiveRequest], flown: list[bool]
) -> tuple[Record, tuple[str, ...] | None]:
    """One record of both pools, decode behind prompts, and its causes, each with its pool."""
    (_, one, record), (_, _, other) = parts
    other.replica = type(other.replica)("i", [i + one.plan.replicas for i in other.replica])
    record.extend(other)
    if any(by.exact.steps and not by.exact.causes for _, by, _ in parts):
        return record, None
    named = [(name, _causes(by, mine), mine) for name, by, mine in parts]
    causes = tuple(f"{name}: {cause}" for name, some, _ in named for cause in some)
    record.by_cause = [j for _, some, mine in named for j in [*mine.by_cause, *[0.0] * len(some)][: len(some)]]
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


def _causes(by: Service, record: Record) -> list[str]:
    return [*by.exact.causes, *([] if record.rest_j is None else [AT_REST])]
