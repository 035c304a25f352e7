"""Placements against integer programmes: how many groups fit, and how little traffic can cross."""

from itertools import combinations, permutations

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.optimum import most_groups, upper_bound
from pimloom.mappers.fabric.spares import with_spares
from pimloom.mappers.fabric.traffic_bound import least_crossing
from pimloom.mappers.orchestrate import Rows, cross_tor, groups_of
from pimloom.mappers.ring import form_chains


def draw(rng: np.random.Generator) -> tuple[np.ndarray, int, int]:
    """A small ring with many runs of two faulty nodes, so that corner cases are frequent; m; K."""
    hops, m = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    runs = rng.choice([0, 1, 2, 3, 4], p=[0.15, 0.05, 0.55, 0.2, 0.05], size=int(rng.integers(4, 9)))
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
    bound, missed = gaps(36, 4)
    assert missed == 0 and bound >= 5  # corner cases cost groups, and the heuristic loses no more than they must


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
    for _ in range(12):
        hops, m = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        healthy = rng.random(int(rng.integers(2 * hops + 1, 14))) < 0.55
        assert most_groups(healthy, m, khop(hops)) == naive_most(healthy, m, hops)


def test_large_clusters_and_tiny_rings_are_refused(monkeypatch):
    monkeypatch.setattr("pimloom.mappers.fabric.optimum.MOST_SETS", 500)
    with pytest.raises(UserError, match="--optimum: more than 500 sets of 8 nodes are candidates"):
        most_groups(np.ones(720, bool), 8, khop(3))
    with pytest.raises(UserError, match="6 nodes: expected more than 2 K = 6"):
        most_groups(np.ones(6, bool), 2, khop(3))
    assert most_groups(np.zeros(9, bool), 2, khop(3)) == 0


def traffic(p: int, tors: int, m: int, hops: int, job: float, seed: int) -> tuple[int, int]:
    """(least crossing pairs of any placement, those of the finer one) on a small cluster with 8 % faults."""
    rows = Rows(p * tors, p)
    healthy = np.random.default_rng(seed).random(rows.nodes) >= 0.08
    need = groups_of(job, rows.nodes, m)
    found = cross_tor(rows.tor(with_spares(healthy, rows, m, hops, need).ranks))
    return least_crossing(healthy, rows, m, hops, need), found.crossing


def test_no_placement_crosses_less_than_the_bound():
    found = [traffic(4, 12, 3, 2, 0.8, seed) for seed in range(2)]
    assert all(bound <= ours for bound, ours in found)
    assert sum(ours for _, ours in found) <= 4


@pytest.mark.slow
def test_the_bound_bites_and_the_finer_placement_is_near_it():
    found = [traffic(8, 16, 4, 2, 0.8, seed) for seed in range(4)]
    assert all(bound <= ours for bound, ours in found)
    assert sum(bound for bound, _ in found) >= 1
    assert sum(ours - bound for bound, ours in found) <= 20


def test_the_bound_by_hand():
    """Four ToRs of two nodes, m = 2, K = 2, all but one group's room taken: ToRs 0 and 1 are faulty in one row each."""
    rows, healthy = Rows(8, 2), np.ones(8, bool)
    assert least_crossing(healthy, rows, 2, 2, 4) == 0  # two sets of ToRs for two blocks
    healthy[[0, 4 + 1]] = False
    assert least_crossing(healthy, rows, 2, 2, 3) == 1  # 7 goes with 6; 1 2 and 3 4, or 1 3 and 2 4: three sets
    with pytest.raises(UserError, match="the job needs 4 groups; the healthy nodes do not hold them"):
        least_crossing(healthy, rows, 2, 2, 4)
