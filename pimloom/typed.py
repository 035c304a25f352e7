"""Arguments of the Python API: each of its kind, or a UserError of one line."""

import errno
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn

from pimloom.arch.document import short
from pimloom.arch.error import UserError

MOST_BITS = 128
PLAIN = re.compile(r"[\w.+-](?:[\w.+/% -]*[\w.+/%-])?")  # a text that stands in a YAML list as it is
DEEPEST = 8  # lists in lists
Scalar = str | int | float | bool


def count(name: str, value: object) -> int:
    """A whole number; `numpy` integers are, True and 4.0 are not. Raises UserError."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        fail(name, "a whole number", value)
    if _is_huge(value):
        fail(name, f"a whole number of at most {MOST_BITS} bits", value)
    return int(value)


def number(name: str, value: object) -> float:
    """A finite number. Raises UserError."""
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


def worded(name: str, value: object) -> str:
    """A text, or the number that it may be, as one would type it. Raises UserError.

    >>> worded("price", 1.29), worded("branches", 8), worded("price", "1.29:2.69")
    ('1.29', '8', '1.29:2.69')
    """
    if isinstance(value, bool) or not isinstance(value, str | Path | Real):
        fail(name, "a text or a number", value)
    return str(_plain_number(name, value)) if isinstance(value, Real) else text(name, value)


def listed(name: str, value: object) -> str:
    """Values in one text with commas, as the command line has them; a number, a text, or several. Raises UserError.

    >>> listed("tp", [8, 16]), listed("tp", 8), listed("fault_ratio", "0:0.15:0.01")
    ('8,16', '8', '0:0.15:0.01')
    """
    if isinstance(value, str | Path):
        return text(name, value)
    several = [value] if isinstance(value, Real) else value
    if not isinstance(several, Iterable) or isinstance(several, Mapping):
        fail(name, "a number, a text, or several", value)
    said = [each if isinstance(each, str) else f"{_plain_number(name, each)}" for each in several]
    if not said:
        fail(name, "at least one value", value)
    return ",".join(said)


def named_numbers(name: str, value: object) -> list[str]:
    """`NAME=X` texts of a mapping from names to numbers, or one number for all. Raises UserError.

    >>> named_numbers("hbd_gb_s", {"nvl72": 400}), named_numbers("hbd_gb_s", 400)
    (['nvl72=400'], ['400'])
    """
    if isinstance(value, Mapping):
        return [f"{text(f'a name in {name}', key)}={_plain_number(name, each)}" for key, each in value.items()]
    return [str(_plain_number(name, value))]


def _plain_number(name: str, value: object) -> int | float:
    return count(name, value) if isinstance(value, Integral) and not isinstance(value, bool) else number(name, value)


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
    """A Python value as one would write it in YAML; lists, tuples, arrays and mappings on one line."""
    scalar = value is None or isinstance(value, str | Integral | Real)
    return _scalar(place, value) if scalar else _flow(place, value, DEEPEST)


def _scalar(place: Any, value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if _is_huge(value):
        fail(f"set: {place}", f"a number of at most {MOST_BITS} bits", value)
    if isinstance(value, str) and "\n" in value:
        fail(f"set: {place}", "a text of one line", value)
    return str(value)


def _flow(place: Any, value: object, deeper: int) -> str:
    """The same within brackets, where some texts need quotes.

    >>> _flow("", [1, 2.5, None, "4 nCK", "a, b"], 1), _flow("", {"a": [True]}, 2)
    ('[1, 2.5, null, 4 nCK, "a, b"]', '{a: [true]}')
    """
    if isinstance(value, str) and not PLAIN.fullmatch(value):
        return json.dumps(_scalar(place, value))
    if value is None or isinstance(value, str | Integral | Real):
        return _scalar(place, value)
    several = value.tolist() if hasattr(value, "tolist") else value  # of numpy
    if deeper and isinstance(several, Mapping):
        items = [
            f"{_flow(place, text(f'a key in set: {place}', key), 0)}: {_flow(place, each, deeper - 1)}"
            for key, each in several.items()
        ]
        return f"{{{', '.join(items)}}}"
    if not deeper or not isinstance(several, Sequence) or isinstance(several, bytes | bytearray | memoryview):
        fail(f"set: {place}", "a number, a text, a bool, or a list of them", value)
    return f"[{', '.join(_flow(place, each, deeper - 1) for each in several)}]"
