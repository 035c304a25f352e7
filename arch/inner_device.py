"""A device that a system's file names at a place; what is set of the device stands below that place."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pimloom.arch.document import SET
from pimloom.arch.error import UserError
from pimloom.arch.load import Sheet, Source

Found = TypeVar("Found")


def own(place: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Overrides of the system itself."""
    return {key: text for key, text in overrides.items() if not key.startswith(f"{place}.")}


def made_of(
    place: str,
    device: str,
    load: Callable[[str, Mapping[str, str]], Found],
    sheet: Sheet,
    sources: Mapping[str, Source],
    overrides: Mapping[str, str],
) -> Found:
    """The device, by the name or path that stands at the place. Raises UserError."""
    if device.endswith((".yaml", ".yml")) and sources[place].file != SET:
        device = str(Path(sheet.path).parent / device)  # a path in a file starts at that file
    below = {key.removeprefix(f"{place}."): text for key, text in overrides.items() if key.startswith(f"{place}.")}
    try:
        return load(device, below)
    except UserError as error:
        raise UserError(str(error).replace("--set ", f"--set {place}.")) from None
