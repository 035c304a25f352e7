"""Whether a system has a place, and whether that takes a value, before anything else is known of a design point."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pimloom.arch.composition_load import split_memories, typed
from pimloom.arch.document import Document
from pimloom.arch.error import UserError
from pimloom.arch.load import Sheet, load_sheet, tree_of
from pimloom.arch.part import Part
from pimloom.arch.system import STRUCTS, below_dram, kind_of, split_overrides


class _Asked(NamedTuple):
    """An override of the system itself, or of a part, and how an error about the part names the place."""

    mine: Mapping[str, str]
    below: Mapping[str, str]
    named: Callable[[UserError], UserError]


def check_place(sheet: Sheet, place: str, parts: Sequence[Sheet]) -> None:
    """Raise UserError, in the words of `--set`, unless the system or one of `parts` has a value at this place."""
    asked = _asked(sheet, place, "0")
    if asked.mine:
        load_sheet(sheet, Any, asked.mine)
    _check_parts(asked, parts, Any)


def check_value(sheet: Sheet, place: str, text: str, parts: Sequence[Sheet]) -> None:
    """Raise UserError unless the system or one of `parts` takes this value at this place, whatever stands elsewhere."""
    asked = _asked(sheet, place, text)
    try:
        if asked.mine:
            _read(sheet, asked.mine)
        _check_parts(asked, parts, Part)
    except UserError as error:
        if str(error).startswith(f"--set {place}: "):
            raise


def _asked(sheet: Sheet, place: str, text: str) -> _Asked:
    tree = tree_of(sheet)
    if kind_of(sheet) != "composed":
        mine, below = split_overrides({place: text}, tree)
        return _Asked(mine, below, lambda error: below_dram(error, tree))
    mine, of_memories = split_memories({place: text}, tree)
    name, below = next(iter(of_memories.items()), ("", {}))
    return _Asked(mine, below, lambda error: UserError(str(error).replace("--set ", f"--set memories.{name}.", 1)))


def _read(sheet: Sheet, overrides: Mapping[str, str]) -> None:
    if kind_of(sheet) != "composed":
        load_sheet(sheet, STRUCTS[kind_of(sheet)], overrides)
        return
    document = Document(sheet.path, sheet.text)
    for place, text in overrides.items():
        document.override(place, text)
    typed(document)


def _check_parts(asked: _Asked, parts: Sequence[Sheet], type_: Any) -> None:
    """Raise UserError if all parts refuse these overrides; the one of a part that has the place at all, if one has."""
    errors: list[UserError] = []
    for part in parts if asked.below else ():
        try:
            load_sheet(part, type_, asked.below)
            return
        except UserError as error:
            errors.append(asked.named(error))
    if errors:
        raise min(errors, key=lambda error: ": no such key" in str(error))
