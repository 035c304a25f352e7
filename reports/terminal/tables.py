"""Tables and lines in a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pimloom.arch.error import one_line

MANY = 5  # columns
PIPE_WIDTH = 118  # columns when stdout is no terminal, so that output is the same everywhere


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        name, right = column.removesuffix("|r"), column.endswith("|r")
        whole = number == 0 and len(columns) > MANY  # names stay in one piece where numbers can be broken
        table.add_column(_text(name), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*map(_text, cells))


def _text(value: object) -> Text:
    """As it stands, without markup."""
    return Text(one_line(value))


def show_rows(columns: Sequence[tuple[str, str, str]], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table. columns: key, heading (`|r` stands right), and format of each; None is a dash."""
    table = _table(*(heading for _, heading, _ in columns))
    for row in rows:
        _add(table, *("–" if row[key] is None else format(row[key], look) for key, _, look in columns))
    _console().print(table)


def show_line(text: str) -> None:
    """Print a line."""
    _console().print(_text(text))
