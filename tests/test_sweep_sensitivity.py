"""Pareto fronts against brute force; sensitivities against closed forms, whole grids and SALib."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.reports.sweep.sensitivity import Indices, exact_indices, sensitivities
from pimloom.sweeping.columns import Column, read_columns
from pimloom.sweeping.pareto import pareto_mask

NUMBERS = st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.5, float("inf"), float("nan")])


def naive_front(values: list[list[float]], directions: list[str], feasible: list[bool]) -> list[bool]:
    signs = [1 if way == "min" else -1 for way in directions]
    costs = [[sign * value for sign, value in zip(signs, row, strict=True)] for row in values]
    known = [good and not any(value != value for value in row) for row, good in zip(values, feasible, strict=True)]

    def beats(a: list[float], b: list[float]) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    return [
        known[row] and not any(known[other] and beats(costs[other], costs[row]) for other in range(len(values)))
        for row in range(len(values))
    ]


@given(st.data(), st.integers(1, 5))
def test_the_front_is_the_one_of_brute_force(data: Any, count: int) -> None:
    rows = data.draw(st.lists(st.lists(NUMBERS, min_size=count, max_size=count), max_size=24))
    directions = data.draw(st.lists(st.sampled_from(["min", "max"]), min_size=count, max_size=count))
    feasible = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    mask = pareto_mask(np.array(rows).reshape(-1, count), directions, np.array(feasible, dtype=bool))
    assert mask.tolist() == naive_front(rows, directions, feasible)


def test_a_front_needs_objectives_and_known_directions() -> None:
    assert not pareto_mask(np.empty((3, 0)), [], np.ones(3, dtype=bool)).any()
    with pytest.raises(ValueError, match="must be min or max, not 'best'"):
        pareto_mask(np.zeros((1, 1)), ["best"], np.ones(1, dtype=bool))


LENGTHS = (4, 3, 5, 8, 2)


def function(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1] + 3 * np.sin(x[:, 3]) + (x[:, 4] - 0.5) * x[:, 2]


def points() -> np.ndarray:
    return np.array(list(product(*map(range, LENGTHS))), dtype=float)


def axes_of(values: np.ndarray) -> list[Column]:
    return list(read_columns(pd.DataFrame(values)).values())


def found(values: np.ndarray, objective: np.ndarray) -> Indices:
    indices = sensitivities(axes_of(values), objective, np.ones(len(objective), dtype=bool))
    assert isinstance(indices, Indices)
    return indices


def test_indices_of_a_grid_are_the_closed_form() -> None:
    """a + b + 2ab over {-1, 1}²: variances 1, 1 and 4, so 1/6 each alone and 5/6 with the other."""
    values = np.array(list(product([-1.0, 1.0], repeat=2)))[[2, 0, 3, 1]]
    indices = found(values, values.sum(axis=1) + 2 * values.prod(axis=1))
    assert indices.exact and indices.points == 4
    np.testing.assert_allclose(indices.main, [1 / 6, 1 / 6])
    np.testing.assert_allclose(indices.total, [5 / 6, 5 / 6])


@pytest.mark.slow
def test_indices_of_a_grid_are_those_of_salib() -> None:
    from SALib.analyze import sobol
    from SALib.sample import sobol as sampler

    problem = {"num_vars": 5, "names": list("abcde"), "bounds": [[0, length] for length in LENGTHS]}
    inside = np.floor(sampler.sample(problem, 1024, calc_second_order=False, seed=1))
    theirs = sobol.analyze(problem, function(inside), calc_second_order=False, num_resamples=5, seed=1)
    ours = found(points(), function(points()))
    np.testing.assert_allclose(ours.main, theirs["S1"], atol=0.03)
    np.testing.assert_allclose(ours.total, theirs["ST"], atol=0.03)


def test_an_estimate_from_a_part_of_the_grid_is_close_to_the_whole() -> None:
    values, rows = points(), np.random.default_rng(0).permutation(960)[:400]
    noise = np.random.default_rng(1).normal(size=960)
    whole, part = found(values, function(values) + noise), found(values[rows], (function(values) + noise)[rows])
    assert whole.exact and not part.exact and part.main_range is not None and part.total_range is not None
    clean_main, clean_total = exact_indices(function(values).reshape(LENGTHS))
    share = function(values).var() / (function(values) + noise).var()  # noise is nobody's
    np.testing.assert_allclose(part.main, clean_main * share, atol=0.05)
    np.testing.assert_allclose(part.total, clean_total * share, atol=0.06)
    assert (part.main_range[:, 0] <= part.main).all() and (part.main <= part.main_range[:, 1]).all()
    assert part.explained == pytest.approx(share, abs=0.06)


def test_an_estimate_of_what_two_axes_make_is_exact_and_repeats() -> None:
    values = points()[np.random.default_rng(0).permutation(960)[:300]]
    first, again = (found(values, function(values)) for _ in range(2))
    main, total = exact_indices(function(points()).reshape(LENGTHS))
    np.testing.assert_allclose(first.main, main, atol=1e-6)
    np.testing.assert_allclose(first.total, total, atol=1e-6)
    assert np.array_equal(first.total, again.total)


def test_noise_alone_gives_no_axis_a_share() -> None:
    generator = np.random.default_rng(0)
    indices = found(generator.random((2000, 3)), generator.normal(size=2000))
    assert indices.total.max() < 0.02 and indices.explained < 0.02


HOLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # points that failed
    "a corner": lambda x: (x[:, 3] >= 5) & (x[:, 2] >= 3),
    "a triangle": lambda x: x[:, 3] + 2 * x[:, 2] > 11,
    "two corners": lambda x: ((x[:, 3] >= 6) & (x[:, 0] >= 2)) | ((x[:, 1] == 2) & (x[:, 2] == 4)),
    "a stripe": lambda x: (x[:, 4] == 1) & (x[:, 1] == 2),
    "most": lambda x: x[:, 3] * (x[:, 0] + 1) > 7,
}


@pytest.mark.parametrize("hole", HOLES)
def test_shares_of_a_grid_with_failed_points_are_those_of_the_groups(hole: str) -> None:
    """Of a sum of effects: each axis's share is the variance of the means of its groups."""
    values = points()
    objective = 2 * np.sqrt(values[:, 0]) + values[:, 1] + 0.5 * values[:, 2] + np.log1p(values[:, 3]) + values[:, 4]
    rows = ~HOLES[hole](values)
    groups = pd.DataFrame(values).assign(y=objective)
    shares = [groups.groupby(axis)["y"].mean().var(ddof=0) / objective.var() for axis in range(5)]
    part = sensitivities(axes_of(values), objective, rows)
    assert isinstance(part, Indices) and not part.exact
    np.testing.assert_allclose(part.main, shares, atol=0.03)
    np.testing.assert_allclose(part.total, shares, atol=0.03)


