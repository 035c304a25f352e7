"""The backlog of a run: whether the number of requests in the system grows, by the trend and its test."""

from functools import cache
from itertools import combinations
from math import sqrt

import msgspec
import numpy as np

from pimloom.arch.name_units import counted

PARTS = 10  # of the time in which requests arrive
WARM_UP, END = 2, 8  # the first part that is judged, and the first one after these
ENOUGH = 10  # least requests of a run per request that runs at the same time
LEAST_GROWTH, LEVEL = 0.01, 0.05  # share of arriving requests; significance level
EXACT = 9  # decimals of a mean number of requests: later digits are rounding errors
NOISE = 2.0  # standard deviations of the number of requests that come


class Backlog(msgspec.Struct, frozen=True):
    """The number of requests in the system (arrived and not ended) between `from_s` and `to_s`, 20 % and 80 % of the
    time in which requests arrive.

    first, last: its mean over the first and the last sixth of that time; growth: its trend [requests/s, Theil-Sen] /
    the rate of arrivals, so the share of arriving requests that is not completed; p_value: of the one-sided
    Mann-Kendall test against no trend; most_running: most requests that ran at the same time; state: "steady";
    "growing": requests arrive faster than they are completed; "short": fewer than ten requests per `most_running`;
    "unclear": the run is too short to tell."""

    from_s: float
    to_s: float
    first: float
    last: float
    growth: float
    p_value: float
    most_running: int
    state: str

    @property
    def grows(self) -> bool:
        """Whether requests arrive faster than they are completed."""
        return self.state == "growing"


def backlog(arrival_s: np.ndarray, scheduled_s: np.ndarray, end_s: np.ndarray) -> Backlog | None:
    """The backlog from three times of each request [s]: arrival (rising), first iteration, end. None if all requests
    arrive at once."""
    start, last = float(arrival_s[0]), float(arrival_s[-1])
    if last <= start:
        return None
    edges = np.linspace(start, last, PARTS + 1)
    ends, part = np.sort(end_s), (last - start) / PARTS
    held = np.diff(_over(arrival_s, edges) - _over(ends, edges)) / part  # mean number in each part
    held = np.maximum(held.round(EXACT), 0.0)
    judged, at = held[WARM_UP:END], edges[[WARM_UP, END]]
    inside = arrival_s[(arrival_s >= at[0]) & (arrival_s < at[1])]
    rate = max(len(inside), 1) / (at[1] - at[0])
    slopes = [(judged[j] - judged[i]) / ((j - i) * part) for i, j in combinations(range(len(judged)), 2)]
    growth = float(np.median(slopes) / rate)
    p = rising(int(sum(np.sign(slopes))), len(judged))
    most = most_at_once(scheduled_s, ends)
    state = "short" if len(arrival_s) < ENOUGH * most else _state(growth, p, np.diff(inside))
    return Backlog(float(at[0]), float(at[1]), float(judged[0]), float(judged[-1]), growth, p, most, state)


def _state(growth: float, p: float, gaps: np.ndarray) -> str:
    """The state of a trend. gaps: between arrivals, whose variation gives the noise of the trend."""
    if growth <= LEAST_GROWTH:
        return "steady"
    cv = float(gaps.std() / gaps.mean()) if len(gaps) and gaps.any() else 1.0
    noise = NOISE * max(cv, 1.0) / sqrt(len(gaps) + 1)
    return "growing" if p <= LEVEL and growth > noise else "unclear"


def _over(times: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The integral, up to each edge, of how many of these rising times have passed."""
    sums = np.concatenate([[0.0], np.cumsum(times - times[0])])
    passed = np.searchsorted(times, edges, side="right")
    return np.maximum(passed * (edges - times[0]) - sums[passed], 0.0)


def most_at_once(start_s: np.ndarray, end_s: np.ndarray) -> int:
    """The largest number of intervals, from start to end, that overlap.

    >>> most_at_once(np.array([0.0, 1.0, 1.5]), np.array([1.2, 2.0, 3.0]))
    2
    """
    starts, ends = np.sort(start_s), np.sort(end_s)
    return int((np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")).max())


def rising(score: int, count: int) -> float:
    """Probability that `count` values in random order have a Mann-Kendall score (rising pairs - falling pairs) of at
    least `score` [Kendall, Rank Correlation Methods].

    >>> rising(3, 3), rising(-3, 3)
    (0.16666666666666666, 1.0)
    """
    pairs = count * (count - 1) // 2
    ways = _orders(count)
    most = (pairs - score) // 2  # pairs that fall
    return sum(ways[: most + 1]) / sum(ways)


@cache
def _orders(count: int) -> tuple[int, ...]:
    """Numbers of orders of `count` values with 0, 1, 2 … falling pairs."""
    ways = [1]
    for n in range(2, count + 1):
        ways = [sum(ways[max(i - n + 1, 0) : i + 1]) for i in range(len(ways) + n - 1)]
    return tuple(ways)


def completed_per_s(end_s: np.ndarray) -> float:
    """The rate at which requests end [1/s], from a straight line through the middle 60 % of them."""
    ends, n = np.sort(end_s), len(end_s)
    some = ends[n // 5 : n - n // 5]
    at = some - some.mean()
    spread = float((at * at).sum())
    if not spread:
        return n / float(ends[-1] - ends[0]) if ends[-1] > ends[0] else float("inf")
    return float((at * np.arange(len(some))).sum()) / spread


def trend_text(found: Backlog) -> str:
    """The trend and its test in words."""
    return (
        f"{found.first:,.3g} requests in the system after warm-up, {found.last:,.3g} at the end, a trend of "
        f"{found.growth:+.2%} of arriving requests (p = {found.p_value:.2g}): {found.state}"
    )


def warning(found: Backlog | None, requests: int) -> list[str]:
    """Notes on a run of so many requests that is not in a steady state; empty if it is."""
    if found is None or found.state == "steady":
        return []
    if found.state == "short":
        return [
            f"the run is short against its latencies: {counted(requests, 'request')}, of which {found.most_running:,} "
            f"run at once; results depend on --requests; take at least about {ENOUGH * found.most_running:,}"
        ]
    if found.grows:
        return [
            f"the backlog grows by {found.growth:.1%} of arriving requests: latencies are those of the first "
            f"{counted(requests, 'request')} and grow with --requests"
        ]
    return ["the run is too short to tell whether the backlog grows; take more --requests"]
