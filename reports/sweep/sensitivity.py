"""Which axis decides an objective: main-effect and total-order indices of the variance.

Of a complete grid they are exact: main = Var(E[Y | axis]) / Var(Y), total = E[Var(Y | all other axes)] / Var(Y), all
grid points weighing the same. Of other samples they are estimated (`pimloom.reports.sweep.surrogate`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pimloom.reports.sweep.surrogate import fitted_sensitivity
from pimloom.sweeping.columns import Column

MOST_ROWS = 20_000  # of an estimate; more would only narrow intervals that are narrow
CONSTANT = 1e-12  # a spread below this share of the largest value is rounding


@dataclass(frozen=True)
class Indices:
    """Sensitivities of one objective, arrays of shape (axes,) with shares of its variance between 0 and 1.

    main_range, total_range: (axes, 2), 95 % intervals; None if exact. explained: share of the variance that the
    estimate attributes, 1 if exact. points: how many it is made from, of all `finished` ones.
    together: whether `total` can differ from `main`; an estimate from few points has no terms of two axes. left_out:
    pairs of axes whose interaction cannot be separated from other effects, as points are missing; left out of the fit.
    """

    axes: tuple[str, ...]
    main: np.ndarray
    total: np.ndarray
    main_range: np.ndarray | None
    total_range: np.ndarray | None
    explained: float
    points: int
    finished: int
    together: bool = True
    left_out: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return self.main_range is None


def sensitivities(axes: Sequence[Column], objective: np.ndarray, finished: np.ndarray) -> Indices | str:
    """Indices of every axis that varies, or a sentence that says why there are none.

    objective: float (n,). finished: bool (n,); rows that failed or have no finite value are left out.
    """
    rows = np.flatnonzero(finished & np.isfinite(objective))
    values = objective[rows]
    if len(values) < 2:
        return f"{len(values)} finished points are too few."
    if np.ptp(values) <= CONSTANT * np.abs(values).max():
        return "It is the same at all points, so nothing decides it."
    varying = [(axis, *_compact(axis, rows)) for axis in axes]
    varying = [entry for entry in varying if len(entry[1]) > 1]
    if not varying:
        return "No axis has more than one value."
    names = tuple(axis.name for axis, _, _ in varying)
    codes = np.column_stack([codes for _, _, codes in varying])
    if (codes < 0).any():
        return "Some points have no value on some axis."
    grid = _complete_grid(codes, values)
    if grid is not None:
        return Indices(names, *exact_indices(grid), None, None, 1.0, len(values), len(values))
    some: Any = slice(None)
    if len(values) > MOST_ROWS:
        some = np.random.default_rng(0).choice(len(values), MOST_ROWS, replace=False)
    used = values[some]
    found = fitted_sensitivity([(levels, axis.numeric) for axis, levels, _ in varying], codes[some], used)
    if isinstance(found, tuple):
        return _why([names[axis] for axis in found], len(used))
    ranges = (found.main_range, found.total_range)
    left_out = tuple(" and ".join(names[axis] for axis in pair) for pair in found.left_out)
    counts = len(used), len(values)
    return Indices(names, found.main, found.total, *ranges, found.explained, *counts, found.together, left_out)


def _why(confounded: Sequence[str], points: int) -> str:
    """The reason why there is no estimate."""
    if not confounded:
        return f"{points} points of an incomplete grid are too few for an estimate."
    which = " and ".join(confounded)
    if len(confounded) == 1:
        return f"{which} has values with too few points left: its effect cannot be separated from that of others."
    return f"{which} vary together in the points that are left: their effects cannot be separated."


def exact_indices(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Main and total indices, (dimensions,) each, of values on a full grid with one dimension per axis."""
    centred = grid - grid.mean()
    variance = np.mean(centred**2)
    every = range(grid.ndim)
    main = [centred.mean(axis=tuple(other for other in every if other != axis)).var() for axis in every]
    total = [centred.var(axis=axis).mean() for axis in every]
    return np.array(main) / variance, np.array(total) / variance


def _compact(axis: Column, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The levels that occur in `rows`, and each row's place among them (-1: it has none)."""
    codes = axis.codes[rows]
    used, places = np.unique(codes, return_inverse=True)
    if used[0] < 0:
        return axis.levels[used[1:]], places - 1
    return axis.levels[used], places


def _complete_grid(codes: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """The values by their codes, if each combination of levels occurs exactly once."""
    shape = tuple(int(top) + 1 for top in codes.max(axis=0))
    if np.prod([float(length) for length in shape]) != len(values):
        return None
    place = np.ravel_multi_index(tuple(codes.T), shape)
    if len(np.unique(place)) != len(values):
        return None
    grid = np.empty(len(values))
    grid[place] = values
    return grid.reshape(shape)
