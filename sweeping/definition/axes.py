"""One axis as a sweep file writes it: a list of values, a range, or, for a search, the two ends of one."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pimloom.arch.document import Document, nearest, short
from pimloom.arch.error import one_line
from pimloom.sweeping.definition.ranges import Number, check_positive, count_steps, log_spaced, spaced, stepped, uniform
from pimloom.sweeping.definition.sweep import WORKLOAD, Axis, Scalar

T = TypeVar("T")

_PLACE = re.compile(r"[A-Za-z_][\w-]*(\[\d+\])*(\.[\w-]+(\[\d+\])*)*", re.ASCII)
_LONGEST = 200  # characters of a place, or of a value that is a text
_INT64_DIGITS = 18  # that any int64 has
_UNIT = re.compile(r"[A-Za-z%][A-Za-z0-9%/^.]{0,19}", re.ASCII)
_MEASURE = re.compile(rf"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d\d?)?) +({_UNIT.pattern})", re.ASCII)

# The key that tells the form of an axis, and the other keys it may have.
_FORMS = {"values": ["unit"], "from": ["to", "step", "unit"], "log": ["points", "unit"], "linear": ["points", "unit"]}
_EXPECTED = "expected a list, {from: 1, to: 4, step: 1}, {log: [1, 8], points: 4} or {linear: [1, 8], points: 8}"


def check_place(document: Document, at: str, place: str) -> None:
    """Refuse what cannot be a place such as `dram.timing.tCCD_L`; `at`: where the document has it."""
    if len(place) > _LONGEST or not _PLACE.fullmatch(place):
        document.fail(at, f"expected a place such as dram.timing.tCCD_L, got {short(place)!r}")


def axis_of(document: Document, at: str, place: str, written: Any) -> Axis:
    """The axis of `place`, written at `at` in a document. Raises UserError."""
    check_place(document, at, place)
    if isinstance(written, list):
        return _listed(document, at, place, written, None)
    if not isinstance(written, dict):
        remedy = "" if place.startswith(WORKLOAD) else "; one value belongs in `set`"
        document.fail(at, f"{_EXPECTED}{remedy}, got {document.shown[at]}")
    form = next((key for key in _FORMS if key in written), None)
    if form is None:
        keys = one_line(", ".join(written))
        document.fail(at, f"{_EXPECTED}, got {f'the keys {keys}' if keys else 'no keys'}")
    _check_keys(document, at, written, form)
    unit = _unit(document, f"{at}.unit", written["unit"]) if "unit" in written else None
    if form == "values":
        return _listed(document, f"{at}.values", place, written["values"], unit)
    if form == "from":
        return _from_to(document, at, place, written, unit)
    return _between(document, at, place, written, form, unit)


def count_values(written: Any) -> int:
    """How many values an axis would have, without making them; 1 where that is not plain, which `axis_of` explains."""
    match written:
        case list(values) | {"values": list(values)}:
            return max(1, len(values))
        case {"from": int() | float() as low, "to": int() | float() as high, "step": int() | float() as step}:
            with suppress(ValueError):  # True and False, and ends the wrong way round
                return count_steps(low, high, step)
        case {"points": int(points)}:
            return max(1, points)
    return 1


def _check_keys(document: Document, at: str, written: dict[str, Any], form: str) -> None:
    known = [form, *_FORMS[form]]
    for key in written:
        if key not in known:
            said = f"unknown key {key!r} beside {form!r}, expected one of {', '.join(known)}{nearest(key, known)}"
            document.fail(at, said, line_of=f"{at}.{key}")


def _unit(document: Document, at: str, unit: Any) -> str:
    if not isinstance(unit, str) or not _UNIT.fullmatch(unit):
        document.fail(at, f"expected a unit such as nCK, got {document.shown[at]}")
    return unit


def _from_to(document: Document, at: str, place: str, written: dict[str, Any], unit: str | None) -> Axis:
    if "to" not in written:
        document.fail(at, "missing key 'to' (expected a number)")
    low, high = (_number(document, f"{at}.{key}", written[key]) for key in ("from", "to"))
    if "step" not in written:
        return _continuous(document, at, place, low, high, unit, log=False)
    step = _number(document, f"{at}.step", written["step"])
    return Axis(place, _fitting(document, at, lambda: stepped(low, high, step)), unit)


def _between(document: Document, at: str, place: str, written: dict[str, Any], form: str, unit: str | None) -> Axis:
    ends = written[form]
    if not isinstance(ends, list) or len(ends) != 2:
        document.fail(f"{at}.{form}", f"expected a list of 2, [low, high], got {document.shown[f'{at}.{form}']}")
    low, high = (_number(document, f"{at}.{form}[{i}]", end) for i, end in enumerate(ends))
    if "points" not in written:
        return _continuous(document, at, place, low, high, unit, log=form == "log")
    points = written["points"]
    if not isinstance(points, int) or isinstance(points, bool):
        document.fail(f"{at}.points", f"expected int >= 2, got {document.shown[f'{at}.points']}")
    values = log_spaced if form == "log" else spaced
    return Axis(place, _fitting(document, at, lambda: values(low, high, points)), unit)


def _continuous(
    document: Document, at: str, place: str, low: Number, high: Number, unit: str | None, log: bool
) -> Axis:
    if low >= high:
        document.fail(at, f"expected the lower end first, got {low} and {high}")
    if log:
        _fitting(document, at, lambda: check_positive(low))
    return Axis(place, (), unit, float(low), float(high), log)


def _fitting(document: Document, at: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        document.fail(at, str(error))


def _number(document: Document, at: str, value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        document.fail(at, f"expected a number (its unit stands beside it as unit:), got {document.shown[at]}")
    return value


def _listed(document: Document, at: str, place: str, values: Any, unit: str | None) -> Axis:
    if not isinstance(values, list) or not values:
        document.fail(at, f"expected a list of at least 1, got {document.shown[at]}")
    kinds = [_kind(document, f"{at}[{i}]", value) for i, value in enumerate(values)]
    odd = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)
    if odd is not None:
        document.fail(f"{at}[{odd}]", f"expected {kinds[0]} as before it, got {document.shown[f'{at}[{odd}]']}")
    if unit is not None and kinds[0] != "a number":
        document.fail(at, f"expected numbers beside unit: {unit}, got {document.shown[at]}")
    if kinds[0] == "a text" and not place.startswith(WORKLOAD):
        values, unit = _without_unit(values)
    plain: Sequence[Scalar] = values
    if not isinstance(values[0], bool | str):
        plain = uniform(values)
    _check_distinct(document, at, plain)
    return Axis(place, tuple(plain), unit)


def _kind(document: Document, at: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if not isinstance(value, str) or not value or len(value) > _LONGEST or not value.isprintable():
        expected = f"a number, true, false or a text of at most {_LONGEST} printable characters"
        document.fail(at, f"expected {expected}, got {document.shown[at]}")
    return "a text"


def _without_unit(texts: list[str]) -> tuple[Sequence[Any], str | None]:
    """Numbers and their unit where every text is a number and the same unit, else the texts as they are."""
    matches = [_MEASURE.fullmatch(text) for text in texts]
    units = {match[2] if match else None for match in matches}
    if len(units) != 1 or (unit := units.pop()) is None:
        return texts, None
    return [_number_of(match[1]) for match in matches if match], unit


def _number_of(text: str) -> Number:
    return int(text) if text.lstrip("+-").isdigit() and len(text) <= _INT64_DIGITS else float(text)


def _check_distinct(document: Document, at: str, values: Sequence[Scalar]) -> None:
    first: dict[Scalar, int] = {}
    for i, value in enumerate(values):
        if value in first:
            document.fail(f"{at}[{i}]", f"{document.shown[f'{at}[{i}]']} stands twice, first at [{first[value]}]")
        first[value] = i
