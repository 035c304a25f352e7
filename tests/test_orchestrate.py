"""Orchestration against plain Python, and the specification's values of 7.4."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.mappers.fabric.spares import with_spares
from pimloom.mappers.orchestrate import (
    Rows,
    cross_in_order,
    cross_tor,
    dcn_free,
    groups_of,
    orchestrate,
    place,
    unconstrained,
)
from pimloom.systems.fabric.place_curves import speed_rows
from tests import naive_orchestrate as naive

CLUSTERS = st.tuples(
    st.integers(1, 4),  # p
    st.integers(1, 14),  # ToRs
    st.integers(1, 4),  # m
    st.integers(2, 3),  # K
    st.sampled_from([0.0, 0.1, 0.3]),
    st.integers(0, 10**6),
)


def test_the_line_interleaves_tors():
    assert Rows(12, 3).deploy().tolist() == naive.deploy(12, 3) == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    assert Rows(12, 3).tor(np.arange(12)).tolist() == [0, 1, 2, 3] * 3
    with pytest.raises(UserError, match="--tor-size 5: expected a divisor of the 12 nodes"):
        Rows(12, 5)


@settings(max_examples=60, deadline=None)
@given(CLUSTERS)
def test_everything_equals_the_pseudo_code(cluster):
    p, tors, m, hops, ratio, seed = cluster
    rows = Rows(p * tors, p)
    faulty = np.random.default_rng(seed).random(rows.nodes) < ratio
    deploy = rows.deploy()
    healthy = ~faulty[deploy]
    oracle = naive.Cluster(rows.nodes, p, set(np.flatnonzero(faulty).tolist()), m, hops)
    line = naive.dcn_free(deploy.tolist(), oracle.faulty, m, hops)
    assert deploy[dcn_free(healthy, m, hops, corners=True)].tolist() == line
    for count in range(tors // m + 1):
        constrained = np.isin(np.arange(tors // m), oracle.order[:count])
        groups = place(healthy, rows, m, hops, constrained, corners=True)
        assert deploy[groups].tolist() == oracle.place(count)
    for need in {0, 1, len(oracle.place(0)) * 3 // 4, len(oracle.place(0)), len(oracle.place(0)) + 1}:
        expected = oracle.orchestrate(need)
        if expected is None:
            for way in (orchestrate, unconstrained):
                with pytest.raises(UserError, match=f"the job needs {need} groups; the healthy nodes hold"):
                    way(healthy, rows, m, hops, need, corners=True)
            continue
        found = orchestrate(healthy, rows, m, hops, need, corners=True)
        assert (found.constraints, deploy[found.chains].tolist()) == expected
        assert cross_tor(rows.tor(found.ranks)) == oracle.cross_tor(expected[1])
        reference = unconstrained(healthy, rows, m, hops, need, corners=True)
        assert deploy[reference.chains].tolist() == oracle.place(0)[:need]


@pytest.mark.parametrize(
    ("m", "job", "ratio", "aligned", "reference"),
    [
        (8, 0.70, 0.05, 0.056, 0.626),
        (8, 0.70, 0.07, 0.200, 0.679),
        (8, 0.85, 0.02, 0.016, 0.472),
        (8, 0.85, 0.03, 0.142, 0.519),
        (8, 0.85, 0.05, 0.316, 0.575),
        (4, 0.70, 0.07, 0.001, 0.499),
        (4, 0.85, 0.03, 0.000, 0.384),
    ],
)
def test_shares_of_the_specification(m, job, ratio, aligned, reference):
    """Section 7.4: means over at least 20 draws, tolerance 0.05; R = 4, p = 8, 2048 nodes, K = 3."""
    rows, need = Rows(2048, 8), groups_of(job, 2048, m)
    found = []
    for seed in range(24):
        healthy = np.random.default_rng(seed).random(2048) >= ratio
        ways = [way(healthy, rows, m, 3, need, corners=True) for way in (orchestrate, unconstrained)]
        found.append([cross_tor(rows.tor(placement.ranks)).share for placement in ways])
    assert np.mean(found, axis=0) == pytest.approx([aligned, reference], abs=0.05)


def test_without_faults_nothing_crosses_and_with_m_1_nothing_can():
    rows = Rows(256, 8)
    assert cross_tor(rows.tor(orchestrate(np.ones(256, bool), rows, 8, 3, 32).ranks)) == (224, 0)
    faulty = np.random.default_rng(1).random(256) < 0.1
    for way in (orchestrate, unconstrained, with_spares):
        assert cross_tor(rows.tor(way(~faulty, rows, 1, 3, 200).ranks)).crossing == 0
    assert cross_tor(np.zeros((0, 4), np.int64)) == (0, 0) and cross_tor(np.zeros((0, 4), np.int64)).share == 0


def test_traffic_on_one_chain_by_hand():
    """Two ToRs must be entered by two ranks each: 4 - 2 pairs cross in any order; here one more does."""
    tors = np.array([[0, 1], [0, 1], [2, 3], [2, 1]])
    assert cross_in_order(tors) == (2 * 3 - 2, 3 - 2)
    assert cross_in_order(tors[:1]) == (0, 0)


@pytest.mark.parametrize("algorithm", ["aligned", pytest.param("spares", marks=pytest.mark.slow)])
def test_32768_nodes_are_placed_in_a_fifth_of_a_second(algorithm):
    (row,) = speed_rows([32768], algorithm)
    assert row["nodes"] == 32768 and row["seconds"] <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["aligned", "spares"])
def test_time_grows_no_faster_than_n_log_n(algorithm):
    rows = speed_rows(algorithm=algorithm, repeats=5)
    sizes, seconds = (np.array([row[key] for row in rows], float) for key in ("nodes", "seconds"))
    slope, _ = np.polyfit(np.log(sizes * np.log(sizes)), np.log(seconds), 1)
    assert slope < 1.15  # measured: about 0.9; caches make the largest a little slower
