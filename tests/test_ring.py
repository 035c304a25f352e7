"""Rings on the K-hop ring: bypasses, breaks, corner cases, and one cycle through all GPUs (gates 9, 10, 13)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.verify import Rules, verify
from pimloom.mappers.ring import LOOPBACK, build_ring, build_rings, corner_cases, cuts, form_chains, segments


def line(text: str) -> np.ndarray:
    """`.` healthy, `x` faulty."""
    return np.array([sign == "." for sign in text])


def complaints(chains: np.ndarray, healthy: np.ndarray, hops: int, gpus: int, m: int) -> list[str]:
    fabric, nodes = khop(hops), len(healthy)
    rules = Rules(nodes, gpus, m, hops, fabric.bundles, fabric.slots(gpus))
    return verify(build_rings(fabric, gpus, chains, nodes), np.flatnonzero(~healthy).tolist(), rules)


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_runs_below_k_are_bypassed_anywhere_and_k_in_a_row_cut(hops):
    for start in range(64 if hops == 3 else 8):
        for run in range(1, hops + 2):
            healthy = np.ones(64, bool)
            healthy[(start + np.arange(run)) % 64] = False
            assert cuts(~healthy, hops) == (run >= hops)
            chains = form_chains(healthy, 3, hops)
            assert len(chains) == (64 - run) // 3  # one cut only turns the ring into a line
            pieces = segments(healthy, hops)
            assert [len(piece) for piece in pieces] == [64 - run]
            over = [(there - here) % 64 for chain in chains.tolist() for here, there in pairwise(chain)]
            assert max(over) <= hops
        assert complaints(chains, healthy, hops, 4, 3) == []


@pytest.mark.parametrize("gpus", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("m", [1, 2, 3, 8, 16])
def test_m_nodes_are_one_cycle_of_m_r_gpus(gpus, m):
    """Followed apart from the verifier: from GPU to GPU over every link once."""
    hops = min(3, gpus)
    bypassing = np.flatnonzero(line((".x.x..xx.." if hops == 3 else ".x.x...x..") * 4))[:m].tolist()
    for chain in (list(range(m)), bypassing):
        left = list(build_ring(khop(hops), gpus, chain, 100).links)
        assert len(left) == m * gpus
        here, seen = (chain[0], 0), set()
        while left:
            link = next(link for link in left if here in link)
            left.remove(link)
            here = link[1] if link[0] == here else link[0]
            seen.add(here)
        assert here == (chain[0], 0) and len(seen) == m * gpus


def test_the_links_of_two_nodes_are_those_of_the_specification():
    """R = 4: A is slot 3, B is slot 1; (a, A)-(b, B+1) and (a, A+1)-(b, B) join the two rings."""
    ring = build_ring(khop(2), 4, [5, 6], 20)
    left = [((5, 0), (5, 1)), ((5, 1), (5, 2)), ((5, 2), (5, 3))]
    right = [((6, 0), (6, 1)), ((6, 2), (6, 3)), ((6, 3), (6, 0))]
    assert sorted(ring.links) == sorted([*left, *right, ((5, 3), (6, 2)), ((5, 0), (6, 1))])
    assert sorted(ring.live) == [(5, 0, 0), (5, 1, LOOPBACK), (6, 0, LOOPBACK), (6, 1, 0)]


def test_each_hop_is_on_its_bundle_and_path():
    ring = build_ring(khop(3), 4, [0, 1, 3, 6], 20)  # hops of 1, 2, 3: A or C to the right, B or C to the left
    live = {(node, bundle): path for node, bundle, path in ring.live}
    assert [live[0, b] for b in range(3)] == [0, LOOPBACK, LOOPBACK]
    assert [live[1, b] for b in range(3)] == [1, 0, LOOPBACK]
    assert [live[3, b] for b in range(3)] == [LOOPBACK, 1, 0]
    assert [live[6, b] for b in range(3)] == [LOOPBACK, LOOPBACK, 1]


def test_the_corner_case_is_counted_or_a_break():
    healthy = line("." * 5 + "xx.xx" + "." * 7)
    counted = form_chains(healthy, 13, 3, corners=True)
    assert len(counted) == 1 and corner_cases(counted, len(healthy)) == 1
    assert any("bundle C has 2 live paths" in said for said in complaints(counted, healthy, 3, 4, 13))
    broken = form_chains(healthy, 13, 3)
    assert len(broken) == 1 and corner_cases(broken, len(healthy)) == 0  # a ring may start at the corner node
    assert complaints(broken, healthy, 3, 4, 13) == []
    cut = line("." * 5 + "xx.xx" + "." * 7 + "xxx")
    assert len(form_chains(cut, 13, 3, corners=True)) == 1 and len(form_chains(cut, 13, 3)) == 0
    assert len(form_chains(cut, 8, 3)) == 1  # the corner node goes to the right
    assert len(form_chains(cut, 6, 3)) == 2  # it completes the left group


def test_two_cuts_split_the_ring_and_no_healthy_node_is_no_group():
    healthy = line("....xx.....xx...")
    assert [piece.tolist() for piece in segments(healthy, 2)] == [[6, 7, 8, 9, 10], [13, 14, 15, 0, 1, 2, 3]]
    assert form_chains(healthy, 4, 2).tolist() == [[6, 7, 8, 9], [13, 14, 15, 0]]
    assert [piece.tolist() for piece in segments(healthy, 2, wraps=False)] == [
        [0, 1, 2, 3],
        [6, 7, 8, 9, 10],
        [13, 14, 15],
    ]
    assert segments(np.zeros(9, bool), 2) == [] and form_chains(np.zeros(9, bool), 2, 2).shape == (0, 2)
    assert cuts(np.ones(9, bool), 2) == 0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.booleans(), min_size=11, max_size=60),
    st.integers(2, 5),
    st.integers(1, 6),
    st.sampled_from([4, 5, 8]),
    st.booleans(),
)
def test_every_placement_without_corners_holds(healthy, hops, m, gpus, wraps):
    hops = min(hops, gpus)
    chains = form_chains(np.array(healthy), m, hops, wraps=wraps)
    assert complaints(chains, np.array(healthy), hops, gpus, m) == []


def test_expected_cuts_of_random_faults():
    """n f^K (1 - f), within 10 % of a Monte-Carlo count."""
    rng = np.random.default_rng(1)
    for hops, ratio in ((2, 0.07), (3, 0.1)):
        faulty = rng.random((1000, 720)) < ratio
        assert cuts(faulty, hops).mean() == pytest.approx(720 * ratio**hops * (1 - ratio), rel=0.1)


def test_unknown_hops_are_refused():
    with pytest.raises(ValueError, match="no path for hops"):
        build_ring(khop(2), 4, [0, 3], 20)
