"""The Pareto front: points that no other feasible point beats in one objective without losing in another."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np


def pareto_mask(values: np.ndarray, directions: Sequence[str], feasible: np.ndarray) -> np.ndarray:
    """Which rows are on the front, exactly: bool of shape (n,).

    values: (n, objectives). directions: "min" or "max" for each objective. feasible: bool (n,); other rows neither
    stand on the front nor keep any off it, and so do rows with a NaN. Equal rows share their fate. Without objectives
    there is no front. Takes O(n log n) for up to three objectives, O(n × front) for more. Raises ValueError for a
    direction of another name.
    """
    if unknown := set(directions) - {"min", "max"}:
        raise ValueError(f"a direction must be min or max, not {sorted(unknown)[0]!r}")
    mask = np.zeros(len(values), dtype=bool)
    costs = np.asarray(values, dtype=float) * [1.0 if way == "min" else -1.0 for way in directions]
    known = np.flatnonzero(np.asarray(feasible, dtype=bool) & ~np.isnan(costs).any(axis=1))
    if costs.shape[1] == 0 or known.size == 0:
        return mask
    rows, twins = np.unique(costs[known], axis=0, return_inverse=True)  # sorted by the first objective, then the next
    finders = {1: _front_of_one, 2: _front_of_two, 3: _front_of_three}
    front = finders.get(rows.shape[1], _front_of_many)(rows)
    mask[known] = front[twins.reshape(-1)]
    return mask


def front_within(values: np.ndarray, directions: Sequence[str], feasible: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The front of each group by itself: `pareto_mask` of its rows. groups: int (n,), rows of one group are equal."""
    mask = np.zeros(len(values), dtype=bool)
    feasible, order = np.asarray(feasible, dtype=bool), np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        mask[rows] = pareto_mask(values[rows], directions, feasible[rows])
    return mask


def _front_of_one(rows: np.ndarray) -> np.ndarray:
    return np.arange(len(rows)) == 0


def _front_of_two(rows: np.ndarray) -> np.ndarray:
    """Along the first objective, a row is on the front if its second one is lower than all before."""
    best = np.minimum.accumulate(rows[:, 1])
    return np.concatenate(([True], rows[1:, 1] < best[:-1]))


def _front_of_three(rows: np.ndarray) -> np.ndarray:
    """The same with a staircase: the front, so far, of the second and third objective."""
    front = np.zeros(len(rows), dtype=bool)
    seconds: list[float] = []  # ascends
    thirds: list[float] = []  # descends
    for place, (second, third) in enumerate(rows[:, 1:].tolist()):
        after = bisect_right(seconds, second)
        if after and thirds[after - 1] <= third:
            continue
        front[place] = True
        first = after - 1 if after and seconds[after - 1] == second else after
        while after < len(thirds) and thirds[after] >= third:
            after += 1
        seconds[first:after] = [second]
        thirds[first:after] = [third]
    return front


def _front_of_many(rows: np.ndarray) -> np.ndarray:
    """The first row that is left is on the front; what it dominates leaves."""
    front = np.zeros(len(rows), dtype=bool)
    left = np.arange(len(rows))
    others = rows[:, 1:]
    while left.size:
        front[left[0]] = True
        left = left[(others[left] < others[left[0]]).any(axis=1)]
    return front
