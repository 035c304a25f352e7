"""What is wrong with a sweep before any of its points is simulated: only what no point of it could be is refused."""

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from random import Random

from pimloom.arch.error import UserError
from pimloom.arch.place import check_place, check_value
from pimloom.arch.system import resolve
from pimloom.sweeping.definition.sweep import WORKLOAD, Axis, Scalar, Sweep
from pimloom.sweeping.point.results import IDENTITY, MADE_BY, OF_TABLES
from pimloom.sweeping.point.shared import Base

TRIED = 64  # values of an axis until its place takes one (of more, which takes long, none); points until one is right


def check_points(base: Base, sweep: Sweep) -> None:
    """Raise UserError for a place that does not exist, and for values that no point of the sweep can have."""
    _check_names(base, sweep)
    for place, text in sweep.set.items():
        check_value(base.system, place, text, list(base.parts.values()))
    for axis in sweep.axes:
        if not axis.values:
            _check_range(base, axis)
        elif axis.sets or not axis.place.startswith(WORKLOAD):
            _check_values(base, axis)
    _check_together(base, sweep)


def _check_names(base: Base, sweep: Sweep) -> None:
    parts = list(base.parts.values())
    taken, results = {*IDENTITY, "error", *MADE_BY, *OF_TABLES}, {column.name for column in base.possible}
    for axis in sweep.axes:
        if axis.column in taken or axis.sets and axis.column in results:
            raise UserError(f"{axis.place}: is the name of another column of a sweep; {_other_name(axis)}")
        if not axis.place.startswith(WORKLOAD):
            for place in axis.sets or [axis.place]:
                check_place(base.system, place, parts)
        if axis.sets and _is_place(base, axis.place):
            raise UserError(f"{axis.place}: is a place of {base.system.path}; {_other_name(axis)}")
        if fixed := sorted(sweep.set.keys() & axis.sets.keys()):
            raise UserError(f"{fixed[0]}: is fixed and set by the axis {axis.place}; leave one of the two out")
        if axis.place in sweep.set or axis.place.removeprefix(WORKLOAD) in sweep.workload:
            raise UserError(f"{axis.place}: is fixed and an axis; leave one of the two out")
    for place in sweep.set:
        if place.removeprefix(WORKLOAD) in sweep.workload:
            raise UserError(f"{place}: stands in `set` and in `workload`; leave one of the two out")
        check_place(base.system, place, parts)


def _is_place(base: Base, name: str) -> bool:
    try:
        check_place(base.system, name, list(base.parts.values()))
    except UserError:
        return False
    return True


def _other_name(axis: Axis) -> str:
    if axis.sets:
        return "choose another name for the axis"
    return f"vary it by an axis with another name and `set: {{{axis.place}: [...]}}`"


def _check_range(base: Base, axis: Axis) -> None:
    """Raise UserError for a range of fractions at a place of integers."""
    assert axis.low is not None and axis.high is not None
    integers = axis.place.startswith(WORKLOAD)  # all that are no names
    for share in () if integers else (0.3, 0.6):
        text = axis.text(axis.low + share * (axis.high - axis.low))
        try:
            check_value(base.system, axis.place, text, list(base.parts.values()))
        except UserError as error:
            integers |= "expected int" in str(error)
    if integers:
        ends = f"from: {axis.low:g}, to: {axis.high:g}"
        raise UserError(f"{axis.place}: takes integers; write {{{ends}, step: 1}} or a list")


def _check_values(base: Base, axis: Axis) -> None:
    """Raise UserError if a place takes none of the values; where it takes some, the others are rows with an error."""
    if len(axis.values) > TRIED:
        return
    for place, texts in (axis.sets or {axis.place: tuple(map(axis.text, axis.values))}).items():
        said = []
        for text in texts:
            try:
                check_value(base.system, place, text, list(base.parts.values()))
                break
            except UserError as error:
                said.append(str(error).removeprefix("--set "))
        else:
            raise UserError(said[0] + (", and no other value of this axis is possible" if len(said) > 1 else ""))


def _check_together(base: Base, sweep: Sweep) -> None:
    """Raise UserError if what is fixed is wrong both alone and at all points that are tried."""
    try:
        resolve(base.system, base.set, base.part)
        return
    except UserError:
        pass
    first = None
    for point in _some_points(sweep):
        try:
            resolve(base.system, base.settings(point), base.part)
            return
        except UserError as error:
            first = first or error
    assert first is not None
    raise first


def _some_points(sweep: Sweep) -> Iterator[dict[str, Scalar]]:
    """What points of the sweep set in the system: all that there is to set if it is little, else some at random."""
    axes = [axis for axis in sweep.axes if not axis.place.startswith(WORKLOAD)]
    values = [axis.values or _some_values(axis) for axis in axes]
    chance = Random(0)
    some: Iterable[Iterable[Scalar]] = product(*values)
    if prod(map(len, values)) > TRIED:
        some = ([chance.choice(of_axis) for of_axis in values] for _ in range(TRIED))
    for point in some:
        yield {axis.place: value for axis, value in zip(axes, point, strict=True)}


def _some_values(axis: Axis) -> tuple[Scalar, ...]:
    assert axis.low is not None and axis.high is not None
    return tuple(axis.low + share / TRIED * (axis.high - axis.low) for share in range(TRIED + 1))
