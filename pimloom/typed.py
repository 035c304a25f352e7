"""Arguments of the Python API: each of its kind, or a UserError of one line."""

import errno
import math
import os
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn

from pimloom.arch.document import short
from pimloom.arch.error import UserError

MOST_BITS = 128
Scalar = str | int | float | bool


class Unsaid(int):
    """A default: the number that holds where the caller says none."""


def said(value: int) -> int | None:
    """The number, None where it is a default that nobody wrote."""
    return None if isinstance(value, Unsaid) else int(value)


def count(name: str, value: object) -> int:
    """A whole number; `numpy` integers are, True and 4.0 are not. Raises UserError."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        fail(name, "a whole number", value)
    if _is_huge(value):
        fail(name, f"a whole number of at most {MOST_BITS} bits", value)
    return value if isinstance(value, Unsaid) else int(value)


def maybe_count(name: str, value: object) -> int | None:
    """As `count`, or None."""
    return None if value is None else count(name, value)


def maybe_number(name: str, value: object) -> float | None:
    """A finite number, or None. Raises UserError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or _is_huge(value) or not math.isfinite(value):
        fail(name, "a number", value)
    return float(value)


def flag(name: str, value: object) -> bool:
    """True or False. Raises UserError."""
    if not isinstance(value, bool):
        fail(name, "True or False", value)
    return value


def text(name: str, value: object) -> str:
    """A text, or a path as one, that a file may have for its name. Raises UserError."""
    if not isinstance(value, str | Path):
        fail(name, "a text or a path", value)
    try:
        os.stat(value)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            fail(name, "a shorter name", value)
    except ValueError:
        fail(name, "a text without null characters", value)
    return str(value)


def maybe_text(name: str, value: object) -> str | None:
    """As `text`, or None."""
    return None if value is None else text(name, value)


def maybe_path(name: str, value: object) -> Path | None:
    """As `text`, as a path, or None."""
    return None if value is None else Path(text(name, value))


def settings(value: object) -> list[str]:
    """`KEY=VALUE` texts of a mapping from dotted places to values, or of None. Raises UserError."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        fail("set", 'a mapping such as {"npu.clock_mhz": 500}', value)
    return [f"{text('a place in set', place)}={_yaml(place, each)}" for place, each in value.items()]


def fail(name: str, expected: str, value: object) -> NoReturn:
    """Raise UserError."""
    try:
        shown = short(repr(value))
    except Exception:  # a foreign object may do anything
        shown = f"a {type(value).__name__}"
    raise UserError(f"{name}: expected {expected}, got {shown}")


def _is_huge(value: object) -> bool:
    """Python writes no number of some thousand digits, and no message needs one."""
    return isinstance(value, Integral) and abs(int(value)) >> MOST_BITS > 0


def _yaml(place: Any, value: object) -> str:
    """A Python value as one would write it in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str | Integral | Real):
        fail(f"set: {place}", "a number, a text or a bool", value)
    if _is_huge(value):
        fail(f"set: {place}", f"a number of at most {MOST_BITS} bits", value)
    if isinstance(value, str) and "\n" in value:
        fail(f"set: {place}", "a text of one line", value)
    return str(value)
