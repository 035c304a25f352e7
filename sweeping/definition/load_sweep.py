"""Sweep files: strict YAML, or the same from a mapping, as a checked `Sweep`."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pimloom.arch.document import Document, read_text, short
from pimloom.arch.error import UserError, one_line
from pimloom.arch.load import struct_of
from pimloom.arch.name_units import capacity
from pimloom.arch.units import MIB
from pimloom.sweeping.definition.axes import axis_of, check_place, count_values
from pimloom.sweeping.definition.expression import parse, parse_constraint
from pimloom.sweeping.definition.grid import MOST_POINTS
from pimloom.sweeping.definition.linked import FreePlaces, check_apart, is_linked, linked_axis, setting
from pimloom.sweeping.definition.ranges import MOST_VALUES, counted
from pimloom.sweeping.definition.sweep import ARRIVING, SYSTEM, WORKLOAD, Axis, Direction, Method, Scalar, Sweep

LARGEST_BYTES = MIB  # of a sweep file
LONGEST_NAME = 100

_BATCH: Mapping[Method, int] = {"grid": 32, "random": 32, "tpe": 32, "nsga2": 50}
_LARGEST_BATCH = 10_000
_DIRECTIONS: tuple[Direction, ...] = ("min", "max")


_System = Annotated[str, Meta(min_length=1, max_length=1000)]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a sweep file. What `Any` holds is checked here, with places that have dots in them."""

    system: _System | Annotated[list[_System], Meta(min_length=1)]
    workload: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    set: dict[str, Any] = {}
    constraints: list[str] = []
    objectives: dict[str, Any] = {}
    method: Method = "grid"
    budget: Annotated[int, Meta(ge=1, le=MOST_POINTS)] | None = None
    batch: Annotated[int, Meta(ge=1, le=_LARGEST_BATCH)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    name: str | None = None


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file. Raises UserError, with its line, for whatever does not fit; the system is not looked at."""
    return read_sweep(read_text(path, LARGEST_BYTES), str(path))


def sweep_from(mapping: Mapping[str, Any]) -> Sweep:
    """The sweep that a mapping describes, with the keys of a sweep file. Raises UserError as `load_sweep`."""
    return read_sweep(text_of(mapping), "sweep")


def text_of(mapping: Mapping[str, Any]) -> str:
    """A mapping as the text of a sweep file; tuples, ranges and numpy's arrays become lists. Raises UserError."""
    try:
        text = json.dumps(mapping, indent=1, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"sweep: expected a mapping of texts, finite numbers and lists: {one_line(error)}") from None
    # YAML takes more characters for line breaks than JSON.
    return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)


def read_sweep(text: str, file: str) -> Sweep:
    """The sweep that a text describes; `file` names it in messages, and names the sweep if the text does not.

    Raises UserError.
    """
    if len(text.encode(errors="replace")) > LARGEST_BYTES:
        said = f"{file}: is larger than {capacity(LARGEST_BYTES)}"
        raise UserError(f"{said}; split it into several sweeps, or give ranges instead of lists")
    document = Document(file, text, free=FreePlaces())
    given = struct_of(document, _File)
    systems = tuple(given.system) if isinstance(given.system, list) else ()
    fixed, axes, own = _axes(document, given, systems)
    places = {place for axis in axes for place in axis.sets or [axis.place]}
    settings, own_settings = _set(document, given.set, places, systems)
    sweep = Sweep(
        name=_name(document, given.name, Path(file).stem),
        system=", ".join(systems) if systems else str(given.system),
        workload=fixed,
        set=settings,
        axes=axes,
        constraints=_constraints(document, given.constraints),
        objectives=_objectives(document, given.objectives),
        method=given.method,
        budget=given.budget,
        batch=given.batch or _BATCH[given.method],
        seed=given.seed,
        by_system={name: (own_settings[name], own[name]) for name in systems},
    )
    _check_method(document, sweep, given.batch)
    return sweep


