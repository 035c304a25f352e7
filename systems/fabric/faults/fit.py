"""The figures from which synthetic traces are made, and how they follow from a real one.

An outage is a *relapse* if its server had been repaired less than `RELAPSE_H` before, else *fresh*. Fresh outages that
begin less than `BURST_H` after the one before are one *burst*. What a window of 29 days has of its own are its number
of fresh outages and where its repair times lie among all, as a beta distribution of their ranks.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from pimloom.arch.load import load_yaml
from pimloom.arch.units import H_PER_DAY
from pimloom.systems.fabric.faults.statistics import WINDOW_H
from pimloom.systems.fabric.faults.trace import Outages, Trace

FITTED = Path(__file__).parent / "fitted.yaml"
RELAPSE_H = 26.0 * H_PER_DAY  # [design] about as many outages follow later as the fresh ones alone would bring
BURST_H = 0.05 * H_PER_DAY  # [design] a tenth of the mean time between outages
REPAIR_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99, 1.0)
STEP_SHARES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
GAP_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RANK_CLASSES = 4  # quarters of the repair times

Number = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Fitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of a trace, none of its events."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "servers": "servers of the trace",
        "window_h": "length of a window [h]",
        "fresh_by_window": "fresh outages that begin in each window",
        "rank_mean_by_window": "mean rank, 0 to 1, of the repair times of a window among all",
        "rank_deviation_by_window": "standard deviation of these ranks",
        "repair_shares": "shares of repair times that are shorter than `repair_h`",
        "repair_h": "repair times [h]",
        "burst_sizes": "sizes of bursts",
        "burst_counts": "bursts of these sizes",
        "step_shares": "shares of steps from one outage of a burst to the next that are shorter than `step_h`",
        "step_h": "such steps [h]",
        "burst_alike_share": "probability that an outage of a burst has the burst's rank of repair time",
        "relapse_share_by_window": "share of the outages repaired in each window that a relapse follows",
        "relapse_shares": "shares of relapses that follow in less than `relapse_h`",
        "relapse_h": "times from a repair to the relapse [h]",
        "kinds": "level and class of faults",
        "kind_counts": "faults of each kind, by quarter of the repair times from short to long",
    }

    servers: Count
    window_h: Number
    fresh_by_window: list[Count]
    rank_mean_by_window: list[Share]
    rank_deviation_by_window: list[Share]
    repair_shares: list[Share]
    repair_h: list[Number]
    burst_sizes: list[Count]
    burst_counts: list[Count]
    step_shares: list[Share]
    step_h: list[Number]
    burst_alike_share: Share
    relapse_share_by_window: list[Share]
    relapse_shares: list[Share]
    relapse_h: list[Number]
    kinds: list[tuple[str, str]]
    kind_counts: list[list[Count]]


def load_fitted(path: Path = FITTED) -> Fitted:
    """The figures that ship with the project. Raises UserError."""
    return load_yaml(path, Fitted).value


def fit(trace: Trace) -> Fitted:
    """The figures of a trace with several outages in each window of its horizon."""
    outages = trace.outages()
    inside = outages.start_h < trace.horizon_h
    outages = Outages(*(column[inside] for column in outages))
    start_h, repair_h = outages.start_h, outages.end_h - outages.start_h
    window = (start_h // WINDOW_H).astype(int)
    rank = (np.argsort(np.argsort(repair_h, kind="stable")) + 0.5) / len(repair_h)
    since_h = _since_repair_h(outages)
    fresh = since_h >= RELAPSE_H
    burst = np.cumsum(np.diff(start_h[fresh], prepend=-np.inf) > BURST_H) - 1
    sizes = np.bincount(np.bincount(burst))
    later = np.diff(start_h[fresh])[np.diff(burst) == 0]
    kinds, counts = _kinds(trace)
    windows = range(int(window.max()) + 1)
    return Fitted(
        servers=trace.servers,
        window_h=WINDOW_H,
        fresh_by_window=np.bincount(window[fresh]).tolist(),
        rank_mean_by_window=_rounded([rank[window == w].mean() for w in windows]),
        rank_deviation_by_window=_rounded([rank[window == w].std() for w in windows]),
        repair_shares=list(REPAIR_SHARES),
        repair_h=_rounded(np.quantile(repair_h, REPAIR_SHARES)),
        burst_sizes=np.flatnonzero(sizes).tolist(),
        burst_counts=sizes[sizes > 0].tolist(),
        step_shares=list(STEP_SHARES),
        step_h=_rounded(np.quantile(later, STEP_SHARES)),
        burst_alike_share=_rounded([_alike(rank[fresh], burst)])[0],
        relapse_share_by_window=_rounded(_relapses(outages, since_h, len(windows))),
        relapse_shares=list(GAP_SHARES),
        relapse_h=_rounded(np.quantile(since_h[~fresh], GAP_SHARES)),
        kinds=kinds,
        kind_counts=counts,
    )


def _since_repair_h(outages: Outages) -> np.ndarray:
    """Hours since the same server was last repaired; infinite for its first outage."""
    since, repaired = np.full(len(outages.server), np.inf), dict[int, float]()
    for nth, (server, start, end) in enumerate(zip(*outages, strict=True)):
        since[nth] = start - repaired.get(server, -np.inf)
        repaired[server] = end
    return since


def _relapses(outages: Outages, since_h: np.ndarray, windows: int) -> np.ndarray:
    """Share of the outages repaired in each window that a relapse follows; the last window has those after it, too."""
    relapse = np.flatnonzero(since_h < RELAPSE_H)
    repaired_h = outages.start_h[relapse] - since_h[relapse]
    of, all_ = (np.minimum(at // WINDOW_H, windows - 1).astype(int) for at in (repaired_h, outages.end_h))
    return np.bincount(of, minlength=windows) / np.bincount(all_, minlength=windows)


def _alike(rank: np.ndarray, burst: np.ndarray) -> float:
    """c, if each outage has its burst's rank with probability c, else one of its own.

    Two of a burst are then alike with c squared: what is missing in the variance within bursts of several.
    """
    size = np.bincount(burst)
    mean = np.bincount(burst, rank) / size
    several = size[burst] > 1
    within = ((rank - mean[burst])[several] ** 2).sum() / (size[size > 1] - 1).sum()
    return float(np.sqrt(max(1 - within / rank.var(), 0)))


def _kinds(trace: Trace) -> tuple[list[tuple[str, str]], list[list[int]]]:
    """Level and class of each kind, the most frequent first, and its faults by quarter of the repair times."""
    lasts_h = trace.end_h - trace.start_h
    quarter = (np.argsort(np.argsort(lasts_h, kind="stable")) * RANK_CLASSES) // len(lasts_h)
    found: dict[tuple[str, str], list[int]] = {}
    for kind, nth in zip(trace.kind, quarter, strict=True):
        found.setdefault(trace.kinds[kind][:2], [0] * RANK_CLASSES)[nth] += 1
    names = sorted(found, key=lambda name: (-sum(found[name]), name))
    return names, [found[name] for name in names]


def _rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Four digits: 8.64 s is the resolution of the public trace, and no event can be told from a quantile."""
    return [float(f"{value:.4g}") for value in values]
