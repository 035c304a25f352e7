"""The workloads of a sweep: which points run the same work, so that one may be better than another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pimloom.sweeping.columns import Column


@dataclass(frozen=True)
class Workload:
    """The points of one workload. rows: their places, ascending. best: by objective, the first of the feasible rows
    with its best value; no key where there is none."""

    rows: np.ndarray
    best: Mapping[str, int]


def groups_of(columns: Mapping[str, Column], axes: Sequence[str], count: int) -> np.ndarray:
    """The number of each row's workload, int (count,), in the order in which they first appear; without axes all 0."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    codes = np.column_stack([np.zeros(count, dtype=np.int64), *(columns[axis].codes for axis in axes)])
    _, first, groups = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups.reshape(-1)]


def workloads_of(
    groups: np.ndarray, values: Mapping[str, np.ndarray], directions: Mapping[str, str], feasible: np.ndarray
) -> tuple[Workload, ...]:
    """The workloads in the order of their numbers. values: by objective, float (n,), NaN where there is none."""
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    return tuple(Workload(rows, _best(rows, values, directions, feasible)) for rows in parts)


def _best(
    rows: np.ndarray, values: Mapping[str, np.ndarray], directions: Mapping[str, str], feasible: np.ndarray
) -> dict[str, int]:
    found = {}
    for name, numbers in values.items():
        known = rows[feasible[rows] & ~np.isnan(numbers[rows])]
        if known.size:
            pick = np.argmin if directions[name] == "min" else np.argmax
            found[name] = int(known[pick(numbers[known])])
    return found
