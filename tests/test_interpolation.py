"""Decode iterations that are simulated, and the error of those that lie on lines between them."""

from math import hypot, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.systems.devices.cent.asked import simulated_contexts
from pimloom.systems.devices.cent.outcome import shares
from pimloom.systems.interpolation import chosen, error, error_note, weights


def error_of(contexts, at, values):
    return error(at, values, weights(contexts, at))


@given(st.integers(0, 5000), st.integers(0, 400), st.integers(1, 500), st.integers(0, 400))
def test_first_last_and_one_of_each_further_stretch(first, n, every, bend):
    contexts = range(first, first + n)
    also = [c for c in contexts if c == first + bend]
    at = chosen(contexts, every, also)
    assert at == sorted(set(at))
    assert set(at) <= set(contexts)
    assert {*contexts[:1], *contexts[-1:], *also} <= set(at)
    for start in range(every, n, every):
        assert any(start <= c - first < start + every for c in at)
    assert len(at) <= (n + every - 1) // every + 1 + len(also)
    if every == 1:
        assert at == list(contexts)


def test_places_in_the_stretches_differ():
    places = [(c % 16) for c in chosen(range(16 * 64), 16)[1:-1]]
    assert len(set(places)) == 16
    assert max(places.count(place) for place in range(16)) <= 6


@given(st.integers(1, 300), st.integers(1, 40))
def test_each_iteration_counts_once(n, every):
    at = chosen(range(n), every)
    assert sum(weights(range(n), at)) == pytest.approx(n)
    assert np.dot(weights(range(n), at), at) == pytest.approx(n * (n - 1) / 2)  # what grows evenly is met


def test_error_of_a_line_is_none_and_of_all_is_zero():
    contexts = range(10, 200)
    at = chosen(contexts, 16)
    assert error_of(contexts, at, [3.0 * c + 7 for c in at]) == pytest.approx(0, abs=1e-12)
    assert error_of(contexts, contexts, [c % 7 + 1.0 for c in contexts]) == 0
    assert error_of(contexts, [10, 199], [1.0, 2.0]) is None
    assert error_of(range(0), [], []) == 0


def test_error_by_hand():
    """Points 8 apart on 100, those in the middle 3 above, 1 below and 4 above: off the line of their neighbours by 3.5,
    -4.5 and 4.5."""
    contexts, often, off = range(33), np.array([4.5, 8, 8, 8, 4.5]), np.array([3.5, -4.5, 4.5])
    spread = sqrt((off**2 / 1.5).mean() * (((often - 1) ** 2).sum() + 28))
    wanted = hypot(spread, 28 * off.mean() / 6) / (33 * 100 + 8 * 6)
    assert error_of(contexts, [0, 8, 16, 24, 32], [100, 103, 99, 104, 100]) == pytest.approx(wanted)
    assert error_of(contexts, [0, 8, 16, 32], [100, 103, 99, 100]) is None  # two tell nothing


def test_a_corner_is_no_chance():
    """What is simulated at the corner of a sliding window tells nothing of what is off elsewhere."""
    contexts = range(1000)
    at = chosen(contexts, 64, [500])
    values = [min(n, 500) + 1000.0 for n in at]
    told = error(at, values, weights(contexts, at), [500])
    assert told == pytest.approx(0, abs=1e-12)
    assert (error(at, values, weights(contexts, at)) or 0) > 1e-4


@pytest.mark.parametrize(("n", "every"), [(512, 2), (512, 3), (512, 16), (4096, 64)])
def test_error_is_that_of_chance(n, every):
    """Of many random runs as many sums lie within one and two standard errors as the normal law says."""
    rng, contexts = np.random.default_rng(7), range(n)
    at = chosen(contexts, every)
    often, off = weights(contexts, at), []
    for _ in range(400):
        times = 1000 + 0.5 * np.arange(n) + rng.normal(0, 40, n)
        told = error(at, times[at].tolist(), often)
        off.append((np.interp(contexts, at, times[at]).sum() / times.sum() - 1) / told)
    assert 0.9 < np.sqrt(np.mean(np.square(off))) < 1.1
    assert 0.6 < np.mean(np.abs(off) < 1) < 0.76 and 0.93 < np.mean(np.abs(off) < 2) < 0.98


def test_error_of_a_curve():
    """Straight lines between points of a curve that bends one way are off one way: told at half to twice as much."""
    contexts = range(512)
    at, times = chosen(contexts, 16), 1000 + 0.001 * np.arange(512) ** 2
    true = np.interp(contexts, at, times[at]).sum() / times.sum() - 1
    assert true / 2 < error_of(contexts, at, times[at].tolist()) < 2 * true


def test_what_is_told():
    assert error_note(0.0) == error_note(0.0004) == ""
    assert error_note(0.031) == "the time of decode is interpolated, with a standard error of 3.1 %"
    assert error_note(0.42).endswith(" 42 %") and error_note(1.5).endswith(" 150 %")
    assert "too few iterations" in error_note(None)


@given(st.integers(1, 5000), st.integers(1, 700), st.booleans())
def test_each_context_of_cent_counts_once(context, every, released):
    at = simulated_contexts(context, every, released)
    counted = shares(at, released)
    assert sum(counted) == pytest.approx(1)
    if released:  # each stands for the contexts from the one before it on
        assert np.multiply(counted, context) == pytest.approx(np.diff([0, *at]))
    else:
        assert np.dot(counted, at) == pytest.approx((context + 1) / 2)
