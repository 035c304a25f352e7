"""Arguments of a kernel as words of 64 bits, and their kinds.

Kinds: of an array in C order `i8:2`, its type and dimensions, of whose words the first is the address of its data, the
others its shape; `int`, `bool`, `float`; of a named tuple `module:class`, those of its fields, and `end`.
"""

import struct
from ctypes import addressof, c_char
from functools import cache
from typing import Any

import numpy as np

END = "end"
RESULTS = 4  # words that a kernel leaves at most


def flatten(arguments: tuple[Any, ...]) -> tuple[tuple[str, ...], list[int]]:
    """Kinds and words. Raises TypeError for what no kernel takes."""
    kinds, words = list[str](), list[int]()
    for argument in arguments:
        _add(argument, kinds, words)
    return tuple(kinds), words


def _add(x: Any, kinds: list[str], words: list[int]) -> None:
    if isinstance(x, np.ndarray):
        flags = x.flags
        if not (flags.c_contiguous and flags.aligned and x.dtype.isnative):
            raise TypeError("a kernel takes arrays in C order and of native numbers only")
        kinds.append(_array(x.dtype, x.ndim))
        words.append(_address(x))
        words.extend(x.shape)
    elif isinstance(x, tuple) and hasattr(x, "_fields"):
        kinds.append(_record(type(x)))
        for field in x:
            _add(field, kinds, words)
        kinds.append(END)
    elif isinstance(x, bool | np.bool_):
        kinds.append("bool")
        words.append(int(x))
    elif isinstance(x, int | np.integer):
        if not -(1 << 63) <= x < 1 << 63:
            raise TypeError(f"a kernel takes no {x}")
        kinds.append("int")
        words.append(int(x))
    elif isinstance(x, float):
        kinds.append("float")
        words.extend(struct.unpack("<q", struct.pack("<d", x)))
    else:
        raise TypeError(f"a kernel takes no {type(x).__name__}")


def _address(x: Any) -> int:
    try:
        return addressof(c_char.from_buffer(x))  # a quarter of what the other takes
    except (TypeError, ValueError):  # read-only, or empty
        address: int = x.__array_interface__["data"][0]
        return address


@cache
def _array(dtype: np.dtype[Any], dimensions: int) -> str:
    return f"{dtype.str[1:]}:{dimensions}"


@cache
def _record(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
