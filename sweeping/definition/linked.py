"""A linked axis: a name of the user's own, its values, and the places that change with them."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pimloom.arch.document import Document, short
from pimloom.sweeping.definition.arithmetic import FUNCTIONS
from pimloom.sweeping.definition.axes import axis_of, check_place
from pimloom.sweeping.definition.sweep import WORKLOAD, Axis

_NAME = re.compile(r"(?!__)[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)
_SETS = re.compile(r"axes\..+\.set|set\..+|workload\.\w+")
_KEYS = ("values", "unit", "set")


class FreePlaces:
    """The mappings of a sweep file whose keys are places or expressions, with dots."""

    def __contains__(self, place: object) -> bool:
        return place in ("axes", "set", "objectives") or bool(_SETS.fullmatch(str(place)))


def is_linked(written: Any) -> bool:
    """Whether what stands behind the name of an axis makes it a linked one."""
    return isinstance(written, dict) and "set" in written


def linked_axis(document: Document, at: str, name: str, written: dict[str, Any]) -> Axis:
    """The linked axis that is written at `at`. Raises UserError."""
    if name.startswith(WORKLOAD):
        document.fail(at, "a key of the workload stands alone, expected a list or a range without `set`")
    if not _NAME.fullmatch(name) or name in FUNCTIONS:
        expected = "expected a name of its own for an axis with `set`, without dots, such as macs_per_bank"
        document.fail(at, f"{expected}, got {short(name)!r}")
    for key in written:
        if key not in _KEYS:
            said = f"unknown key {key!r} beside 'set', expected one of {', '.join(_KEYS)}"
            document.fail(at, said, line_of=f"{at}.{key}")
    if "values" not in written:
        document.fail(at, "missing key 'values' (expected a list, one value for each of those in `set`)")
    axis = axis_of(document, at, name, {key: value for key, value in written.items() if key != "set"})
    below, sets = f"{at}.set", written["set"]
    if not isinstance(sets, dict) or not sets:
        document.fail(below, f"expected a mapping, place -> list of {len(axis.values)}, got {document.shown[below]}")
    texts = {place: _texts(document, f"{below}.{place}", place, some, len(axis.values)) for place, some in sets.items()}
    return replace(axis, sets=texts)


def check_apart(document: Document, axes: Iterable[Axis]) -> None:
    """Refuse a place that a linked axis sets and another axis is or sets. Raises UserError."""
    taken = {axis.place: "is an axis too" for axis in axes if not axis.sets}
    for axis in axes:
        for place in axis.sets:
            if place in taken:
                document.fail(f"axes.{axis.place}.set.{place}", f"{place} {taken[place]}, expected it once")
        taken |= dict.fromkeys(axis.sets, f"is set by the axis {axis.place} too")


def setting(document: Document, at: str, value: Any) -> str:
    """One value as `--set` takes it. Raises UserError for a list or a mapping."""
    if isinstance(value, list | dict):
        document.fail(at, f"expected one value, a list as text in quotes, got {document.shown[at]}")
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _texts(document: Document, at: str, place: str, some: Any, count: int) -> tuple[str, ...]:
    check_place(document, at, place)
    if place.startswith(WORKLOAD):
        document.fail(at, "is no place of the system; a key of the workload is an axis of its own")
    if not isinstance(some, list):
        document.fail(at, f"expected a list of {count}, one for each of `values`, got {document.shown[at]}")
    if len(some) != count:
        document.fail(at, f"expected a list of {count}, one for each of `values`, got {len(some)}")
    return tuple(setting(document, f"{at}[{i}]", value) for i, value in enumerate(some))
