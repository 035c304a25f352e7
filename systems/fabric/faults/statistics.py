"""What a fault trace says in figures: how many servers are down, for how long, how often, and for what."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pimloom.arch.units import DAYS_PER_YEAR, H_PER_DAY
from pimloom.systems.fabric.faults.trace import Outages, Trace

SAMPLED, SAMPLES = 360, 200  # servers of 8 GPUs in a cluster of 2,880 [recalled]; random choices of them [design]
WINDOW_H = 29 * H_PER_DAY  # twelve of them make 348 days


@dataclass(frozen=True)
class FaultStatistics:
    """Figures of a trace. `faulty_*` are servers that are down, over time from 0 to the horizon.

    Outages are merged faults, all of them; rates between outages run from the first event to the last one.
    """

    trace: str
    servers: int
    servers_that_fail: int
    faults: int
    outages: int
    horizon_h: float
    fault_ratio_mean: float
    faulty_p50: int
    faulty_p90: int
    faulty_p95: int
    faulty_p99: int
    faulty_max: int
    down_server_h: float
    mttr_mean_h: float | None
    mttr_median_h: float | None
    mtbf_h: float | None
    outages_per_server_year: float
    between_outages_h: float | None
    window_h: float
    fault_ratio_by_window: list[float]
    outages_of_a_server: list[int]
    by_level: list[dict[str, object]]
    by_class: list[dict[str, object]]
    notes: tuple[str, ...]


def fault_statistics(trace: Trace, window_h: float = WINDOW_H) -> FaultStatistics:
    """All figures of a trace; a last window may be shorter. None where there is no outage to tell from.

    `outages_of_a_server[n]` is how many servers had n outages; `by_level` and `by_class` do not merge faults.
    """
    outages = trace.outages()
    weight_h, faulty = faulty_over_time(outages, trace.horizon_h)
    down_h = outages.end_h - outages.start_h
    total_h, count = float(down_h.sum()), len(down_h)
    span_h = _span_h(trace)
    p50, p90, p95, p99, p100 = map(int, weighted_quantiles(faulty, weight_h, (0.5, 0.9, 0.95, 0.99, 1)))
    each = np.bincount(outages.server, minlength=trace.servers)
    return FaultStatistics(
        trace=trace.name,
        servers=trace.servers,
        servers_that_fail=int((each > 0).sum()),
        faults=len(trace.server),
        outages=count,
        horizon_h=trace.horizon_h,
        fault_ratio_mean=float(weight_h @ faulty) / trace.horizon_h / trace.servers,
        faulty_p50=p50,
        faulty_p90=p90,
        faulty_p95=p95,
        faulty_p99=p99,
        faulty_max=p100,
        down_server_h=total_h,
        mttr_mean_h=total_h / count if count else None,
        mttr_median_h=float(np.median(down_h)) if count else None,
        mtbf_h=(trace.servers * span_h - total_h) / count if count else None,
        outages_per_server_year=count / trace.servers / span_h * H_PER_DAY * DAYS_PER_YEAR if count else 0.0,
        between_outages_h=span_h / count if count else None,
        window_h=window_h,
        fault_ratio_by_window=_by_window(outages, trace, window_h),
        outages_of_a_server=np.bincount(each).tolist(),
        by_level=_by_kind(trace, by_class=False),
        by_class=_by_kind(trace, by_class=True),
        notes=trace.notes,
    )


def sampled_percentiles(
    trace: Trace, servers: int = SAMPLED, draws: int = SAMPLES, seed: int = 0
) -> tuple[float, float]:
    """P50 and P99 over time of the share of servers down, each the mean over random `servers` of the trace's."""
    rng, outages, found = np.random.default_rng(seed), trace.outages(), []
    for _ in range(draws):
        taken = np.zeros(trace.servers, bool)
        taken[rng.permutation(trace.servers)[:servers]] = True
        kept = Outages(*(column[taken[outages.server]] for column in outages))
        weight_h, faulty = faulty_over_time(kept, trace.horizon_h)
        found.append([each / servers for each in weighted_quantiles(faulty, weight_h, (0.5, 0.99))])
    p50, p99 = np.mean(found, axis=0)
    return float(p50), float(p99)


def faulty_over_time(outages: Outages, horizon_h: float) -> tuple[np.ndarray, np.ndarray]:
    """Hours, and how many servers are down in them, one after the other from 0 to the horizon."""
    at = np.concatenate([[0.0], outages.start_h, outages.end_h])
    change = np.concatenate([[0], np.ones(len(outages.start_h)), -np.ones(len(outages.end_h))])
    order = np.argsort(at, kind="stable")
    weight_h = np.diff(np.minimum(at[order], horizon_h), append=horizon_h)
    held = weight_h > 0
    return weight_h[held], np.cumsum(change[order]).astype(np.int64)[held]


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, shares: Sequence[float]) -> list[float]:
    """For each share the smallest value up to which the weights reach it of their sum.

    >>> weighted_quantiles(np.array([3, 1, 2]), np.array([1.0, 2.0, 1.0]), [0.5, 1])
    [1, 3]
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    rounding = 1e-12 * reached[-1]  # of the sums
    at = np.searchsorted(reached, np.asarray(shares) * reached[-1] - rounding)
    found: list[float] = values[order][at].tolist()
    return found


def _span_h(trace: Trace) -> float:
    """From the first event to the last; the horizon if that is nothing."""
    span = float(trace.end_h.max() - trace.start_h.min()) if len(trace.server) else 0.0
    return span or trace.horizon_h


def _by_window(outages: Outages, trace: Trace, window_h: float) -> list[float]:
    edges = np.append(np.arange(0, trace.horizon_h, window_h), trace.horizon_h)
    low, high = edges[:-1, None], edges[1:, None]
    down = np.clip(outages.end_h, low, high) - np.clip(outages.start_h, low, high)
    return (down.sum(axis=1) / np.diff(edges) / trace.servers).tolist()


def _by_kind(trace: Trace, by_class: bool) -> list[dict[str, object]]:
    """Faults and their hours by class (with its level) or by level, the most frequent first."""
    found: dict[tuple[str, ...], list[float]] = {}
    for kind, start, end in zip(trace.kind, trace.start_h, trace.end_h, strict=True):
        sums = found.setdefault(trace.kinds[kind][: 2 if by_class else 1], [0, 0.0])
        sums[0] += 1
        sums[1] += float(end - start)
    names = ("level", "class") if by_class else ("level",)
    return [
        dict(zip(names, kind, strict=True)) | {"faults": int(sums[0]), "down_server_h": sums[1]}
        for kind, sums in sorted(found.items(), key=lambda item: -item[1][0])
    ]
