"""CSV files of requests: their rows, and whole numbers in them, read strictly."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from pimloom.arch.document import read_text, short
from pimloom.arch.error import UserError

LONGEST_CELL = 100  # characters; a date and time with its zone has half as many
MOST_DIGITS = 18  # of a whole number: int64 holds them


def read_rows(path: Path, largest_bytes: int) -> Iterator[tuple[str, list[str]]]:
    """(file and line, cells without spaces around them) of the lines that are not empty. Raises UserError."""
    return csv_rows(path, read_text(path, largest_bytes))


def csv_rows(path: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    """The same of the text of a file. Raises UserError."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(f"{path}:{rows.line_num}: not CSV: {error}; expected numbers between commas") from None
        place = f"{path}:{rows.line_num}"
        if wide := [cell for cell in row if len(cell) > LONGEST_CELL]:
            raise UserError(f"{place}: expected at most {LONGEST_CELL} characters between commas, got {len(wide[0])}")
        if row:
            yield place, [cell.strip() for cell in row]


def whole_number(text: str, low: int, high: int, place: str, unit: str = "") -> int:
    """A number of decimal digits alone, from `low` to `high`. Raises UserError.

    >>> whole_number("017", 1, 20, "r.csv:2: seq_len")
    17
    """
    digits = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    if not digits or not low <= int(text) <= high:
        raise UserError(f"{place}: expected {low} to {high}{unit}, got {short(text) or 'nothing'}")
    return int(text)
