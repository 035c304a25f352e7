"""The axes of a search as numbers: an index per listed value, six significant digits of a continuous range."""

import math
import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pimloom.sweeping.definition.sweep import Axis, Scalar

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

STEP = 0.03  # of a range, standard deviation of a step
Place = tuple[int | float, ...]  # one number per axis: the index into its levels, or a value of its range


@dataclass(frozen=True)
class Space:
    """What the axes span. A place in it is one number per axis, in their order."""

    axes: tuple[Axis, ...]

    @cached_property
    def levels(self) -> tuple[tuple[Scalar, ...], ...]:
        """Per axis its values, numbers in rising order; empty for a continuous range."""
        return tuple(tuple(sorted(axis.values)) if _ordered(axis) else axis.values for axis in self.axes)

    @cached_property
    def size(self) -> int | None:
        """How many design points there are; None if an axis is continuous."""
        return math.prod(map(len, self.levels)) if all(self.levels) else None

    def distributions(self) -> dict[str, "BaseDistribution"]:
        """The axes as Optuna takes them: an index of listed values, with an order if they are numbers."""
        return dict(zip((axis.place for axis in self.axes), map(_distribution, self.axes), strict=True))

    def place(self, params: Mapping[str, int | float]) -> Place:
        """The place of what Optuna drew; continuous values are rounded, so that the keys of points can repeat."""
        return tuple(
            _rounded(params[axis.place], axis) if not axis.values else int(params[axis.place]) for axis in self.axes
        )

    def params(self, place: Place) -> dict[str, int | float]:
        """What Optuna would have drawn for `place`."""
        return dict(zip((axis.place for axis in self.axes), place, strict=True))

    def point(self, place: Place) -> dict[str, Scalar]:
        """The design point at `place`: place of each axis -> value, in the order of the axes."""
        return {
            axis.place: levels[int(at)] if levels else at
            for axis, levels, at in zip(self.axes, self.levels, place, strict=True)
        }

    def place_of(self, values: Sequence[object]) -> Place | None:
        """The place of one value per axis, or None if the axes do not allow it; 1, 1.0 and true are three values."""
        if len(values) != len(self.axes):
            return None
        found = [_found(*each) for each in zip(values, self.axes, self.levels, strict=True)]
        return tuple(at for at in found if at is not None) if None not in found else None

    def near(self, place: Place, taken: Container[Place], chance: random.Random) -> Place | None:
        """A place not in `taken`, by steps from `place` along one axis at a time: to the next level of numbers, to any
        other of texts, by some hundredths of a range. None if 100 steps find none."""
        free = [i for i, axis in enumerate(self.axes) if len(self.levels[i]) > 1 or not axis.values]
        for _ in range(100 if free else 0):
            i = chance.choice(free)
            place = (*place[:i], self._step(i, place[i], chance), *place[i + 1 :])
            if place not in taken:
                return place
        return None

    def _step(self, i: int, at: int | float, chance: random.Random) -> int | float:
        axis, last = self.axes[i], len(self.levels[i]) - 1
        if not axis.values:
            share = _share(at, axis) + chance.gauss(0, STEP)
            return _at_share(min(max(share, 0.0), 1.0), axis)
        if _ordered(axis):
            return min(max(int(at) + chance.choice((-1, 1)), 0), last)
        return (int(at) + chance.randint(1, last)) % (last + 1)

    def other(self, taken: Container[Place], chance: random.Random) -> Place | None:
        """A place by chance that is not in `taken`; None if all are, or of a space with a range 100 draws are."""
        for _ in range(100):
            place = self._drawn(chance) if self.size is None else self._nth(chance.randrange(self.size))
            if place not in taken:
                return place
        left = [place for index in range(self.size or 0) if (place := self._nth(index)) not in taken]
        return chance.choice(left) if left else None

    def _drawn(self, chance: random.Random) -> Place:
        return tuple(
            chance.randrange(len(levels)) if levels else _at_share(chance.random(), axis)
            for axis, levels in zip(self.axes, self.levels, strict=True)
        )

    def _nth(self, index: int) -> Place:
        place: list[int] = []
        for levels in self.levels:
            index, at = divmod(index, len(levels))
            place.append(at)
        return tuple(place)


def _ordered(axis: Axis) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in axis.values)


def _distribution(axis: Axis) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not axis.values:
        return FloatDistribution(*_range(axis), log=axis.log)
    last = len(axis.values) - 1
    return IntDistribution(0, last) if _ordered(axis) else CategoricalDistribution(range(last + 1))


def _range(axis: Axis) -> tuple[float, float]:
    if axis.low is None or axis.high is None:
        raise ValueError(f"the axis {axis.place} has neither values nor a range")
    return float(axis.low), float(axis.high)


def _rounded(value: float, axis: Axis) -> float:
    low, high = _range(axis)
    return min(max(float(f"{value:.6g}"), low), high)


def _share(value: float, axis: Axis) -> float:
    """Where in its range a value lies, 0 to 1."""
    low, high = _range(axis)
    if low == high:
        return 0.0
    return math.log(value / low) / math.log(high / low) if axis.log else (value - low) / (high - low)


def _at_share(share: float, axis: Axis) -> float:
    low, high = _range(axis)
    return _rounded(low * (high / low) ** share if axis.log else low + share * (high - low), axis)


def _found(value: object, axis: Axis, levels: Sequence[Scalar]) -> int | float | None:
    if levels:
        return next((i for i, level in enumerate(levels) if type(level) is type(value) and level == value), None)
    low, high = _range(axis)
    return value if isinstance(value, float) and low <= value <= high and _rounded(value, axis) == value else None
