"""The number of groups that are formed against the exact optimum of an integer programme."""

from itertools import combinations, permutations

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.optimum import most_groups, upper_bound
from pimloom.mappers.ring import form_chains


def draw(rng: np.random.Generator) -> tuple[np.ndarray, int, int]:
    """A small ring with many runs of two faulty nodes, so that corner cases are frequent; m; K."""
    hops, m = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    runs = rng.choice([0, 1, 2, 3, 4], p=[0.25, 0.15, 0.45, 0.1, 0.05], size=int(rng.integers(4, 9)))
    healthy = np.concatenate([[True, *[False] * int(run)] for run in runs])
    healthy = np.concatenate([healthy, np.ones(max(0, 2 * hops + 1 - len(healthy)), bool)])
    return np.roll(healthy, int(rng.integers(len(healthy)))), m, hops


def gaps(count: int, seed: int) -> tuple[int, int]:
    """(cases below the bound of pieces, cases where the heuristic is below the optimum)."""
    rng, bound, missed = np.random.default_rng(seed), 0, 0
    for _ in range(count):
        healthy, m, hops = draw(rng)
        for corners in (False, True):
            best = most_groups(healthy, m, khop(hops), corners=corners)
            formed = len(form_chains(healthy, m, hops, corners=corners))
            limit = upper_bound(healthy, m, hops)
            assert formed <= best <= limit
            assert best == limit or not corners
            bound += best < limit
            missed += formed < best
    return bound, missed


def test_for_k_2_and_3_no_placement_has_more_groups():
    bound, missed = gaps(60, 1)
    assert missed == 0 and bound >= 2  # corner cases cost groups, and the heuristic loses no more than they must


@pytest.mark.slow
def test_for_k_2_and_3_no_placement_has_more_groups_in_many_cases():
    bound, missed = gaps(600, 2)
    assert missed == 0 and bound >= 30


def test_for_k_4_leaving_out_a_healthy_node_can_be_better():
    """The heuristic takes every healthy node and meets a corner; the optimum hops over one."""
    healthy = np.array([sign == "." for sign in ".xx.xxxx.xxxx..xx.xx"])
    assert (most_groups(healthy, 4, khop(4)), len(form_chains(healthy, 4, 4))) == (1, 0)


def naive_most(healthy: np.ndarray, m: int, hops: int) -> int:
    """By trying all sets of groups, each any order of m nodes whose bundles differ on both sides of every node."""
    fabric, nodes = khop(hops), len(healthy)

    def hop(a: int, b: int) -> int:
        return (b - a + nodes // 2) % nodes - nodes // 2

    def holds(order: tuple[int, ...]) -> bool:
        over = [hop(a, b) for a, b in zip(order, order[1:], strict=False)]
        if any(abs(one) > hops for one in over):
            return False
        return all(fabric.paths(-a)[0][0] != fabric.paths(b)[0][0] for a, b in zip(over, over[1:], strict=False))

    places = np.flatnonzero(healthy).tolist()
    groups = [set(one) for one in combinations(places, m) if any(map(holds, permutations(one)))]

    def best(rest: list[set[int]]) -> int:
        found = 0
        for nth, one in enumerate(rest):
            found = max(found, 1 + best([other for other in rest[nth + 1 :] if not one & other]))
        return found

    return best(groups)


def test_the_integer_programme_is_the_optimum_of_all_placements():
    rng = np.random.default_rng(3)
    for _ in range(25):
        hops, m = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        healthy = rng.random(int(rng.integers(2 * hops + 1, 14))) < 0.55
        assert most_groups(healthy, m, khop(hops)) == naive_most(healthy, m, hops)


def test_large_clusters_and_tiny_rings_are_refused():
    with pytest.raises(UserError, match="--optimum: more than 20000 sets of 8 nodes are candidates"):
        most_groups(np.ones(720, bool), 8, khop(3))
    with pytest.raises(UserError, match="6 nodes: expected more than 2 K = 6"):
        most_groups(np.ones(6, bool), 2, khop(3))
    assert most_groups(np.zeros(9, bool), 2, khop(3)) == 0
