"""Tables and lines in a terminal."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pimloom.arch.error import one_line
from pimloom.arch.name_units import figure

if TYPE_CHECKING:  # rich is imported where something is shown: commands that are asked for JSON start sooner
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

MANY = 5  # columns
FEW, GAP = 3, 2  # rows that may stand upright; characters between two columns
PIPE_WIDTH = 118  # columns when stdout is no terminal, so that output is the same everywhere


def _console() -> "Console":
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def _table(*columns: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        name, right = column.removesuffix("|r"), column.endswith("|r")
        whole = number == 0 and len(columns) > MANY  # names stay in one piece where numbers can be broken
        table.add_column(_text(name), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    return table


def _add(table: "Table", *cells: object) -> None:
    table.add_row(*map(_text, cells))


def _text(value: object) -> "Text":
    """As it stands, without markup."""
    from rich.text import Text

    return Text(one_line(value))


def show_rows(columns: Sequence[tuple[str, str, str]], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table. columns: key, heading (`|r` stands right), and format of each; None is a dash.

    Numbers of some digits (`,.4g`) have no exponent where they are large. A few rows that are too wide for whole
    numbers stand upright, a line for each column.
    """
    cells = [["–" if row[key] is None else _formatted(row[key], look) for key, _, look in columns] for row in rows]
    headings, console = [heading for _, heading, _ in columns], _console()
    if len(cells) <= FEW and _needed(headings, cells) > console.width:
        table = _table("", *["|r"] * len(cells))
        for number, heading in enumerate(headings):
            _add(table, heading.removesuffix("|r"), *(row[number] for row in cells))
    else:
        table = _table(*headings)
        for row in cells:
            _add(table, *row)
    console.print(table)


def _formatted(value: Any, look: str) -> str:
    digits = re.fullmatch(r",\.(\d+)g", look)
    return figure(value, int(digits[1])) if digits else format(value, look)


def _needed(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """Characters of a line in which no number, and no word of the other columns, is broken."""
    total = 0
    for number, heading in enumerate(headings):
        words = heading.removesuffix("|r").split()
        for row in cells:
            words += [row[number]] if heading.endswith("|r") else row[number].split()
        total += max(map(len, words), default=0) + GAP
    return total


def show_line(text: str) -> None:
    """Print a line."""
    _console().print(_text(text))
