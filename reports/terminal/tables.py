"""Tables and lines in a terminal."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pimloom.arch.error import one_line
from pimloom.arch.name_units import figure

if TYPE_CHECKING:  # rich is imported where something is shown: commands that are asked for JSON start sooner
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

GAP = 3  # characters between two columns
PIPE_WIDTH = 118  # columns when stdout is no terminal, so that output is the same everywhere


def _console() -> "Console":
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def _table(columns: Sequence[str], widths: Iterable[int | None]) -> "Table":
    """columns: headings; `|r` stands right. widths: what a column is never narrower than."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        side: Any = "right" if column.endswith("|r") else "left"
        table.add_column(_text(column.removesuffix("|r")), justify=side, overflow="fold", min_width=width)
    return table


def _filled(table: "Table", rows: Iterable[Iterable[object]]) -> "Table":
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _text(value: object) -> "Text":
    """As it stands, without markup."""
    from rich.text import Text

    return Text(one_line(value))


def show_rows(columns: Sequence[tuple[str, str, str]], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table. columns: key, heading (`|r` stands right), and format of each; None is a dash.

    Numbers of some digits (`,.4g`) have no exponent where they are large. Rows too wide for whole numbers stand
    upright, a line for each column, as many beside each other as the terminal is wide.
    """
    cells = [["–" if row[key] is None else _formatted(row[key], look) for key, _, look in columns] for row in rows]
    headings, console = [heading for _, heading, _ in columns], _console()
    widths = _widths(headings, cells)
    if sum(n + GAP for n in widths) - 1 <= console.width:
        console.print(_filled(_table(headings, widths), cells))
        return
    for some in _abreast(headings, cells, console.width):
        first, *others = zip([heading.removesuffix("|r") for heading in headings], *some, strict=True)
        names = [first[0], *[f"{name}|r" for name in first[1:]]]
        console.print(_filled(_table(names, [None] * len(names)), others))


def _formatted(value: Any, look: str) -> str:
    digits = re.fullmatch(r",\.(\d+)g", look)
    return figure(value, int(digits[1])) if digits else format(value, look)


def _widths(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Characters of each column in which no number, and no word of the other columns, is broken."""
    found = []
    for number, heading in enumerate(headings):
        words = heading.removesuffix("|r").split()
        for row in cells:
            words += [row[number]] if heading.endswith("|r") else row[number].split()
        found.append(max(map(len, words), default=0))
    return found


def _abreast(headings: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> Iterator[list[Sequence[str]]]:
    """The rows in groups that stand beside each other, with the longest heading before them, on lines of a width."""
    left = width + 1 - max(len(heading.removesuffix("|r")) for heading in headings) - GAP
    group, used = list[Sequence[str]](), 0
    for row in cells:
        own = max(map(len, row)) + GAP
        if group and used + own > left:
            yield group
            group, used = [], 0
        group.append(row)
        used += own
    yield group


def show_line(text: str) -> None:
    """Print a line."""
    _console().print(_text(text))
