"""A grid of design points by number, the last axis fastest: never expanded as a whole."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from pimloom.sweeping.definition.sweep import Axis, Scalar, Sweep

BLOCK = 64  # neighbours are sent together: they share sub-problems


def is_within(axis: Axis, column: pd.Series) -> np.ndarray:
    """Which entries of an axis's column are values of the axis, or in its range: shape (rows,), bool."""
    if axis.values:
        return places_of(axis, column) >= 0
    assert axis.low is not None and axis.high is not None
    numbers = numbers_of(column)
    return (numbers >= axis.low) & (numbers <= axis.high)


def numbers_of(column: pd.Series) -> np.ndarray:
    """A column's entries as numbers, NaN for what is none: shape (rows,), float64.

    A column that held other values, too, has texts: 8 is '8' there, and true 'true'.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan)
    return np.array([_number(cell) for cell in column.tolist()], np.float64)


def _number(cell: object) -> float:
    try:
        return _TRUTH[cell] if cell in _TRUTH else float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


_TRUTH = {"true": 1.0, "false": 0.0}


def places_of(axis: Axis, column: pd.Series) -> np.ndarray:
    """Place of each entry of an axis's column among its values, -1 for none: shape (rows,), int64."""
    if any(isinstance(value, str) for value in axis.values):
        texts = pd.Index([str(v) for v in axis.values])
        return texts.get_indexer(pd.Index(column.astype(str))).astype(np.int64)
    exact = column.dtype == np.int64 and all(type(value) is int for value in axis.values)
    numbers = column.to_numpy() if exact else numbers_of(column)
    values, first = np.unique(np.array(axis.values, numbers.dtype), return_index=True)
    found = pd.Index(values).get_indexer(pd.Index(numbers))
    return np.where(found < 0, -1, first[found]).astype(np.int64)


class Grid:
    """All combinations of the axes' values; every axis must have values."""

    def __init__(self, sweep: Sweep) -> None:
        self.axes = sweep.axes
        self.size = math.prod(len(axis.values) for axis in self.axes)

    def point(self, index: int) -> dict[str, Scalar]:
        """The design point of a number below `size`."""
        values: list[Scalar] = []
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            values.append(axis.values[place])
        return {axis.place: value for axis, value in zip(self.axes, reversed(values), strict=True)}

    def numbers(self, frame: pd.DataFrame) -> np.ndarray:
        """Numbers of the rows' points, -1 for one that is not of this grid: shape (rows,), int64."""
        total, inside = np.zeros(len(frame), np.int64), np.ones(len(frame), bool)
        if not len(frame):
            return total
        for axis in self.axes:
            places = places_of(axis, frame[axis.column])
            inside &= places >= 0
            total = total * len(axis.values) + places
        return np.where(inside, total, -1)

    def blocks(self, done: np.ndarray, seed: int) -> Iterator[np.ndarray]:
        """Numbers that are not `done` (shape (size,), bool; read as it is when a block's turn comes), block by block.

        Blocks come in a random order, so that several that fill one sweep seldom do the same.
        """
        count = -(-self.size // BLOCK)
        for block in np.random.default_rng(seed).permutation(count).tolist():
            numbers = np.arange(block * BLOCK, min((block + 1) * BLOCK, self.size))
            if len(numbers := numbers[~done[numbers]]):
                yield numbers