def test_axes_that_cannot_be_told_apart_are_named() -> None:
    values = points()
    both = (values[:, 1] == 0) == (values[:, 4] == 0)  # where the other points have failed
    why = sensitivities(axes_of(values), function(values), both & (values[:, 1] < 2))
    assert why == "1 and 4 vary together in the points that are left: their effects cannot be separated."


def test_a_pair_that_goes_together_with_another_is_left_out_and_named() -> None:
    """Of four axes of two values the points with an odd sum: the product of two is that of the other two."""
    values = np.array([x for x in product([-1.0, 1.0], repeat=4) if np.prod(x) < 0] * 8)
    rest = np.random.default_rng(0).normal(size=len(values)) / 100
    part = sensitivities(axes_of(values), values @ [4, 3, 2, 1] + rest, np.ones(len(values), bool))
    assert isinstance(part, Indices) and len(part.left_out) == 3
    np.testing.assert_allclose(part.main, np.array([16, 9, 4, 1]) / 30, atol=0.01)


@pytest.mark.parametrize(
    ("values", "objective", "sentence"),
    [
        ([[1, 2], [2, 2]], [3.0, 3.0], "It is the same at all points"),
        ([[1, 2], [1, 2]], [3.0, 4.0], "No axis has more than one value"),
        ([[1, 2], [2, 3], [3, 4]], [1.0, 2.0, 4.0], "3 points of an incomplete grid are too few"),
        ([[1, 2], [2, 2]], [3.0, np.nan], "1 finished points are too few"),
    ],
)
def test_where_there_are_no_indices_a_sentence_says_why(values, objective, sentence) -> None:
    why = sensitivities(axes_of(np.array(values, dtype=float)), np.array(objective), np.ones(len(values), dtype=bool))
    assert isinstance(why, str) and sentence in why


def test_columns_of_all_kinds_are_read() -> None:
    frame = pd.DataFrame(
        {
            "whole": [3, 1, 3],
            "gaps": [None, 2.5, float("nan")],
            "flags": [True, False, True],
            "texts": ["b", None, "a"],
            "mixed": [1, "1", "x"],
            "nothing": [None, None, None],
            "large": [2**60 + 1, 2**60, 5],
        }
    )
    columns = read_columns(frame.assign(nullable=pd.array([1, None, 2], dtype="Int64")))
    read = {
        name: [column.levels[code] if code >= 0 else None for code in column.codes] for name, column in columns.items()
    }
    assert read == {
        "whole": [3.0, 1.0, 3.0],
        "gaps": [None, 2.5, None],
        "flags": ["true", "false", "true"],
        "texts": ["b", None, "a"],
        "mixed": ["1", "1", "x"],
        "nothing": [None, None, None],
        "large": [str(2**60 + 1), str(2**60), "5"],
        "nullable": [1.0, None, 2.0],
    }
