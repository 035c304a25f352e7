"""Plain scalars, read as in YAML 1.2."""

import math
import re
from typing import Any

from pimloom.arch.source import short

DEEPEST = 64  # lists and mappings in one another, in YAML and JSON
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INT = r"(?a)[-+]?(?:0|[1-9]\d*)"  # compiled when a text is composed, which is seldom
_FLOAT = r"(?a)[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?"
_NOT_FINITE = r"(?ai)[-+]?\.(?:inf|nan)"
_INT64_DIGITS = 19


def scalar(text: str) -> Any:
    """The value of a plain scalar; ValueError where it is a number that we cannot hold."""
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(_INT, text):
        if len(text) > _INT64_DIGITS + 1 or abs(int(text)) >= 2**63:
            raise ValueError(f"expected a number below 2^63, got {short(text)}")
        return int(text)
    if re.fullmatch(_NOT_FINITE, text) or re.fullmatch(_FLOAT, text) and math.isinf(float(text)):
        raise ValueError(f"expected a finite number, got {short(text)}")
    return float(text) if re.fullmatch(_FLOAT, text) else text
