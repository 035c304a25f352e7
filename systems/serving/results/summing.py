"""From requests that have ended and a record of iterations to the fields of the result."""

from collections.abc import Sequence
from itertools import chain
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.units import S_PER_H, S_PER_PS
from pimloom.systems.devices.run import LIMITS
from pimloom.systems.serving.results.limits import NAMES, Slo
from pimloom.systems.serving.results.outcome import Attained, Spread, Steady, spread
from pimloom.systems.serving.results.record import Record
from pimloom.systems.serving.schedulers.live import LiveRequest, Scheduler

Columns = dict[str, np.ndarray]
STEADY = (0.1, 0.9)  # of arrivals
LIMITED = {"ttft": "time_to_first_token_s", "tpot": "time_per_output_token_s", "latency": "latency_s"}  # by `Slo`


class Ended(NamedTuple):
    """All requests, the record, the causes of its energies (None: there are none), and the schedulers."""

    requests: Sequence[LiveRequest]
    record: Record
    causes: tuple[str, ...] | None
    schedulers: Sequence[Scheduler]


def of_requests(ended: Ended) -> Columns:
    """Times of each request [s]; NaN: a time per output token of a request of one."""
    requests = ended.requests

    def ticks(name: str) -> np.ndarray:
        return np.array([getattr(r, name) for r in requests], np.int64)

    names = ("arrival", "first_scheduled", "first_token", "completion")
    arrival, start, first, end = (ticks(name) for name in names)
    output = ticks("known") - ticks("prompt") - ticks("beside")
    more = np.where(output > 1, output - 1, 1)
    found: Columns = {f"{name}_s": ticks(name) * S_PER_PS for name in names}
    found |= {"prompt_tokens": ticks("prompt"), "output_tokens": output}
    found["wait_s"] = (start - arrival) * S_PER_PS
    found["time_to_first_token_s"] = (first - arrival) * S_PER_PS
    found["time_per_output_token_s"] = np.where(output > 1, (end - first) / more * S_PER_PS, np.nan)
    found["latency_s"] = (end - arrival) * S_PER_PS
    found |= {"preemptions": ticks("restarts"), "recomputed_tokens": ticks("again"), "prefix_hit_tokens": ticks("hit")}
    if ended.causes is not None:
        found["energy_j"] = np.array(ended.record.by_request)
    return found


def _plain(limit: float | None) -> float | None:
    """Without the text that it was typed as."""
    return None if limit is None else float(limit)


def attained(slo: Slo, columns: Columns, tried: bool) -> tuple[Attained, np.ndarray]:
    """Shares, and which requests hold all limits. Raises UserError for a limit that none holds, unless it is tried."""
    shares, good = dict[str, float | None](), np.ones(len(columns["latency_s"]), bool)
    for name, limit in slo._asdict().items():
        shares[name] = None
        if limit is None:
            continue
        values = columns[LIMITED[name]]
        holds = np.isnan(values) | (values <= limit)
        if not holds.any() and not tried:
            least = float(np.nanmin(values))
            typed = getattr(limit, "text", f"{limit:g}s")
            raise UserError(f"--slo {name}={typed}: never met: the least {NAMES[name]} is {least:.3g} s")
        shares[name], good = float(holds.mean()), good & holds
    return Attained(_plain(slo.ttft), _plain(slo.tpot), _plain(slo.latency), **shares, all=float(good.mean())), good


def surely(values: np.ndarray) -> Spread:
    """Of values that are all there."""
    found = spread(values)
    assert found is not None
    return found