def _plain(value: Any) -> Any:
    """What json does not know: numpy's scalars and arrays, paths, and other iterables."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value)


Own = dict[str, dict[str, Any]]  # of each of several systems


def _axes(document: Document, given: _File, systems: Sequence[str]) -> tuple[dict[str, Scalar], tuple[Axis, ...], Own]:
    """The fixed keys of the workload; all axes, `system` and those of the workload first; and the keys of the workload
    that each system has for itself."""
    _check_size(document, given)
    fixed: dict[str, Scalar] = {}
    axes: dict[str, Axis] = {SYSTEM: axis_of(document, SYSTEM, SYSTEM, list(systems))} if systems else {}
    own: Own = {name: {} for name in systems}
    for key, value in given.workload.items():
        at = f"workload.{key}"
        if isinstance(value, dict) and not own.keys().isdisjoint(value):
            for name, each in _of_systems(document, at, value, systems).items():
                own[name][key] = each
        elif isinstance(value, list | dict):
            axes[WORKLOAD + key] = axis_of(document, at, WORKLOAD + key, value)
        elif value is None:
            document.fail(at, "expected a number, a text, true or false, or a list of them, got nothing")
        else:
            check_place(document, at, WORKLOAD + key)
            fixed[key] = value
    for place, value in given.axes.items():
        at = f"axes.{place}"
        if place in axes or place in {WORKLOAD + key for key in fixed}:
            document.fail(at, f"{place} stands in `workload` too, expected it once")
        axes[place] = (linked_axis if is_linked(value) else axis_of)(document, at, place, value)
    check_apart(document, axes.values())
    if not given.workload.keys().isdisjoint(ARRIVING):
        axes = {place: replace(axis, served=True) for place, axis in axes.items()}
    if not axes:
        document.fail("", "expected at least one axis: a list or a range in `axes`, or a list in `workload`")
    return fixed, tuple(axes.values()), own


def _of_systems(document: Document, at: str, value: Mapping[str, Any], systems: Sequence[str]) -> dict[str, Scalar]:
    """Check a mapping with a value for each system, and return it. Raises UserError."""
    if wrong := set(value) ^ set(systems):
        name = min(wrong)
        said = f"no value for {name}" if name in systems else f"{short(name)!r} is no system of the sweep"
        document.fail(at, f"expected a value for each of {', '.join(systems)}; {said}")
    for name, each in value.items():
        if isinstance(each, list | dict) or each is None:
            document.fail(f"{at}.{name}", f"expected one value, got {document.shown[f'{at}.{name}']}")
    return dict(value)


def _check_size(document: Document, given: _File) -> None:
    """Refuse, before any value is made, a grid of too many points or a search among too many values."""
    counts = {f"axes.{place}": count_values(written) for place, written in given.axes.items()}
    counts |= {f"workload.{key}": count_values(value) for key, value in given.workload.items()}
    counts |= {SYSTEM: len(given.system)} if isinstance(given.system, list) else {}
    largest = max(counts, key=lambda at: counts[at], default="")
    grid = given.method == "grid"
    total, most = (math.prod(counts.values()), MOST_POINTS) if grid else (sum(counts.values()), MOST_VALUES)
    if total > most:
        what, remedy = ("points", ", or method: random") if grid else ("values of all axes", ", or a continuous range")
        said = f"{counted(total)} {what}, expected at most {most:,}; here alone are {counted(counts[largest])} values"
        document.fail(largest, f"{said}: choose fewer{remedy}")


def _set(
    document: Document, given: dict[str, Any], axes: set[str], systems: Sequence[str]
) -> tuple[dict[str, str], Own]:
    """The settings of all systems, and those of each system alone."""
    own: Own = {name: {} for name in systems}
    shared = dict[str, Any]()
    for place, value in given.items():
        if not (systems and isinstance(value, dict)):
            shared[place] = value
        elif place in own:
            own[place] = _texts(document, f"set.{place}", value, axes)
        else:
            document.fail(f"set.{place}", f"no system {short(place)}; expected one of {', '.join(systems)}")
    return _texts(document, "set", shared, axes), own


def _texts(document: Document, below: str, given: dict[str, Any], axes: set[str]) -> dict[str, str]:
    texts = {}
    for place, value in given.items():
        at = f"{below}.{place}"
        check_place(document, at, place)
        if place in axes:
            document.fail(at, f"{place} is an axis too, expected it in one of `set` and `axes`")
        texts[place] = setting(document, at, value)
    return texts


def _constraints(document: Document, given: list[str]) -> tuple[str, ...]:
    for i, text in enumerate(given):
        at = f"constraints[{i}]"
        if not parse_constraint(text, _where(document, at)).names:
            document.fail(at, f"expected a comparison that reads a column, got {document.shown[at]}")
    return tuple(given)


def _objectives(document: Document, given: dict[str, Any]) -> dict[str, Direction]:
    directions: dict[str, Direction] = {}
    for text, direction in given.items():
        at = f"objectives.{text}"
        if not parse(text, _where(document, at)).names:
            document.fail(at, "expected an expression that reads a column")
        if direction not in _DIRECTIONS:
            document.fail(at, f"expected one of min, max, got {document.shown[at]}")
        directions[text] = direction
    return directions


def _where(document: Document, at: str) -> str:
    """Where a text is, for messages that quote it: file, line and list position."""
    source = document.sources[at]
    return f"{source.file}:{source.line}: at $.{at.partition('.')[0]}"


def _name(document: Document, given: str | None, stem: str) -> str:
    """The sweep's title, which is never a path: any text that can be printed on one line."""
    if given is None:
        return one_line(stem)[:LONGEST_NAME] or "sweep"
    if not given.strip() or len(given) > LONGEST_NAME or not given.isprintable():
        expected = f"expected 1 to {LONGEST_NAME} printable characters"
        document.fail("name", f"{expected}, got {document.shown['name']}")
    return given


def _check_method(document: Document, sweep: Sweep, batch: int | None) -> None:
    if sweep.method == "grid":
        _check_grid(document, sweep, batch)
        return
    if sweep.budget is None:
        document.fail("", f"missing key 'budget' (expected the number of points that method: {sweep.method} may try)")
    if sweep.method in ("nsga2", "tpe") and not sweep.objectives:
        document.fail("", f"missing key 'objectives' (expected what method: {sweep.method} looks for)")
    if sweep.method == "nsga2" and sweep.batch == 1:
        document.fail("batch", "expected a population of at least 2, got 1")


def _check_grid(document: Document, sweep: Sweep, batch: int | None) -> None:
    if sweep.budget is not None or batch is not None:
        key = "batch" if sweep.budget is None else "budget"
        document.fail(key, f"a grid takes all its points, expected no {key}, or method: random, nsga2 or tpe")
    for axis in sweep.axes:
        if not axis.values:
            at = axis.place if axis.place in document.sources else f"axes.{axis.place}"
            document.fail(at, "a grid needs values: expected a list, or a range with its step or points")
