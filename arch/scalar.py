"""Plain scalars, read as in YAML 1.2."""

import math
import re
from typing import Any

from pimloom.arch.source import short

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INT = re.compile(r"[-+]?(?:0|[1-9]\d*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.ASCII | re.IGNORECASE)
_INT64_DIGITS = 19


def scalar(text: str) -> Any:
    """The value of a plain scalar; ValueError where it is a number that we cannot hold."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        if len(text) > _INT64_DIGITS + 1 or abs(int(text)) >= 2**63:
            raise ValueError(f"expected a number below 2^63, got {short(text)}")
        return int(text)
    if _NOT_FINITE.fullmatch(text) or _FLOAT.fullmatch(text) and math.isinf(float(text)):
        raise ValueError(f"expected a finite number, got {short(text)}")
    return float(text) if _FLOAT.fullmatch(text) else text
