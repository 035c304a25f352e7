"""Whether a system has a place, and whether that takes a value, before anything else is known of a design point."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pimloom.arch.aim import AimDevice
from pimloom.arch.composition_load import split_memories, typed
from pimloom.arch.document import Document
from pimloom.arch.duplex import DuplexSpec
from pimloom.arch.error import UserError
from pimloom.arch.load import Sheet, load_sheet, read_sheet, tree_of
from pimloom.arch.names import find
from pimloom.arch.part import Part
from pimloom.arch.part_file import load_part_sheet
from pimloom.arch.system import below_dram, part_sheet, split_overrides, struct_of_kind, system_kind


class _Inner(NamedTuple):
    """A device that a system names: where, in which folder it is, what it is, and below what its part's values are."""

    place: str
    folder: str
    struct: Any
    part: str


INNER = {
    "duplex": _Inner("device", "duplex_devices", DuplexSpec, "part."),
    "cent": _Inner("aim", "aim_devices", AimDevice, "dram."),
}


class _Asked(NamedTuple):
    """An override of the system itself, or of a part, and how an error about the part names the place."""

    mine: Mapping[str, str]
    below: Mapping[str, str]
    named: Callable[[UserError], UserError]


def check_place(sheet: Sheet, place: str, parts: Sequence[Sheet]) -> None:
    """Raise UserError, in the words of `--set`, unless the system or one of `parts` has a value at this place."""
    if inner := _inner(sheet, place):
        _check_device(inner._replace(struct=Any), sheet, place, "0", Any)
        return
    asked = _asked(sheet, place, "0")
    if asked.mine:
        load_sheet(sheet, Any, asked.mine, sections=struct_of_kind(system_kind(sheet)))
    _check_parts(asked, parts, Any)


def check_value(sheet: Sheet, place: str, text: str, parts: Sequence[Sheet]) -> None:
    """Raise UserError unless the system or one of `parts` takes this value at this place, whatever stands elsewhere."""
    try:
        if inner := _inner(sheet, place):
            _check_device(inner, sheet, place, text, Part)
            return
        asked = _asked(sheet, place, text)
        if asked.mine:
            _read(sheet, asked.mine)
        _check_parts(asked, parts, Part)
    except UserError as error:
        if str(error).startswith(f"--set {place}: "):
            raise


def _inner(sheet: Sheet, place: str) -> _Inner | None:
    """The device that a place is below, if it is below one."""
    inner = INNER.get(system_kind(sheet))
    return inner if inner and place.startswith(f"{inner.place}.") else None


def _check_device(inner: _Inner, sheet: Sheet, place: str, text: str, of_part: Any) -> None:
    """The same of a place in the device that a system names, or in that device's part."""
    device, struct = read_sheet(find(inner.folder, tree_of(sheet)[inner.place])), inner.struct
    load: Callable[[Sheet, Any, Mapping[str, str]], Any] = load_sheet
    below, rest = f"{inner.place}.", place.removeprefix(f"{inner.place}.")
    if rest.startswith(inner.part):
        below, rest, struct = below + inner.part, rest.removeprefix(inner.part), of_part
        device, load = part_sheet(tree_of(device)["part"]), load_part_sheet
    try:
        load(device, struct, {rest: text})
    except UserError as error:
        raise UserError(str(error).replace("--set ", f"--set {below}", 1)) from None


def _asked(sheet: Sheet, place: str, text: str) -> _Asked:
    tree = tree_of(sheet)
    if system_kind(sheet) != "composed":
        mine, below = split_overrides({place: text}, tree)
        return _Asked(mine, below, lambda error: below_dram(error, tree))
    mine, of_memories = split_memories({place: text}, tree)
    name, below = next(iter(of_memories.items()), ("", {}))
    return _Asked(mine, below, lambda error: UserError(str(error).replace("--set ", f"--set memories.{name}.", 1)))


def _read(sheet: Sheet, overrides: Mapping[str, str]) -> None:
    if system_kind(sheet) != "composed":
        load_sheet(sheet, struct_of_kind(system_kind(sheet)), overrides)
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
            load_part_sheet(part, type_, asked.below)
            return
        except UserError as error:
            errors.append(asked.named(error))
    if errors:
        raise min(errors, key=lambda error: ": no such key" in str(error))
