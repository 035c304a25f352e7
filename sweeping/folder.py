"""The folder of a sweep: what it holds besides rows, and whether a start belongs to it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pimloom.arch.document import read_text
from pimloom.arch.error import UserError, one_line
from pimloom.arch.files import prepare_folder, write_atomic
from pimloom.arch.inputs import note_named
from pimloom.sweeping.definition.expression import check_names, parse, parse_constraint
from pimloom.sweeping.definition.load_sweep import LARGEST_BYTES, read_sweep, sweep_from, text_of
from pimloom.sweeping.definition.sweep import Sweep
from pimloom.sweeping.point.row import result_columns
from pimloom.sweeping.point.shared import Base
from pimloom.sweeping.store.runs import RUNS, read_runs

DEFINITION = "sweep.yaml"


class Known(NamedTuple):
    """A sweep as its folder has it: the definition and what its last start read of the user's files."""

    sweep: Sweep
    base: Base
    runs: list[dict[str, object]]


def read_source(source: Path | Mapping[str, Any]) -> tuple[Sweep, str]:
    """A sweep and its text, from a file or from a mapping with the keys of one. Raises UserError."""
    if isinstance(source, Mapping):
        return sweep_from(source), text_of(source)
    text = read_text(source, LARGEST_BYTES)
    return read_sweep(text, str(source)), text


def folder_of(source: Path | Mapping[str, Any], out: Path | None) -> Path:
    """Where the rows go: `out`, or the file's name without its suffix. Raises UserError."""
    if out is not None:
        return out
    if isinstance(source, Mapping):
        raise UserError("sweep: expected `out`, a folder for its rows")
    if source.suffix not in (".yaml", ".yml"):
        raise UserError(f"{source}: expected a name that ends in .yaml, or --out DIR")
    return source.with_suffix("")


def settle(folder: Path, sweep: Sweep, text: str) -> None:
    """Make the folder a sweep's own. Raises UserError if another sweep lives there.

    A sweep may change and go on in its folder, as long as its system and its axes stay. So if the folder holds files
    and no sweep was ever started there.
    """
    prepare_folder(folder)
    path = folder / DEFINITION
    if not (folder / RUNS).exists():
        others = [other for other in sorted(folder.iterdir()) if not other.name.startswith(".")]
        foreign = [other.name for other in others if not (other == path and path.is_file() and _holds(path, text))]
        if foreign:
            found = one_line(", ".join(foreign[:3]))
            raise UserError(f"{folder}: holds other files ({found}) and no sweep; choose another folder with --out")
    if path.exists():
        there = read_sweep(read_text(path, LARGEST_BYTES), str(path))
        differ = [
            f"{what} {', '.join(old)}, here {', '.join(new)}"
            for what, old, new in (
                ("system", [there.system], [sweep.system]),
                ("axes", sorted(a.column for a in there.axes), sorted(a.column for a in sweep.axes)),
            )
            if old != new
        ]
        if differ:
            raise UserError(f"{folder}: holds another sweep ({'; '.join(differ)}); choose another folder with --out")
        if _holds(path, text):
            return
    write_atomic(path, text, own=True)


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace") == text
    except OSError:
        return False


def reopen(folder: Path) -> Known:
    """The sweep that lives in a folder. Raises UserError."""
    path = folder / DEFINITION
    if not path.is_file():
        raise UserError(f"{folder}: is no sweep, it has no {DEFINITION}; begin one with `pimloom sweep FILE --out DIR`")
    sweep, _ = read_source(path)
    again = f"run `pimloom sweep FILE --out {folder}` again"
    runs = read_runs(folder)
    for run in runs:
        _note_inputs(run.get("inputs"))
    for run in reversed(runs):
        try:
            base = msgspec.convert(run["base"], Base)
            sweep = replace(sweep, name=str(run["name"]))
        except (KeyError, msgspec.ValidationError):
            continue  # a damaged file, or one of an older version
        if {axis.place: axis.unit for axis in sweep.axes} != base.units:
            raise UserError(f"{path}: has other axes than the last start of the sweep; {again}")
        check_columns(sweep, base)
        return Known(sweep, base, runs)
    raise UserError(f"{folder}: no start of the sweep is recorded there; {again}")


def _note_inputs(paths: object) -> None:
    for path in paths if isinstance(paths, list) else ():
        note_named(path if isinstance(path, str) else None)


def check_columns(sweep: Sweep, base: Base) -> None:
    """Raise UserError for an objective or a constraint that reads a column which the sweep will not have.

    The same for a column of texts that is read as a number, and a number that is compared with a text.
    """
    results = [column for column in result_columns(base)]
    texts = {column.name for column in results if column.text}
    texts |= {axis.place for axis in sweep.axes if axis.values and isinstance(axis.values[0], str)}
    known = [column.name for column in results] + [axis.place for axis in sweep.axes]
    for text in sweep.objectives:
        objective = parse(text, f"{sweep.name}: objectives")
        check_names(objective, known)
        _refuse(objective.where, text, objective.names & texts, "is text, expected columns of numbers")
    for text in sweep.constraints:
        constraint = parse_constraint(text, f"{sweep.name}: constraints")
        check_names(constraint, known)
        numbers = constraint.names - constraint.text_names
        _refuse(constraint.where, text, numbers & texts, "is text, expected == or != and a text in quotes")
        _refuse(constraint.where, text, constraint.text_names - texts, "is a number, expected no text beside it")


def _refuse(where: str, text: str, names: Collection[str], why: str) -> None:
    for name in sorted(names):
        raise UserError(f"{where}: {one_line(text)!r}: {name} {why}")
