"""Groups that keep their ToRs although nodes fail: a finer placement than blocks of aligned groups. [design]

A set of templates (`templates.py`) says which m ToRs a group should span and leaves some ToRs spare. Each row of the
line is then filled on its own: a group of consecutive healthy nodes costs as many pairs as it has nodes outside the
template that it stands in for, and a dynamic programme finds the cheapest groups at a price per group. The price rises
until the job has its groups. Of all sets and prices the cheapest placement is kept, and its groups are ordered and
numbered (`ranks.py`). It is never worse, by the metric of `cross_tor`, than `orchestrate`, whose placement counts, too.
"""

from math import isqrt

import numpy as np

from pimloom.mappers.fabric.cover import cover, follow
from pimloom.mappers.fabric.ranks import order_and_rank
from pimloom.mappers.fabric.templates import templates
from pimloom.mappers.orchestrate import Placement, Rows, by_tors, cross_tor, orchestrate
from pimloom.mappers.ring import SHARED_HOP

PRICES = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 9)  # of a group, in crossing pairs; with more effort, between them, too
ANY = 1e4  # the price at which every group is taken
LARGE_ROW = 4096  # ToRs from which as little as possible is tried [design]
MOST_EFFORT = 4  # times as many sets and prices where rows are short
MOST_CELLS = 2**25  # of a table: nodes × sets × prices; larger clusters get aligned blocks, for want of memory


