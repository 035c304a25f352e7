"""Objectives and constraints: arithmetic and comparisons over the columns of a sweep, on one row or on a table.

Names are result columns and axes by place (`dram.channels`); a name with other characters stands in backticks. A value
that is not known (an empty column, a division by zero, an overflow) is None in a row and NaN in a table, and a
constraint on it does not hold.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pimloom.arch.document import short
from pimloom.arch.error import UserError, one_line
from pimloom.arch.load import nearest
from pimloom.sweeping.definition.arithmetic import Program, number, numbers, run
from pimloom.sweeping.definition.grammar import sides_of_constraint, steps_of_expression

if TYPE_CHECKING:
    import pandas as pd

    from pimloom.sweeping.definition.sweep import Sweep

_SAME: Mapping[str, str] = MappingProxyType({})
_LEAST = math.ulp(0.0)  # by how much a strict comparison fails where both sides are equal


@dataclass(frozen=True)
class Expression:
    """A parsed expression, plain data. names: the columns it reads; where: what error messages call its place.

    `column_of` in its methods maps a name to the column that holds it, where the two differ (`Axis.column`).
    """

    text: str
    where: str = field(compare=False)
    names: frozenset[str]
    program: Program = field(repr=False)

    def value(self, row: Mapping[str, object], column_of: Mapping[str, str] = _SAME) -> float | None:
        """The value in a row; None if it is not known."""
        value = float(run(self.program, _row_reader(row, column_of)))
        return None if math.isnan(value) else value

    def values(self, frame: "pd.DataFrame", column_of: Mapping[str, str] = _SAME) -> "pd.Series[float]":
        """The value in each row of a table, float64 on the table's index; NaN where it is not known."""
        return _series(run(self.program, _frame_reader(frame, column_of)), frame)


@dataclass(frozen=True)
class Constraint:
    """A parsed constraint, plain data: comparisons of which all must hold. The rest is as in `Expression`."""

    text: str
    where: str = field(compare=False)
    names: frozenset[str]
    comparisons: tuple[tuple[Program, str, Program], ...] = field(repr=False)

    @property
    def text_names(self) -> frozenset[str]:
        """The columns that it compares with a text; all others are numbers to it."""
        return frozenset().union(*(_names(left) for left, _, right in self.comparisons if right[0][0] == "text"))

    def holds(self, row: Mapping[str, object], column_of: Mapping[str, str] = _SAME) -> bool:
        """Whether it holds in a row; False if that is not known."""
        return self.violation(row, column_of) <= 0

    def violation(self, row: Mapping[str, object], column_of: Mapping[str, str] = _SAME) -> float:
        """By how much it fails, in its own unit: <= 0 where it holds, inf if that is not known; never NaN."""

        def same(name: str, text: str) -> float:
            cell = row.get(column_of.get(name, name))
            return float(cell != text) if isinstance(cell, str) else math.nan

        return float(self._violation(_row_reader(row, column_of), same))

    def holds_all(self, frame: "pd.DataFrame", column_of: Mapping[str, str] = _SAME) -> "pd.Series[bool]":
        """Whether it holds in each row of a table, bool on the table's index; False where that is not known."""

        def same(name: str, text: str) -> np.ndarray:
            cells = _cells(frame, column_of.get(name, name))
            return np.array([float(c != text) if isinstance(c, str) else math.nan for c in cells])

        return _series(self._violation(_frame_reader(frame, column_of), same), frame) <= 0

    def _violation(self, column: Callable[[str], Any], same: Callable[[str, str], Any]) -> Any:
        """`same`: 0 where a column is a text, 1 where it is another one, NaN where it is none."""
        worst: Any = -math.inf
        for left, sign, right in self.comparisons:
            with np.errstate(all="ignore"):
                if right[0][0] == "text":
                    excess = same(str(left[0][1]), str(right[0][1]))
                else:
                    excess = run(left, column) - run(right, column)
                excess = _EXCESS[sign](excess)
            worst = np.maximum(worst, np.where(np.isnan(excess), math.inf, excess))
        return worst