def summed(ended: Ended, columns: Columns, usd_per_h: float | None) -> dict[str, Any]:
    """Fields that are sums, means and percentiles. usd_per_h: price of all devices."""
    record, requests = ended.record, ended.requests
    start, end, ticks = (np.array(column) for column in (record.start, record.end, record.ticks))
    span_ps = int(end.max()) - requests[0].arrival
    output, prompt = int(columns["output_tokens"].sum()), int(columns["prompt_tokens"].sum())
    gaps = np.fromiter(chain.from_iterable(s.gaps for s in ended.schedulers), np.int64)
    used, held_ps = np.array(record.used), np.array(record.ticks, float)
    joules = None if ended.causes is None else fsum([*record.joules, record.beside])
    replicas = len(ended.schedulers)
    usd = None if usd_per_h is None else usd_per_h * span_ps * S_PER_PS / S_PER_H
    return {
        "usd_per_h": usd_per_h,
        "tokens_per_usd": output / usd if usd else None,
        "iteration_count": len(start),
        "batch_mean": float(np.mean(record.requests)),
        "time_s": span_ps * S_PER_PS,
        "busy_share": float(ticks.sum()) / (span_ps * replicas),
        "tokens_per_s": output / (span_ps * S_PER_PS),
        "prompt_tokens_per_s": prompt / (span_ps * S_PER_PS),
        "time_to_first_token_s": surely(columns["time_to_first_token_s"]),
        "time_per_output_token_s": spread(columns["time_per_output_token_s"]),
        "token_gap_s": spread(gaps * S_PER_PS),
        "latency_s": surely(columns["latency_s"]),
        "latency_per_token_s": surely(columns["latency_s"] / columns["output_tokens"]),
        "wait_s": surely(columns["wait_s"]),
        "steady": steady(np.array([r.arrival for r in requests]), end, came(ended)),
        "preemptions": int(columns["preemptions"].sum()),
        "recomputed_tokens": int(columns["recomputed_tokens"].sum()),
        "recomputing_s": float((ticks * np.array(record.again) / np.maximum(record.new, 1)).sum()) * S_PER_PS,
        "swaps": sum(r.swaps for r in requests),
        "blocks_used_mean": float((used * held_ps).sum() / held_ps.sum()),
        "blocks_used_most": int(used.max()),
        "energy_j": joules,
        "energy_per_token_j": None if joules is None else joules / output,
        "energy_by_cause_j": None if ended.causes is None else dict(zip(ended.causes, record.by_cause, strict=True)),
    }


def plain(column: np.ndarray) -> list[Any]:
    """Values of a column; None where it is no number."""
    return [None if value != value else value for value in column.tolist()]


def came(ended: Ended) -> np.ndarray:
    """Output tokens that came when each iteration ended."""
    replica = np.array(ended.record.replica)
    found = np.zeros(len(replica), np.int64)
    for i, scheduler in enumerate(ended.schedulers):
        found[replica == i] = scheduler.came
    return found


def steady(arrival_ps: np.ndarray, end_ps: np.ndarray, tokens: np.ndarray) -> Steady | None:
    """While the middle of all requests came. end_ps, tokens: of iterations."""
    start, end = np.quantile(arrival_ps, STEADY).tolist()
    if start == end:
        return None
    inside = int(tokens[(end_ps > start) & (end_ps <= end)].sum())
    return Steady(start * S_PER_PS, end * S_PER_PS, inside / ((end - start) * S_PER_PS))


def utilisation(work: Sequence[float], machines: int, span_ps: int, what: str = "") -> dict[str, float]:
    """Share of the time of so many machines that their work takes at the full rate, of what they tell."""
    return {f"{what}{limit}": ps / (span_ps * machines) for limit, ps in zip(LIMITS, work, strict=True) if ps}


def of_iterations(ended: Ended) -> dict[str, list[Any]]:
    """Columns of iterations."""
    record = ended.record
    start, ticks, end = (np.array(column) * S_PER_PS for column in (record.start, record.ticks, record.end))
    found = {"start_s": start.tolist(), "time_s": ticks.tolist(), "end_s": end.tolist()}
    found |= {"replica": record.replica.tolist(), "requests": record.requests.tolist()}
    found |= {"new_tokens": record.new.tolist(), "context_tokens": record.contexts.tolist()}
    found |= {"output_tokens": came(ended).tolist(), "recomputed_tokens": record.again.tolist()}
    found |= {"waiting": record.waiting.tolist(), "blocks_used": record.used.tolist()}
    return found | ({} if ended.causes is None else {"energy_j": record.joules.tolist()})
