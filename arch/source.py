"""Where the values of a text stand, and what is said of one that does not fit."""

from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from pimloom.arch.error import UserError, one_line

SET = "--set"


class Source(NamedTuple):
    """Where a value was written: file as given, line from 1, and the comment at the end of the value's line.

    A value given as an override has the file `--set` and line 0, one that is left out line 0 and the text `default`.
    """

    file: str
    line: int
    text: str


def short(text: str) -> str:
    """`text` on one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:60] + "..."


def refuse(sources: Mapping[str, Source], place: str, said: str, line_of: str | None = None) -> NoReturn:
    """Raise UserError about the value at a place, with the line of that place or of another one."""
    source = sources[place if line_of is None else line_of]
    place = one_line(place)  # a free key may hold anything
    if source.file == SET:
        raise UserError(f"{SET} {place}: {said}")
    dot = "" if place.startswith("[") or not place else "."
    raise UserError(f"{source.file}:{source.line}: at ${dot}{place}: {said}")