_EXCESS: Mapping[str, Callable[[Any], Any]] = {
    "<=": lambda over: over,
    ">=": lambda over: -over,
    "<": lambda over: np.where(over == 0, _LEAST, over),
    ">": lambda over: np.where(over == 0, _LEAST, -over),
    "==": np.abs,
    "!=": lambda over: np.where(over == 0, 1.0, -np.abs(over)),
}
"""What left - right means for each sign: <= 0 where the comparison holds."""


def parse(text: str, where: str) -> Expression:
    """Parse an expression: numbers, columns, + - * / ^ (or **), unary minus, parentheses, `FUNCTIONS`.

    Raises UserError, which starts with `where` and names the column of the text.
    """
    program = steps_of_expression(text, where)
    return Expression(text, where, _names(program), program)


def parse_constraint(text: str, where: str) -> Constraint:
    """Parse comparisons of expressions, `a < b` or `1 <= a < 2`, or of a column and a text, `a == "x"` or `a != "x"`.

    Raises UserError, which starts with `where`.
    """
    parts = sides_of_constraint(text, where)
    if len(parts) == 1:
        raise UserError(f"{where}: {_shown(text)}: expected a comparison such as power_w < 75")
    sides: list[Any] = parts[::2]
    signs: list[Any] = parts[1::2]
    comparisons = tuple(zip(sides, signs, sides[1:], strict=False))
    if any(side[0][0] == "text" for side in sides):
        comparisons = (_of_text(text, where, comparisons),)
    return Constraint(text, where, frozenset().union(*map(_names, sides)), comparisons)


def _of_text(text: str, where: str, comparisons: tuple[Any, ...]) -> tuple[Program, str, Program]:
    """A comparison with a text, the text on the right."""
    (left, sign, right), *others = comparisons
    if left[0][0] == "text":
        left, right = right, left
    if others or sign not in ("==", "!=") or len(left) != 1 or left[0][0] != "column" or right[0][0] != "text":
        raise UserError(
            f"{where}: {_shown(text)}: expected a text beside one column and == or !=, such as workload.model != 'gpt2'"
        )
    return left, sign, right


def judging(sweep: "Sweep") -> set[str]:
    """What the objectives and constraints of a sweep read: results, and axes by place."""
    names = {name for text in sweep.objectives for name in parse(text, "objectives").names}
    return names | {name for text in sweep.constraints for name in parse_constraint(text, "constraints").names}


def check_names(expression: Expression | Constraint, known: Iterable[str]) -> None:
    """Raise UserError, with the nearest names, if an expression reads a column that is not among `known`."""
    names = list(known)
    for name in sorted(expression.names - set(names)):
        raise UserError(
            f"{expression.where}: {_shown(expression.text)}: unknown column {name!r}, expected a result or an axis"
            f"{nearest(name, names)}"
        )


def _shown(text: str) -> str:
    return repr(one_line(short(text)))


def _names(program: Program) -> frozenset[str]:
    return frozenset(str(argument) for name, argument in program if name == "column")


def _row_reader(row: Mapping[str, object], column_of: Mapping[str, str]) -> Callable[[str], float]:
    return lambda name: number(row.get(column_of.get(name, name)))


def _frame_reader(frame: "pd.DataFrame", column_of: Mapping[str, str]) -> Callable[[str], np.ndarray]:
    def read(name: str) -> np.ndarray:
        column = column_of.get(name, name)
        if column in frame.columns and isinstance(frame[column].dtype, np.dtype) and frame[column].dtype.kind in "biuf":
            return frame[column].to_numpy(np.float64)
        return numbers(_cells(frame, column))

    return read


def _cells(frame: "pd.DataFrame", column: str) -> list[object]:
    return frame[column].tolist() if column in frame.columns else [None] * len(frame)


def _series(values: Any, frame: "pd.DataFrame") -> Any:
    import pandas as pd

    return pd.Series(np.broadcast_to(values, len(frame)), index=frame.index)
