"""What is wrong with a sweep before any of its points is simulated: only what no point of it could be is refused."""

from collections.abc import Iterator, Mapping
from itertools import product
from random import Random

from pimloom.arch.error import UserError
from pimloom.arch.place import check_place, check_value
from pimloom.arch.system import resolve
from pimloom.sweeping.definition.expression import judging
from pimloom.sweeping.definition.sweep import WORKLOAD, Axis, Scalar, Sweep
from pimloom.sweeping.point.results import IDENTITY, MADE_BY, OF_TABLES
from pimloom.sweeping.point.serving import check_judged
from pimloom.sweeping.point.shared import Base
from pimloom.sweeping.search.space import Space

TRIED = 64  # values of an axis until its place takes one (of more, which takes long, none); points until one is right


def check_points(base: Base, sweep: Sweep) -> None:
    """Raise UserError for a place that does not exist, and for values that no point of the sweep can have."""
    for name, own in base.systems.items():
        try:
            check_points(own, sweep.alone(name))
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    if base.systems:
        return
    _check_names(base, sweep)
    for axis in sweep.axes:
        if not axis.values:
            _check_range(base, axis)
        elif axis.sets or not axis.place.startswith(WORKLOAD):
            _check_values(base, axis)
    if base.served:
        keys = {axis.place.removeprefix(WORKLOAD): axis.values for axis in sweep.axes}
        fixed = base.workload.get("slo")
        slo = keys.get("slo", ()) if fixed is None else (fixed,)
        check_judged(judging(sweep), slo, {*keys, *base.workload})
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
    """Raise UserError for a range of fractions at a place that takes none."""
    assert axis.low is not None and axis.high is not None
    value = next(_some_points((axis,)))[axis.place]
    said = _refused(base, axis.place, axis.text(value))
    if axis.place.startswith(WORKLOAD) or "expected int" in said or "whole number of nCK" in said:
        form = f"from: {axis.low:g}, to: {axis.high:g}, step: 1" + (f", unit: {axis.unit}" if axis.unit else "")
        raise UserError(f"{axis.place}: takes integers; write {{{form}}} or a list")
    if "expected true or false" in said or "expected one of" in said:
        raise UserError(f"{said}; write a list")


def _check_values(base: Base, axis: Axis) -> None:
    """Raise UserError if a place takes none of the values; where it takes some, the others are rows with an error."""
    if len(axis.values) > TRIED:
        return
    for place, texts in (axis.sets or {axis.place: tuple(map(axis.text, axis.values))}).items():
        said = [_refused(base, place, text) for text in texts]
        if all(said):
            raise UserError(said[0] + (", and no other value of this axis is possible" if len(said) > 1 else ""))


def _refused(base: Base, place: str, text: str) -> str:
    """What is wrong with a value at its place, whatever stands elsewhere; empty if nothing is."""
    try:
        check_value(base.system, place, text, list(base.parts.values()))
    except UserError as error:
        return str(error).removeprefix("--set ")
    return ""


def _check_together(base: Base, sweep: Sweep) -> None:
    """Raise UserError if what is fixed is wrong both alone and at all points that are tried."""
    told = _wrong(base, {})
    if told is None:
        return
    axes = tuple(axis for axis in sweep.axes if not axis.place.startswith(WORKLOAD))
    tried = None
    for point in _some_points(axes):
        error = _wrong(base, point)
        if error is None:
            return
        tried = tried or (error if all(_takes(base, axis, point[axis.place]) for axis in axes) else None)
    raise tried or told


def _wrong(base: Base, point: Mapping[str, Scalar]) -> UserError | None:
    try:
        resolve(base.system, base.settings(point), base.part)
    except UserError as error:
        return error
    return None


def _takes(base: Base, axis: Axis, value: Scalar) -> bool:
    """Whether the value is right at its place: what is wrong with others of an axis is told by their rows."""
    texts = axis.sets_at(value) or {axis.place: axis.text(value)}
    return not any(_refused(base, place, text) for place, text in texts.items())


def _some_points(axes: tuple[Axis, ...]) -> Iterator[dict[str, Scalar]]:
    """All points if they are few, else some at random, as a search might ask for."""
    space, chance = Space(axes), Random(0)
    if space.size is not None and space.size <= TRIED:
        for values in product(*(axis.values for axis in axes)):
            yield {axis.place: value for axis, value in zip(axes, values, strict=True)}
        return
    for _ in range(TRIED):
        place = space.other((), chance)
        assert place is not None
        yield space.point(place)
