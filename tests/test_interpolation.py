"""Decode iterations that are simulated, and the error of those that lie on lines between them."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.systems.serving.interpolation import chosen, error, said, weights


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
    """Three points 8 apart, the middle one 3 above the line, at whose ends 100 stands."""
    contexts, spread = range(17), 3 / sqrt(1.5)
    often = [4.5, 8, 4.5]
    total = 17 * 100 + 8 * 3
    wanted = spread * sqrt(sum(w * w for w in often)) / total
    assert error_of(contexts, [0, 8, 16], [100, 103, 100]) == pytest.approx(wanted)


def test_error_is_that_of_chance():
    """Of many random runs about as many sums lie within one and two standard errors as the normal law says, also where
    single times follow from the context in a pattern of 16."""
    rng, contexts, within = np.random.default_rng(7), range(1, 513), []
    for _ in range(400):
        times = 1000 + 0.5 * np.arange(512) + rng.normal(0, 40, 16)[np.arange(512) % 16]
        at = chosen(contexts, 16)
        told = error_of(contexts, at, [times[c - 1] for c in at])
        true = np.interp(contexts, at, [times[c - 1] for c in at]).sum() / times.sum() - 1
        within.append(abs(true) / told)
    assert 0.6 < np.mean(np.array(within) < 1) <= 1
    assert np.mean(np.array(within) < 2) > 0.93


def test_what_is_told():
    assert said(0.0) == said(0.0004) == ""
    assert said(0.031) == "the time of decode is interpolated, with a standard error of 3.1 %"
    assert "too few iterations" in said(None)
