"""The points of a sweep: how many there are, and those of a grid one by one."""

import math
from collections.abc import Iterator
from itertools import product

from pimloom.sweeping.definition.sweep import Scalar, Sweep

MOST_POINTS = 10_000_000


def count_points(sweep: Sweep) -> int:
    """Points of a grid, or the budget of a search."""
    return math.prod(len(axis.values) for axis in sweep.axes) if sweep.budget is None else sweep.budget


def grid_points(sweep: Sweep) -> Iterator[dict[str, Scalar]]:
    """Each combination of the axes' values, place -> value, made one at a time; the last axis changes fastest."""
    places = [axis.place for axis in sweep.axes]
    for values in product(*(axis.values for axis in sweep.axes)):
        yield dict(zip(places, values, strict=True))
