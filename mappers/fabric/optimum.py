"""The largest number of groups, exactly, on small clusters: set packing by integer programming (HiGHS)."""

from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array

from pimloom.arch.error import UserError
from pimloom.arch.topology.khop import KHop
from pimloom.mappers.ring import SHARED_HOP, segments

MOST_SETS = 20_000  # sets of nodes that HiGHS packs within seconds


def upper_bound(healthy: np.ndarray, m: int, hops: int) -> int:
    """Groups of m nodes that no placement exceeds: each piece of the ring holds floor(nodes / m)."""
    return sum(len(piece) // m for piece in segments(healthy, hops))


def most_groups(healthy: np.ndarray, m: int, fabric: KHop, *, corners: bool = False) -> int:
    """The largest number of disjoint groups of m healthy nodes, each a path of hops up to K in any order of nodes.

    healthy: bool (n,) around the ring, n > 2 K. corners: let a bundle be live twice. Raises UserError if there are more
    than `MOST_SETS` candidates.
    """
    if len(healthy) <= 2 * fabric.hops:
        raise UserError(f"{len(healthy)} nodes: expected more than 2 K = {2 * fabric.hops} in a ring")
    sets = _sets(healthy, m, fabric, corners)
    if not sets:
        return 0
    rows = np.concatenate([np.array(one) for one in sets])
    columns = np.repeat(np.arange(len(sets)), m)
    holds = csc_array((np.ones(len(rows)), (rows, columns)), shape=(len(healthy), len(sets)))
    once = LinearConstraint(holds, ub=np.ones(len(healthy)))
    found = milp(-np.ones(len(sets)), integrality=np.ones(len(sets)), bounds=Bounds(0, 1), constraints=once)
    if not found.success:
        raise RuntimeError(f"the integer programme of {len(sets)} candidates was not solved: {found.message}")
    return round(-found.fun)


def _sets(healthy: np.ndarray, m: int, fabric: KHop, corners: bool) -> list[tuple[int, ...]]:
    """Sets of m nodes that a path joins, as positions.

    Sorted along the ring, neighbours in such a set are at most K apart: in any order, the path hops over each gap.
    """
    nodes = len(healthy)
    found: dict[frozenset[int], tuple[int, ...]] = {}
    stack: list[tuple[int, ...]] = [(start,) for start in np.flatnonzero(healthy).tolist()]
    while stack:
        path = stack.pop()
        if len(path) == m:
            places = tuple(place % nodes for place in path)
            if corners or _holds(path, fabric):
                found.setdefault(frozenset(places), places)
                if len(found) > MOST_SETS:
                    raise UserError(
                        f"--optimum: more than {MOST_SETS} sets of {m} nodes are candidates; make --nodes smaller"
                    )
            continue
        for hop in range(1, fabric.hops + 1):
            place = path[-1] + hop
            if place < path[0] + nodes and healthy[place % nodes]:
                stack.append((*path, place))
    return list(found.values())


def _holds(path: tuple[int, ...], fabric: KHop) -> bool:
    """Whether some order of the nodes joins them with each bundle live once."""
    hop = [right - left for left, right in pairwise(path)]
    if not any(
        before == after and _bundle(fabric, before) == _bundle(fabric, -after) for before, after in pairwise(hop)
    ):
        return True
    if fabric.hops <= SHARED_HOP:  # the node in the corner has no other neighbours in reach
        return False
    return any(_extends([start], None, set(path) - {start}, fabric) for start in path)


def _extends(path: list[int], taken: int | None, rest: set[int], fabric: KHop) -> bool:
    """Whether the path can go on through `rest`; `taken`: the bundle of its last node that leads back."""
    if not rest:
        return True
    here = path[-1]
    for there in rest:
        if abs(there - here) <= fabric.hops and _bundle(fabric, there - here) != taken:
            back = _bundle(fabric, here - there)
            if _extends([*path, there], back, rest - {there}, fabric):
                return True
    return False


def _bundle(fabric: KHop, hop: int) -> int:
    return fabric.paths(hop)[0][0]
