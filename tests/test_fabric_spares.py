"""The finer placement: it holds, has its groups, and less traffic crosses ToRs than with aligned blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.cover import cover, follow
from pimloom.mappers.fabric.ranks import order_and_rank
from pimloom.mappers.fabric.spares import with_spares
from pimloom.mappers.fabric.templates import templates
from pimloom.mappers.fabric.verify import Rules, verify
from pimloom.mappers.orchestrate import Rows, cross_in_order, cross_tor, groups_of, orchestrate
from pimloom.mappers.ring import build_rings
from pimloom.reports.fabric.place_figures import cross_tor_figure, speed_figure
from pimloom.systems.fabric.place_curves import cross_tor_rows


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(7, 40),
    st.integers(1, 8),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.02, 0.1, 0.3]),
    st.sampled_from([0.3, 0.7, 0.85, 1.0]),
    st.integers(0, 10**6),
)
def test_it_places_what_aligned_blocks_place_never_with_more_traffic(p, tors, m, hops, ratio, job, seed):
    rows = Rows(p * tors, p)
    healthy = np.random.default_rng(seed).random(rows.nodes) >= ratio
    need = groups_of(job, rows.nodes, m)
    try:
        aligned = orchestrate(healthy, rows, m, hops, need)
    except UserError:
        with pytest.raises(UserError):
            with_spares(healthy, rows, m, hops, need)
        return
    found = with_spares(healthy, rows, m, hops, need)
    assert found.chains.shape == found.ranks.shape == (need, m)
    assert (np.sort(found.chains, axis=1) == np.sort(found.ranks, axis=1)).all()
    assert cross_tor(rows.tor(found.ranks)).share <= cross_tor(rows.tor(aligned.ranks)).share
    fabric, nodes = khop(hops), rows.nodes
    rules = Rules(nodes, 4, m, hops, fabric.bundles, fabric.slots(4))
    assert verify(build_rings(fabric, 4, found.chains, nodes), np.flatnonzero(~healthy).tolist(), rules) == []


@pytest.mark.parametrize(
    ("m", "job", "ratio", "most"), [(8, 0.85, 0.03, 0.015), (8, 0.85, 0.07, 0.1), (4, 0.85, 0.05, 0.03)]
)
def test_the_curve(m, job, ratio, most):
    """Means of 3 draws below what was measured over 20, with room; the specification's heuristic is far above."""
    rows, need = Rows(2048, 8), groups_of(job, 2048, m)
    found = []
    for seed in range(3):
        healthy = np.random.default_rng(seed).random(2048) >= ratio
        fine, aligned = (way(healthy, rows, m, 3, need) for way in (with_spares, orchestrate))
        ours, order = cross_tor(rows.tor(fine.ranks)), cross_in_order(rows.tor(fine.ranks))
        assert 0 <= order.crossing <= order.pairs and ours.pairs >= 0.8 * m * need * (1 - 2048 / (8 * m) / need)
        found.append((ours.share, cross_tor(rows.tor(aligned.ranks)).share))
    mine, theirs = np.mean(found, axis=0)
    assert mine <= most and mine < theirs / 3


def test_groups_past_faults_take_a_spare_and_one_pair_crosses():
    """17 ToRs, p = 2, m = 8: ToR 8 is spare; nodes of ToRs 3 and 5 are faulty, and 5 stands in for 3 in one group."""
    rows, healthy = Rows(34, 2), np.ones(34, bool)
    healthy[[3, 17 + 5]] = False
    tors = rows.tor(with_spares(healthy, rows, 8, 3, 4).ranks)
    assert cross_tor(tors) == (16, 1)
    assert sorted(map(sorted, tors.tolist())) == [
        [0, 1, 2, 3, 4, 6, 7, 8],
        [0, 1, 2, 4, 5, 6, 7, 8],
        [9, 10, 11, 12, 13, 14, 15, 16],
        [9, 10, 11, 12, 13, 14, 15, 16],
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 10**6))
def test_a_cover_is_the_best_one(height, seed):
    """Against all choices of disjoint pieces of two lengths."""
    rng = np.random.default_rng(seed)
    gains = [rng.integers(-4, 4, (height, 2)).astype(float) for _ in range(2)]
    gains[0][height - 1 :], gains[1][max(height - 2, 0) :] = -np.inf, -np.inf
    prices, jumps = np.array([0.5, 2.5]), (2, 3)
    chosen = cover(gains, jumps, prices)
    starts = follow(chosen)

    def best(h: int, b: int, price: float) -> float:
        if h >= height:
            return 0.0
        with_piece = [gain[h, b] + price + best(h + j, b, price) for gain, j in zip(gains, jumps, strict=True)]
        return max(best(h + 1, b, price), *with_piece)

    for b in range(2):
        for q, price in enumerate(prices):
            taken = [h for h in starts[:, b, q].tolist() if h < height]
            lengths = [int(chosen[h, b, q]) for h in taken]
            assert all(h + j <= k for h, j, k in zip(taken, lengths, [*taken[1:], height + 1], strict=False))
            value = sum(gains[jumps.index(j)][h, b] + price for h, j in zip(taken, lengths, strict=True))
            assert value == pytest.approx(best(0, b, price))


def test_templates_are_m_tors_each_and_enough():
    grid = np.random.default_rng(5).random((8, 90)) > 0.07
    for number in templates(grid, 8, 9, 3):
        count = number.max() + 1
        assert count >= 9
        assert (np.bincount(number[number >= 0], minlength=count) == 8).all()
        spans = [np.ptp(np.flatnonzero(number == nth)) for nth in range(count)]
        assert max(spans) <= 8
    assert templates(grid, 8, 12, 3).shape == (0, 90)


def test_ranks_keep_their_tors():
    number = np.array([0, 0, 0, 0, -1])
    chains = np.array([[0, 1, 2, 3], [5, 7, 8, 9], [10, 11, 12, 13]])  # 5 ToRs; the second group is past ToR 1
    order, ranks = order_and_rank(chains, np.zeros(3, np.int64), number, 5)
    assert (ranks % 5).tolist() == [[0, 1, 2, 3], [0, 4, 2, 3], [0, 1, 2, 3]]
    assert order.tolist() == [0, 2, 1]


def test_rows_and_figures_of_the_report():
    rows = cross_tor_rows((0.0, 0.2), (0.85,), (4,), draws=2, nodes=128)
    assert [row["algorithm"] for row in rows] == ["spares", "aligned", "unconstrained"] * 2
    assert all(row["cross_tor_mean"] == 0 and row["does_not_fit"] == 0 for row in rows[:3])
    assert all(row["cross_tor_mean"] is None and row["does_not_fit"] == 2 for row in rows[3:])
    assert "unconstrained" in str(cross_tor_figure(rows, 4, 0.85).svg)
    assert "n log n" in str(
        speed_figure([{"algorithm": "aligned", "nodes": n, "seconds": n / 1e6} for n in (8, 16)]).svg
    )


@pytest.mark.parametrize(
    ("rows", "m", "faulty", "need"), [(Rows(96, 8), 2, [37, 39, 45, 86], 40), (Rows(8, 2), 1, [0, 4], 5)]
)
def test_a_group_that_lies_in_spare_tors_alone(rows, m, faulty, need):
    down = np.zeros(rows.nodes, bool)
    down[faulty] = True
    healthy = ~down[rows.deploy()]
    found = with_spares(healthy, rows, m, 3, need)
    assert len(found.chains) == need and len(np.unique(found.chains)) == need * m and healthy[found.chains].all()
