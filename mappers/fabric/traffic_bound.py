"""How little traffic across ToRs any placement of a small cluster can have: a lower bound by integer programming.

Let a placement's G groups have C different tuples of ToRs, by rank, and let the first ToRs lie in B <= ceil(L / m)
blocks of m ToRs. `cross_tor` sorts the groups, so it counts G - B pairs of neighbours, and at most G - C of them have
equal tuples; each other pair crosses at least once. So at least C - B node pairs cross, and C is at least the least
number of different sets of ToRs that G disjoint groups can have. That number is found here.
"""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from pimloom.arch.error import UserError
from pimloom.arch.units import ceil_div
from pimloom.mappers.orchestrate import Rows
from pimloom.mappers.ring import SHARED_HOP

MOST_GROUPS = 20_000  # candidates


def least_crossing(healthy: np.ndarray, rows: Rows, m: int, hops: int, need: int, limit_s: float = 60) -> int:
    """Node pairs that cross in any placement of `need` groups along the line, at least. K = 2 or 3.

    healthy: bool (nodes,) along the line. limit_s: after that time the bound known then is used. Raises UserError if
    there are too many candidates, or `need` groups do not fit.
    """
    candidates = _candidates(healthy, m, hops)
    sets = sorted({_tors(chain, rows) for chain in candidates})
    number = {one: nth for nth, one in enumerate(sets)}
    of_set = np.array([number[_tors(chain, rows)] for chain in candidates], np.int64)
    count = len(candidates)
    place = np.array(candidates, np.int64).reshape(count, m)
    group = np.arange(count)
    size = np.bincount(of_set, minlength=len(sets))
    each_once = (np.ones(count * m), (place.ravel(), np.repeat(group, m)))
    opened = (
        np.concatenate([np.ones(count), -size]),
        (np.concatenate([of_set, np.arange(len(sets))]), np.concatenate([group, count + np.arange(len(sets))])),
    )
    width = count + len(sets)
    constraints = [
        LinearConstraint(coo_array(each_once, shape=(rows.nodes, width)).tocsr(), ub=1),
        LinearConstraint(coo_array(opened, shape=(len(sets), width)).tocsr(), ub=0),
        LinearConstraint(np.concatenate([np.ones(count), np.zeros(len(sets))])[None], lb=need),
    ]
    cost = np.concatenate([np.zeros(count), np.ones(len(sets))])
    options = {"time_limit": limit_s}
    found = milp(cost, integrality=np.ones(width), bounds=Bounds(0, 1), constraints=constraints, options=options)
    if found.mip_dual_bound is None or not np.isfinite(found.mip_dual_bound):
        raise UserError(f"the job needs {need} groups; the healthy nodes do not hold them: make it smaller")
    return max(int(np.ceil(found.mip_dual_bound - 1e-6)) - ceil_div(rows.tors, m), 0)


def _tors(chain: tuple[int, ...], rows: Rows) -> tuple[int, ...]:
    return tuple(sorted(place % rows.tors for place in chain))


def _candidates(healthy: np.ndarray, m: int, hops: int) -> list[tuple[int, ...]]:
    """Groups of m healthy nodes along the line, none with a corner node."""
    found: list[tuple[int, ...]] = []
    stack: list[tuple[int, ...]] = [(start,) for start in np.flatnonzero(healthy).tolist()]
    while stack:
        chain = stack.pop()
        if len(chain) == m:
            found.append(chain)
            if len(found) > MOST_GROUPS:
                raise UserError(
                    f"more than {MOST_GROUPS} groups of {m} nodes are candidates; expected a smaller cluster"
                )
            continue
        before = chain[-1] - chain[-2] if len(chain) > 1 else 0
        for hop in range(1, hops + 1):
            place = chain[-1] + hop
            if place < len(healthy) and healthy[place] and not (hop == before >= SHARED_HOP):
                stack.append((*chain, place))
    return found
