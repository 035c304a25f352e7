"""Prompts on one pool of devices, decode on another, and the link that carries keys and values from one to the other.

A prompt runs until its first token; then its cache leaves over one link, first come, first served, and the request
joins those that wait for decode, where it takes blocks for what came. Nothing here holds back what came before it: so
prompts are served first, then flows, then decode. A request that has to yield there is computed once more there.
"""

import re
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, PS_PER_S
from pimloom.systems.serving.online.named import scheduler_of
from pimloom.systems.serving.online.outcome import Online
from pimloom.systems.serving.online.record import Record
from pimloom.systems.serving.online.running import AT_REST, Progress, Service, ended_by, rest, run, told_by
from pimloom.systems.serving.online.sampling import Pricing, Sample
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.workload.requests.table import Requests

POOLED = "vllm-v1"
ONE = r"\s*=\s*([^*,=]+?)\s*(?:\*\s*(\d{1,6}))?\s*"
WRITTEN = re.compile(rf"\s*prefill{ONE},\s*decode{ONE}")
LINK = re.compile(r"(\d+\.?\d*)Gb/s(?:,(\d+\.?\d*)pJ/bit)?", re.ASCII)
SUCH_AS = "prefill=gpu_a100*2,decode=neupims*4"
BITS_PER_GBIT = 10**9


class Pool(NamedTuple):
    """A system by name, and how many copies of the model on it."""

    system: str
    replicas: int


class Link(NamedTuple):
    """Between the pools. pj_per_bit: None: not known."""

    gbps: float
    pj_per_bit: float | None


class Pools(NamedTuple):
    """Both, and the link."""

    prefill: Pool
    decode: Pool
    link: Link


class Both(NamedTuple):
    """What serves in each pool; bytes of keys and values of a token, of all devices that share it."""

    name: str
    prefill: Service
    decode: Service
    link: Link
    token_bytes: float


def parse_pools(text: str, link: str | None) -> Pools | None:
    """As a user writes a system; None if it is one system alone. Raises UserError.

    >>> parse_pools("prefill=a*2, decode=b", "400Gb/s")[:2]
    (Pool(system='a', replicas=2), Pool(system='b', replicas=1))
    """
    if "=" not in text:
        if link is not None:
            raise UserError(f"--link {link}: is between pools, such as {SUCH_AS}; leave it out")
        return None
    if not (match := WRITTEN.fullmatch(text)):
        raise UserError(f"{text}: expected one system, or pools such as {SUCH_AS}")
    if link is None:
        raise UserError(f"{text}: expected --link, which carries keys and values, such as --link 400Gb/s")
    found = LINK.fullmatch(link)
    if not found or not float(found[1]) > 0:
        raise UserError(f"--link {link}: expected Gb/s above 0, such as 400Gb/s or 400Gb/s,5pJ/bit")
    sizes = [int(match[place] or 1) for place in (2, 4)]
    if not all(sizes):
        raise UserError(f"{text}: expected at least one of each, such as {SUCH_AS}")
    return Pools(
        Pool(match[1], sizes[0]), Pool(match[3], sizes[1]), Link(float(found[1]), found[2] and float(found[2]) or None)
    )


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
    schedulers, records, samples = [], [], []
    for by in (both.prefill, both.decode):
        sample = None if by.grid is None else Sample(0 if tried else by.plan.sample, by.plan.seed)
        samples.append(sample)
        records.append(Record(by.costs, len(numbers), sample))
        schedulers.append([scheduler_of(by.plan.scheduler, by.plan.limits) for _ in range(by.plan.replicas)])
    run(first, schedulers[0], records[0], both.prefill.plan, progress)
    then = _flown(both, first, requests)
    coming = sorted((r for r in then if r.output > 1), key=lambda r: (r.arrival, r.number))
    run(coming, schedulers[1], records[1], both.decode.plan, progress)
    for one, r in zip(first, then, strict=True):
        r.arrival, r.first_scheduled, r.hit = one.arrival, one.first_scheduled, one.hit
        r.restarts += one.restarts
        r.completion = max(r.completion, one.completion)
    parts = [(name, by, record) for name, by, record in zip(("prefill", "decode"), both[1:3], records, strict=True)]
    last = max(max(record.end, default=0) for record in records)
    for by, record in zip(both[1:3], records, strict=True):
        if by.rest_w is not None and (by.exact.causes or not by.exact.steps):
            rest(by, record, len(by.exact.causes), requests.arrival_ps[0], last)
    record, causes = _joined(both, parts, then)
    pricing = [ended_by(by, sample) for by, sample in zip(both[1:3], samples, strict=True)]
    usd = [by.usd_per_h for by in both[1:3] if by.usd_per_h is not None]
    price = sum(usd) if len(usd) == 2 else None
    by = both.decode._replace(named=both.decode.named | {"system": both.name}, rest_w=None, usd_per_h=price)
    return told_by(by, requests, then, record, causes, [*schedulers[0], *schedulers[1]], _worst(pricing), None, tried)


def _flown(both: Both, first: list[LiveRequest], requests: Requests) -> list[LiveRequest]:
    """Requests as they come to decode, each with its cache."""
    then = [LiveRequest(one.number, one.completion, one.prompt, requests.output[one.number]) for one in first]
    free = 0
    for r in sorted(then, key=lambda r: (r.arrival, r.number)):
        r.cached, r.known, r.first_token = r.prompt, r.prompt + 1, r.arrival
        r.last_token, r.first_scheduled = r.arrival, r.arrival
        if r.output > 1:
            bits = r.prompt * both.token_bytes * BITS_PER_BYTE
            r.arrival = free = max(free, r.arrival) + round(bits / (both.link.gbps * BITS_PER_GBIT) * PS_PER_S)
    return then


def _joined(
    both: Both, parts: list[tuple[str, Service, Record]], then: list[LiveRequest]
) -> tuple[Record, tuple[str, ...] | None]:
    """One record of both pools, decode behind prompts, and its causes, each with its pool."""
    (_, one, record), (_, _, other) = parts
    other.replica = type(other.replica)("i", [i + one.plan.replicas for i in other.replica])
    for name in ("start", "end", "ticks", "replica", "requests", "new", "contexts", "waiting", "used", "joules"):
        getattr(record, name).extend(getattr(other, name))
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
        flown = [r.prompt * per_token if r.output > 1 else 0.0 for r in then]
        record.by_request = [a + b for a, b in zip(record.by_request, flown, strict=True)]
        record.by_cause.append(sum(flown))
        record.beside += sum(flown)
        causes = (*causes, "link between pools")
    return record, causes


def _causes(by: Service, record: Record) -> list[str]:
    return [*by.exact.causes, *([] if record.rest_j is None else [AT_REST])]


def _worst(pricing: list[Pricing]) -> Pricing:
    """Both counted, and the larger error."""
    worst = max(pricing, key=lambda one: one.error_bound or 0.0)
    return Pricing(
        worst.exact, sum(one.simulated for one in pricing), sum(one.sampled for one in pricing), worst.error,
        worst.error_bound, max((one.largest_error for one in pricing if one.largest_error is not None), default=None),
    )  # fmt: skip
