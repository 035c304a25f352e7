"""Times of traces, read exactly: whole picoseconds."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction

from pimloom.arch.document import short
from pimloom.arch.error import UserError
from pimloom.arch.units import PS_PER_S, PS_PER_US
from pimloom.workload.requests.formats import DATE

NUMBER = re.compile(r"(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?", re.ASCII)
FRACTION = re.compile(r"(.*:\d\d)\.(\d{1,12})(.*)", re.ASCII)
LATEST_PS = 10**12 * PS_PER_S


def instants(written: Iterable[tuple[str, str]], unit: int) -> list[int]:
    """(place, text) of each row: ps from the first one. unit: of numbers [ps]; DATE: dates, or seconds; all alike.
    Raises UserError for what is no time, or falls."""
    found, kind = list[int](), ""
    for place, text in written:
        this, mine = _instant(text, unit)
        if this is None or not mine:
            dates = " or a date and time such as 2024-05-10 12:00:00" if unit == DATE else ""
            raise UserError(f"{place}: expected a number, at least 0{dates}, got {short(text) or 'nothing'}")
        if kind and mine != kind:
            raise UserError(f"{place}: expected a {kind} as in the lines before, got {short(text)}")
        if this > LATEST_PS:
            raise UserError(f"{place}: expected at most 1e12 seconds, got {short(text)}")
        if found and this < found[-1]:
            raise UserError(f"{place}: earlier than the line before; expected rising times")
        found.append(this)
        kind = mine
    return [this - found[0] for this in found]


def _instant(text: str, unit: int) -> tuple[int | None, str]:
    """Picoseconds, and what it was written as.

    >>> _instant("0.25", 10**9), _instant("1970-01-01 00:00:01.0000001", DATE)
    ((250000000, 'number'), (1000000100000, 'date'))
    """
    if NUMBER.fullmatch(text):
        return round(Fraction(text) * (unit or PS_PER_S)), "number"
    return (_date(text), "date") if unit == DATE else (None, "")


def _date(text: str) -> int | None:
    """Dates have more digits behind the point than Python reads."""
    match = FRACTION.fullmatch(text)
    whole, digits, zone = match.groups() if match else (text, "0", "")
    try:
        date = datetime.fromisoformat(whole + zone)
    except ValueError:
        return None
    since = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    us = since.days * 24 * 3600 * 10**6 + since.seconds * 10**6 + since.microseconds
    return us * PS_PER_US + round(Fraction(int(digits), 10 ** len(digits)) * PS_PER_S)
