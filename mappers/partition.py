"""Packing and partition at their best: which channel serves a request, and in which sub-batch, by integer programs.

Costs are whole clocks, so that loads are exact; HiGHS solves the programs (Huangfu and Hall, 2018; scipy). They say how
far NeuPIMs' Algorithms 2 and 3 are from the optimum. `subset_sums` is quick and needs no solver.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.mappers.packing import pack, split

SLACK = 1e-6  # what HiGHS's bound may be off, relative
INFEASIBLE = 2  # status of scipy.optimize.milp


class Exact(NamedTuple):
    """What a program found: the place (channel or sub-batch) of each request, the largest load [CK], and a bound that
    no placement is below. proven: both are equal, so that the placement is optimal."""

    place: np.ndarray
    value: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether the placement is optimal."""
        return self.value == self.bound

    @property
    def gap(self) -> float:
        """How much larger than the bound the load may be, relative to it."""
        return self.value / self.bound - 1 if self.bound else 0.0


def loads(costs: Sequence[int], place: np.ndarray, places: int) -> np.ndarray:
    """Sum of the costs in each place; int64, shape (places,)."""
    found = np.zeros(places, np.int64)
    np.add.at(found, place, np.asarray(costs, np.int64))
    return found


def least_load(costs: Sequence[int], channels: int) -> int:
    """A bound of the largest load: the longest request, an even share, or the two that must meet."""
    if not len(costs):
        return 0
    step = gcd(*costs) or 1
    ordered = sorted(costs, reverse=True)
    two = ordered[channels - 1] + ordered[channels] if len(costs) > channels else 0
    return max(ordered[0], two, ceil_div(sum(costs), channels * step) * step)


def exact_pack(costs: Sequence[int], channels: int, limit_s: float = 10) -> Exact:
    """The placement with the least largest load over `channels`, as far as `limit_s` seconds of HiGHS reach.

    costs: of each request, > 0 [CK]. Starts from Algorithm 2 with channels settled in pairs, and asks for better ones
    only. Requests of one cost are one integer variable for each channel, which breaks the symmetry among them.
    """
    place = settle(costs, pack(lambda n: n, costs, channels), channels)
    value, bound = int(loads(costs, place, channels).max()), least_load(costs, channels)
    if value == bound:
        return Exact(place, value, bound)
    from scipy.sparse import bmat, csr_matrix, eye, kron  # scipy is slow to import

    kinds, count = np.unique(np.asarray(costs, np.int64), return_counts=True)
    k, c, step = len(kinds), channels, gcd(*costs)
    # variables: number of requests of kind i in channel j, at i * c + j; the largest load last
    load = kron(csr_matrix(kinds[None]), eye(c))
    rows = bmat([[kron(eye(k), np.ones((1, c))), None], [load, -np.ones((c, 1))]])
    between = np.append(count, np.full(c, -np.inf)), np.append(count, np.zeros(c))
    solved = _solve(rows, between, np.append(np.repeat(count, c), value - step), bound, limit_s)
    if solved.x is not None:
        dealt = np.rint(solved.x[:-1]).astype(np.int64).reshape(k, c)
        better = _unpack(costs, kinds, dealt)
        found = int(loads(costs, better, channels).max())
        place, value = (better, found) if found < value else (place, value)
    return Exact(place, value, _bound(solved, bound, value, step))


def settle(costs: Sequence[int], place: np.ndarray, channels: int) -> np.ndarray:
    """Share the requests of the fullest channel and of another one evenly, while that lowers the fuller of the two."""
    place = place.copy()
    while True:
        load = loads(costs, place, channels)
        full = int(load.argmax())
        for other in np.argsort(load, kind="stable").tolist():
            both = np.flatnonzero((place == full) | (place == other)) if other != full else np.array([], int)
            here = [costs[i] for i in both.tolist()]
            taken = np.array(_nearest_subset(here, 2), bool)
            half = sum(here[i] for i in np.flatnonzero(taken).tolist())
            if max(half, sum(here) - half) < load[full] and len(here):
                place[both] = np.where(taken, full, other)
                break
        else:
            return place


