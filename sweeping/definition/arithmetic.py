"""Arithmetic on columns: a program for a stack, run on one row or on all; what is not finite is unknown (NaN)."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

Step = tuple[str, float | str | int]
"""`number` and its value, `column` and its name, or an operation and how many values it takes off the stack."""
Program = tuple[Step, ...]

FUNCTIONS: Mapping[str, int | None] = MappingProxyType(
    {"abs": 1, "exp": 1, "log10": 1, "max": None, "min": None, "sqrt": 1}
)
"""Functions that an expression may call, and how many values each takes; None: one or more."""


def _power(base: Any, exponent: Any) -> Any:
    known = ~(np.isnan(base) | np.isnan(exponent))  # numpy: 1 ^ NaN = NaN ^ 0 = 1
    return np.where(known, np.power(base, exponent), np.nan)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": _power,
    "negate": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log10": np.log10,
    "max": lambda *values: reduce(np.maximum, values),
    "min": lambda *values: reduce(np.minimum, values),
    "sqrt": np.sqrt,
}


def run(program: Program, column: Callable[[str], Any]) -> Any:
    """The value of a program, float64 as the columns are: `column` gives one number or an array for a name.

    NaN where a column is NaN or infinite, or where any step overflows, divides by zero or has no real value.
    """
    stack: list[Any] = []
    with np.errstate(all="ignore"):
        for name, argument in program:
            if name == "number":
                stack.append(np.float64(argument))
            elif name == "column":
                stack.append(_finite(column(str(argument))))
            else:
                count = int(argument)
                stack[-count:] = [_finite(_OPERATIONS[name](*stack[-count:]))]
    (value,) = stack
    return value


def _finite(value: Any) -> Any:
    return np.where(np.isfinite(value), value, np.nan)


def number(value: object) -> float:
    """A cell as a number; NaN if it is none, or not finite."""
    if not isinstance(value, Real | np.bool_):
        return math.nan
    try:
        plain = float(value)
    except OverflowError:
        return math.nan
    return plain if math.isfinite(plain) else math.nan


def numbers(cells: Iterable[object]) -> np.ndarray:
    """Cells as float64; NaN where one is no number, or not finite."""
    return np.array([number(cell) for cell in cells], dtype=np.float64)
