"""A part's file: its text, and the part that it says, checked."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import fields

from pimloom.arch.error import UserError
from pimloom.arch.load import Loaded, Sheet, load_sheet, read_sheet, tree_of
from pimloom.arch.names import find, is_optics, list_names
from pimloom.arch.part import Part
from pimloom.arch.part_check import check_part
from pimloom.arch.standard import join_tables

T = TypeVar("T")
LEFT_OUT = frozenset(field.name for field in fields(Part) if isinstance(field.default, int))


def part_sheet(name: str) -> Sheet:
    """The file of a part by name or path, as text. Raises UserError."""
    if is_optics(name):
        raise UserError(f"part {name!r} is optical; expected a memory: {', '.join(list_names('parts'))}")
    return read_sheet(find("parts", name))


def load_part(name: str, overrides: Mapping[str, str] | None = None) -> Loaded[Part]:
    """Read a part by name or path, check it against its standard and its own geometry. Raises UserError."""
    return part_of(part_sheet(name), overrides or {})


def part_of(sheet: Sheet, overrides: Mapping[str, str]) -> Loaded[Part]:
    """The same from the text of its file. Raises UserError."""
    return _checked_part(sheet, tuple(overrides.items()))


def load_part_sheet(sheet: Sheet, type_: type[T], overrides: Mapping[str, str]) -> Loaded[T]:
    """A part's text, not checked; overrides may also give what the text may leave out. Raises UserError."""
    return load_sheet(sheet, type_, overrides, _optional(sheet))


@lru_cache(maxsize=64)
def _optional(sheet: Sheet) -> frozenset[str]:
    match tree_of(sheet):
        case {"standard": str(standard), "pim": (str() | None) as pim, "timing": dict()}:
            try:
                timings = frozenset(f"timing.{name}" for name in join_tables(standard, pim).optional)
            except UserError:  # said where the part is checked
                return LEFT_OUT
            return timings | LEFT_OUT
    return LEFT_OUT


@lru_cache(maxsize=512)
def _checked_part(sheet: Sheet, items: tuple[tuple[str, str], ...]) -> Loaded[Part]:
    overrides = dict(items)
    loaded, path = load_part_sheet(sheet, Part, overrides), sheet.path
    try:
        check_part(loaded.value, path)
    except UserError as error:
        place = str(error).removeprefix(f"{path}: at $.").partition(": ")
        if place[0] in overrides:
            raise UserError(f"--set {place[0]}: {place[2]}") from None
        if overrides:
            raise UserError(f"{error} (with {' '.join(f'--set dram.{key}' for key in overrides)})") from None
        raise
    return loaded