def balanced_halves(
    costs: Sequence[int], channel: np.ndarray, channels: int, sub_batches: int = 2, limit_s: float = 10
) -> Exact:
    """Sub-batches of equal size whose longest PIM stage is as short as can be; the place is the sub-batch.

    A stage's PIM time is the largest load of a channel by the requests of one sub-batch, and each stage waits for it
    beside a GEMM whose time goes by the number of requests. So the numbers differ by one at most, and the largest load
    of any channel by any sub-batch is minimised. Starts from Algorithm 3.
    """
    s, n = sub_batches, len(costs)
    place = np.zeros(n, np.int64)
    for part, members in enumerate(split(channel, channels, s)):
        place[members] = part
    value = longest_stage(costs, channel, channels, place, s)
    step = gcd(*costs)
    here = [[costs[i] for i in np.flatnonzero(channel == c).tolist()] for c in range(channels)]
    bound = max(least_load(mine, s) for mine in here)
    if value == bound:
        return Exact(place, value, bound)
    from scipy.sparse import bmat, csr_matrix, eye, kron  # scipy is slow to import

    # variables: request i in sub-batch j, at i * s + j; the longest stage last
    weights = csr_matrix((np.asarray(costs, float), (channel, np.arange(n))), (channels, n))
    rows = bmat(
        [
            [kron(eye(n), np.ones((1, s))), None],
            [kron(np.ones((1, n)), eye(s)), None],
            [kron(weights, eye(s)), -np.ones((channels * s, 1))],
        ]
    )
    low = np.concatenate([np.ones(n), np.full(s, n // s), np.full(channels * s, -np.inf)])
    high = np.concatenate([np.ones(n), np.full(s, ceil_div(n, s)), np.zeros(channels * s)])
    most = np.append(np.ones(n * s), value - step)
    if n >= s:
        most[1:s] = 0  # the first request is in the first sub-batch
    solved = _solve(rows, (low, high), most, bound, limit_s)
    if solved.x is not None:
        better = solved.x[:-1].reshape(n, s).argmax(axis=1)
        found = longest_stage(costs, channel, channels, better, s)
        place, value = (better, found) if found < value else (place, value)
    return Exact(place, value, _bound(solved, bound, value, step))


def longest_stage(costs: Sequence[int], channel: np.ndarray, channels: int, part: np.ndarray, parts: int) -> int:
    """The largest load of a channel by the requests of one sub-batch [CK]."""
    return int(loads(costs, part * channels + channel, parts * channels).max())


def subset_sums(costs: Sequence[int], channel: np.ndarray, channels: int, parts: int = 2) -> list[np.ndarray]:
    """Sub-batches that share each channel's load as evenly as can be; request numbers, rising.

    NeuPIMs' simulator has such a partition and does not use it (casys-kaist/NeuPIMs@f299af3, Scheduler.cc). Two
    sub-batches are optimal in each channel; of more, one after the other takes the subset nearest to an even share of
    what is left. In each channel the larger number of requests goes to the sub-batch that has fewest so far. One that
    is left without any takes one of the sub-batch that has most.
    """
    found: list[list[int]] = [[] for _ in range(parts)]
    for c in range(channels):
        left = np.flatnonzero(channel == c).tolist()
        shares = []
        for s in range(parts, 1, -1):
            taken = _nearest_subset([costs[i] for i in left], s)
            shares.append([i for i, t in zip(left, taken, strict=True) if t])
            left = [i for i, t in zip(left, taken, strict=True) if not t]
        shares.append(left)
        poorest = sorted(range(parts), key=lambda s: len(found[s]))
        for s, share in zip(poorest, sorted(shares, key=len, reverse=True), strict=True):
            found[s] += share
    for part in found:
        if not part and len(most := max(found, key=len)) > 1:
            part.append(most.pop())
    return [np.array(sorted(part), np.int64) for part in found]


def _nearest_subset(costs: Sequence[int], parts: int) -> list[bool]:
    """Which of the costs make the sum nearest to 1 / `parts` of all, the larger one if two are."""
    reach = [1]  # bit b of entry i: the first i costs have a subset of sum b
    for cost in costs:
        reach.append(reach[-1] | reach[-1] << cost)
    total = sum(costs)
    below = reach[-1] & (1 << total // parts + 1) - 1
    above = reach[-1] >> total // parts + 1
    best = below.bit_length() - 1
    if above:
        other = total // parts + (above & -above).bit_length()
        best = other if abs(parts * other - total) <= abs(parts * best - total) else best
    taken = [False] * len(costs)
    for i in range(len(costs) - 1, -1, -1):
        if not reach[i] >> best & 1:
            taken[i] = True
            best -= costs[i]
    return taken


def _solve(rows: Any, between: tuple[np.ndarray, np.ndarray], most: np.ndarray, least: int, limit_s: float) -> Any:
    """Minimise the last variable, which is at least `least`; the others are whole numbers from 0 to `most`."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # scipy is slow to import

    n = len(most)
    whole = np.append(np.ones(n - 1), 0)
    return milp(
        np.append(np.zeros(n - 1), 1.0),
        integrality=whole,
        bounds=Bounds(np.append(np.zeros(n - 1), float(least)), most),
        constraints=LinearConstraint(rows.tocsr(), *between),
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )


def _bound(solved: Any, least: int, value: int, step: int) -> int:
    """A bound of the loads, which are multiples of `step`, where only loads below the first `value` were asked for."""
    if solved.status == INFEASIBLE:
        return value
    proven = solved.mip_dual_bound
    if proven is None or not np.isfinite(proven):
        return least
    return min(max(least, int(np.ceil(proven * (1 - SLACK) / step)) * step), value)


def _unpack(costs: Sequence[int], kinds: np.ndarray, dealt: np.ndarray) -> np.ndarray:
    """Channels of the requests, which take those of their kind in order."""
    queues = {
        int(kind): np.repeat(np.arange(dealt.shape[1]), row).tolist() for kind, row in zip(kinds, dealt, strict=True)
    }
    return np.array([queues[cost].pop() for cost in costs], np.int64)