def with_spares(healthy: np.ndarray, rows: Rows, m: int, hops: int, need: int, *, corners: bool = False) -> Placement:
    """`need` groups of m nodes with little traffic across ToRs; arguments and errors as of `orchestrate`.

    Time: O(n) for each of a fixed number of template sets and prices, and the n log n of `orchestrate`.
    """
    aligned = orchestrate(healthy, rows, m, hops, need, corners=corners)
    chains = aligned.chains[by_tors(rows.tor(aligned.chains))]
    found = [Placement(rows, chains, chains)]
    effort = min(max(isqrt(LARGE_ROW // rows.tors), 1), MOST_EFFORT)
    while effort and _cells(rows, effort) > MOST_CELLS:
        effort -= 1
    if need and effort:
        number = templates(healthy.reshape(rows.tor_size, rows.tors), m, -(-need // rows.tor_size), _each(effort))
        prices = _prices(effort)
        if len(number):
            found += _Windows(healthy, rows, m, hops, corners).placements(number, need, prices, effort)
    return min(found, key=lambda placement: cross_tor(rows.tor(placement.ranks)).share)


def _each(effort: int) -> int:
    """Template sets of each of the three kinds."""
    return 1 + 2 * effort


def _prices(effort: int) -> np.ndarray:
    steps = np.arange((len(PRICES) - 1) * effort + 1) / effort
    return np.array([*np.interp(steps, range(len(PRICES)), PRICES), ANY])


def _cells(rows: Rows, effort: int) -> int:
    return rows.nodes * 3 * _each(effort) * len(_prices(effort))


class _Windows:
    """All groups of consecutive healthy nodes of a row, by the node that they start with."""

    def __init__(self, healthy: np.ndarray, rows: Rows, m: int, hops: int, corners: bool) -> None:
        self.rows, self.m = rows, m
        places = np.flatnonzero(healthy)
        self.row, self.tor = places // rows.tors, places % rows.tors
        self.within = np.arange(len(places)) - np.searchsorted(self.row, np.arange(rows.tor_size))[self.row]
        self.plain = _sliding(places, m)
        self.wide = _sliding(places, m + 1)  # one healthy node of it, in a spare ToR, is left out
        hop = np.diff(self.plain, axis=1)
        self.fits = (self.row[: len(self.plain)] == self.plain[:, -1] // rows.tors) & (hop <= hops).all(axis=1)
        if not corners:
            self.fits &= ~((hop[:, 1:] == hop[:, :-1]) & (hop[:, 1:] >= SHARED_HOP)).any(axis=1)
        self.solid = self.wide[:, -1] - self.wide[:, 0] == m
        self.solid &= self.row[: len(self.wide)] == self.wide[:, -1] // rows.tors
        self.height = int(self.within.max(initial=-1)) + 1

    def placements(self, number: np.ndarray, need: int, prices: np.ndarray, most: int) -> list[Placement]:
        """The cheapest `most` placements over all template sets `number` (sets, L); none if no set holds `need` groups.

        prices: float, rising, of a group; each set is filled at the lowest that gives enough groups.
        """
        label = number.astype(np.int32)[:, self.tor]
        cost, stands = self._costs(label)
        exact = self._exact(label)
        gains = [self._by_row(np.where(self.fits, -cost, -np.inf)), self._by_row(np.where(exact, 0.0, -np.inf))]
        chosen = cover(gains, [self.m, self.m + 1], prices)
        starts = follow(chosen).reshape(-1, self.rows.tor_size, len(number), len(prices))
        chosen = chosen.reshape(self.height, self.rows.tor_size, len(number), len(prices))
        first = np.searchsorted(self.row, np.arange(self.rows.tor_size))
        found = []
        for nth in range(len(number)):
            counts = (starts[:, :, nth] < self.height).sum(axis=(0, 1))
            if counts.max(initial=0) < need:
                continue
            price = int(np.argmax(counts >= need))
            step, row = np.nonzero(starts[:, :, nth, price] < self.height)
            within = starts[step, row, nth, price]
            start, wide = first[row] + within, chosen[within, row, nth, price] > self.m
            costs = np.where(wide, 0, cost[nth, np.minimum(start, len(self.plain) - 1)])
            kept = np.argsort(costs, kind="stable")[:need]
            found.append((int(costs[kept].sum()), nth, start[kept], wide[kept]))
        found.sort(key=lambda one: one[:2])
        return [self._assemble(number[nth], stands[nth], start, wide) for _, nth, start, wide in found[:most]]

    def _costs(self, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes of each plain window outside its template (sets, windows), and that template: the one with most of it.

        label: (sets, healthy nodes), the templates of their ToRs.
        """
        parts = [label[:, k : k + len(self.plain)] for k in range(self.m)]
        lowest = np.full(parts[0].shape, self.rows.tors, np.int32)
        for part in parts:
            np.minimum(lowest, np.where(part < 0, self.rows.tors, part), out=lowest)
        here, next_ = (sum((part == lowest + step).astype(np.int8) for part in parts) for step in (0, 1))
        stands = np.where(lowest == self.rows.tors, 0, lowest + (next_ > here))  # all in spare ToRs: any template
        return (self.m - np.maximum(here, next_)).astype(np.float32), stands

    def _exact(self, label: np.ndarray) -> np.ndarray:
        """bool (sets, wide windows): all but an inner node, in a spare ToR, are a template."""
        parts = [label[:, k : k + len(self.wide)] for k in range(self.m + 1)]
        same = sum((part == parts[0]).astype(np.int8) for part in parts)
        return np.asarray(self.solid & (same == self.m) & (parts[0] >= 0) & (parts[-1] == parts[0]))

    def _by_row(self, values: np.ndarray) -> np.ndarray:
        """(sets, windows) as float (height, p × sets)."""
        sets, count = values.shape
        table = np.full((self.height, self.rows.tor_size, sets), -np.inf)
        table[self.within[:count], self.row[:count]] = values.T
        return table.reshape(self.height, -1)

    def _assemble(self, number: np.ndarray, stands: np.ndarray, start: np.ndarray, wide: np.ndarray) -> Placement:
        chains = np.empty((len(start), self.m), np.int64)
        template = np.empty(len(start), np.int64)
        chains[~wide], template[~wide] = self.plain[start[~wide]], stands[start[~wide]]
        whole = self.wide[start[wide]]
        label = number[whole % self.rows.tors]
        template[wide] = label[:, 0]
        chains[wide] = whole[label == label[:, :1]].reshape(-1, self.m)
        order, ranks = order_and_rank(chains, template, number, self.rows.tors)
        return Placement(self.rows, chains[order], ranks[order])


def _sliding(places: np.ndarray, length: int) -> np.ndarray:
    """(windows, length): all runs of so many places."""
    if len(places) < length:
        return np.zeros((0, length), np.int64)
    return np.lib.stride_tricks.sliding_window_view(places, length)
