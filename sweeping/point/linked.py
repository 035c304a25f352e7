"""Linked axes among what all points share: what each of their values sets in the system."""

from collections.abc import Iterable
from functools import cached_property

import msgspec

from pimloom.arch.error import UserError
from pimloom.sweeping.definition.sweep import Axis, Scalar


class Linked(msgspec.Struct, frozen=True, dict=True):
    """What a linked axis sets. values: those of the axis; sets: place -> one text for each, as `--set` takes it."""

    values: tuple[int | float | str | bool, ...]
    sets: dict[str, tuple[str, ...]]

    @cached_property
    def by_value(self) -> dict[Scalar, dict[str, str]]:
        """Value of the axis -> place -> text."""
        return {value: {place: texts[i] for place, texts in self.sets.items()} for i, value in enumerate(self.values)}

    def settings(self, name: str, value: Scalar) -> dict[str, str]:
        """What a value of the axis `name` sets. Raises UserError for one that the axis does not have."""
        if value not in self.by_value:
            raise UserError(f"{name}: expected one of {', '.join(map(str, self.values))}, got {value}")
        return self.by_value[value]


def linked_of(axes: Iterable[Axis]) -> dict[str, Linked]:
    """The linked ones among axes, by name."""
    return {axis.place: Linked(axis.values, dict(axis.sets)) for axis in axes if axis.sets}
