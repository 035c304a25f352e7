"""Whether a system has a place, and whether that takes a value, before anything else is known of a design point."""

from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.arch.error import UserError
from pimloom.arch.load import Sheet, load_sheet, tree_of
from pimloom.arch.part import Part
from pimloom.arch.system import STRUCTS, below_dram, kind_of, split_overrides


def check_place(sheet: Sheet, place: str, parts: Sequence[Sheet]) -> None:
    """Raise UserError, in the words of `--set`, unless the system or one of `parts` has a value at this place."""
    mine, below = split_overrides({place: "0"}, tree_of(sheet))
    if mine:
        load_sheet(sheet, Any, mine)
    _check_parts(sheet, parts, Any, below)


def check_value(sheet: Sheet, place: str, text: str, parts: Sequence[Sheet]) -> None:
    """Raise UserError unless the system or one of `parts` takes this value at this place, whatever stands elsewhere."""
    mine, below = split_overrides({place: text}, tree_of(sheet))
    try:
        if mine:
            load_sheet(sheet, STRUCTS[kind_of(sheet)], mine)
        _check_parts(sheet, parts, Part, below)
    except UserError as error:
        if str(error).startswith(f"--set {place}: "):
            raise


def _check_parts(sheet: Sheet, parts: Sequence[Sheet], type_: Any, below: Mapping[str, str]) -> None:
    """Raise UserError if all parts refuse these overrides; the one of a part that has the place at all, if one has."""
    errors: list[UserError] = []
    for part in parts if below else ():
        try:
            load_sheet(part, type_, below)
            return
        except UserError as error:
            errors.append(below_dram(error, tree_of(sheet)))
    if errors:
        raise min(errors, key=lambda error: ": no such key" in str(error))
