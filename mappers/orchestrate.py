"""Where the groups of a job go so that little traffic between them crosses a top-of-rack switch (ToR). [design]

The line visits node 0 of every ToR, then node 1 of every ToR, …: with L ToRs of p nodes, position r L + t is node
t p + r, in ToR t. So a group of m nodes spans m ToRs, and groups of the same ToRs exchange data, rank by rank, within
them. Traffic crosses where faults shift a group. The published pseudo-code is not known; this restates the project's
specification. Everything here counts in positions along the line; `deploy` turns them into nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.mappers.ring import break_corners, chop, corner_places


class Traffic(NamedTuple):
    """Pairs of nodes of equal rank in neighbouring groups, and how many of them are in two ToRs."""

    pairs: int
    crossing: int

    @property
    def share(self) -> float:
        """Of the pairs; 0 without pairs."""
        return self.crossing / max(self.pairs, 1)


@dataclass(frozen=True)
class Rows:
    """The line of a cluster as p rows of L ToRs. Raises UserError unless the ToR size divides the nodes."""

    nodes: int
    tor_size: int

    def __post_init__(self) -> None:
        if not 1 <= self.tor_size <= self.nodes or self.nodes % self.tor_size:
            raise UserError(f"--tor-size {self.tor_size}: expected a divisor of the {self.nodes} nodes")

    @property
    def tors(self) -> int:
        """L."""
        return self.nodes // self.tor_size

    def deploy(self) -> np.ndarray:
        """int64 (nodes,): the node at each position of the line."""
        place = np.arange(self.nodes)
        return place % self.tors * self.tor_size + place // self.tors

    def tor(self, places: np.ndarray) -> np.ndarray:
        """The ToR of positions."""
        return places % self.tors


@dataclass(frozen=True)
class Placement:
    """A job's groups. chains: int64 (groups, m), positions in the order of the hops.

    ranks: int64 (groups, m), the same positions by tensor-parallel rank: ranks of a ring may be numbered in any order,
    for its collectives pass through all of them. Groups stand in the order in which data-parallel rings join them.
    constraints: blocks of ToRs that only hold aligned groups (0 where that is not how it was made).
    """

    rows: Rows
    chains: np.ndarray
    ranks: np.ndarray
    constraints: int = 0

    @property
    def m(self) -> int:
        """Nodes of a group."""
        return self.chains.shape[1]


def dcn_free(healthy: np.ndarray, m: int, hops: int, *, corners: bool = False) -> np.ndarray:
    """Groups along the line from its first position on, without regard to ToRs: int64 (groups, m)."""
    return _chop_free(np.flatnonzero(healthy), np.zeros(len(healthy), np.int64), m, hops, corners)


def place(
    healthy: np.ndarray, rows: Rows, m: int, hops: int, constrained: np.ndarray, *, corners: bool = False
) -> np.ndarray:
    """Groups if the blocks `constrained` (bool, L // m of them, m ToRs each) only hold aligned groups.

    healthy: bool (nodes,) along the line. An aligned group is one row of a block, all healthy. Between constrained
    blocks groups go along the row as in `dcn_free`, none from one row into the next; the last L mod m ToRs of a row are
    never constrained. Returns int64 (groups, m) in the order of the line.
    """
    columns = len(constrained) * m
    strict = np.zeros(rows.tors, bool)
    strict[:columns] = np.repeat(constrained, m)
    strict = np.tile(strict, rows.tor_size)
    aligned = _aligned(healthy, rows, m) & constrained
    row, block = np.nonzero(aligned)
    fixed = (row * rows.tors + block * m)[:, None] + np.arange(m)
    stretch = np.cumsum(strict) + np.arange(rows.nodes) // rows.tors
    free = _chop_free(np.flatnonzero(healthy & ~strict), stretch, m, hops, corners)
    groups = np.concatenate([fixed, free])
    return groups[np.argsort(groups[:, 0])]


def orchestrate(healthy: np.ndarray, rows: Rows, m: int, hops: int, need: int, *, corners: bool = False) -> Placement:
    """`need` groups with as many blocks constrained to aligned groups as leave room for them.

    healthy: bool (nodes,) along the line. Blocks are constrained in the order of their healthy rows, most first; binary
    search finds how many. Aligned groups are handed out first. Raises UserError if `need` groups do not fit at all.
    corners: see `mappers/ring.py`. Time: O(n log n), one linear `place` for each step of the search.
    """
    count = rows.tors // m
    order = np.argsort(-_aligned(healthy, rows, m).sum(axis=0), kind="stable")

    def with_first(constraints: int) -> np.ndarray:
        constrained = np.zeros(count, bool)
        constrained[order[:constraints]] = True
        return place(healthy, rows, m, hops, constrained, corners=corners)

    constraints, groups = _most(with_first, need, count)
    tors = rows.tor(groups)
    loose = (tors[:, 0] % m != 0) | (tors[:, -1] - tors[:, 0] != m - 1)
    chosen = groups[np.argsort(loose, kind="stable")[:need]]
    return Placement(rows, chosen, chosen, constraints)


def unconstrained(healthy: np.ndarray, rows: Rows, m: int, hops: int, need: int, *, corners: bool = False) -> Placement:
    """The reference: the first `need` groups, row by row. Raises UserError if they do not fit."""
    groups = place(healthy, rows, m, hops, np.zeros(rows.tors // m, bool), corners=corners)
    _check_room(len(groups), need)
    return Placement(rows, groups[:need], groups[:need])


def cross_tor(tors: np.ndarray) -> Traffic:
    """Traffic between neighbours of groups sorted by their ToRs; tors: int64 (groups, m), by rank.

    Neighbours whose first ToRs lie in different blocks of m ToRs are left out: their traffic is an outer dimension's.
    """
    groups, m = tors.shape
    if not groups:
        return Traffic(0, 0)
    tors = tors[by_tors(tors)]
    same = tors[1:, 0] // m == tors[:-1, 0] // m
    crossing = (tors[1:] != tors[:-1])[same]
    return Traffic(int(same.sum()) * m, int(crossing.sum()))


def cross_in_order(tors: np.ndarray) -> Traffic:
    """The same with all groups on one chain in the given order, less what no order and no ranks could avoid.

    Every rank's chain visits nodes; those of one ToR make at most one pair less than they are. So of T ToRs used, at
    least T - m pairs cross: they are taken off both numbers.
    """
    groups, m = tors.shape
    if groups < 2:
        return Traffic(0, 0)
    forced = len(np.unique(tors)) - m
    return Traffic(m * (groups - 1) - forced, int((tors[1:] != tors[:-1]).sum()) - forced)


def by_tors(tors: np.ndarray) -> np.ndarray:
    """int64 (groups,): the order of groups sorted by their tuple of ToRs."""
    return np.lexsort(tors.T[::-1])


def groups_of(job: float, nodes: int, m: int) -> int:
    """Groups of a job that takes the share `job` of all nodes, rounded down."""
    return int(job * nodes) // m


def _most(with_first: Callable[[int], np.ndarray], need: int, count: int) -> tuple[int, np.ndarray]:
    """The largest number of constraints, by bisection, with `need` groups, and those. Raises UserError."""
    low, high, found = 0, count, with_first(0)
    _check_room(len(found), need)
    while low < high:
        middle = (low + high + 1) // 2
        groups = with_first(middle)
        if len(groups) >= need:
            low, found = middle, groups
        else:
            high = middle - 1
    return low, found


def _check_room(groups: int, need: int) -> None:
    if groups < need:
        raise UserError(f"the job needs {need} groups; the healthy nodes hold {groups}: make it smaller")


def _aligned(healthy: np.ndarray, rows: Rows, m: int) -> np.ndarray:
    """bool (p, L // m): rows of blocks that are all healthy."""
    grid = healthy.reshape(rows.tor_size, rows.tors)[:, : rows.tors // m * m]
    return np.asarray(grid.reshape(rows.tor_size, rows.tors // m, m).all(axis=2))


def _chop_free(places: np.ndarray, stretch: np.ndarray, m: int, hops: int, corners: bool) -> np.ndarray:
    """Consecutive groups of healthy positions, none across a cut or from one stretch (by position) into another."""
    if not len(places):
        return np.zeros((0, m), np.int64)
    hop = np.diff(places, prepend=places[0] - 1)
    broken = (hop > hops) | (np.diff(stretch[places], prepend=-1) != 0)
    if not corners:
        broken = break_corners(broken, corner_places(hop, broken), m)
    return chop(places, broken, m)
