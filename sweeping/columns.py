"""The columns of a sweep's table as plain arrays: numbers, or texts with a code for each row."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas

LARGEST_EXACT = 2**53  # whole numbers above it lose digits as float64


@dataclass(frozen=True)
class Column:
    """A column of n rows: its distinct values, in order, and for each row the place of its value, -1 for none.

    levels: float64 or text, (k,); numbers ascend, texts stand as they first appear. codes: int32, (n,).
    """

    name: str
    levels: np.ndarray
    codes: np.ndarray

    @property
    def numeric(self) -> bool:
        return self.levels.dtype != object

    def numbers(self) -> np.ndarray:
        """float64, (n,), NaN for texts and where there is none."""
        if not self.numeric or not len(self.levels):
            return np.full(len(self.codes), np.nan)
        return np.where(self.codes < 0, np.nan, self.levels[self.codes])

    def value(self, row: int) -> float | str | None:
        """The value of one row."""
        code = int(self.codes[row])
        return None if code < 0 else self.levels.tolist()[code] if len(self.levels) < 2 else self.levels[code]


def read_columns(frame: "pandas.DataFrame") -> dict[str, Column]:
    """All columns of `frame` by name, in its order."""
    return {str(name): _column(str(name), frame[name]) for name in frame.columns}


def numbers_of(columns: Mapping[str, Column], name: str, rows: int) -> np.ndarray:
    """The numbers of a column, float64 of shape (rows,); all NaN if there is no such column."""
    return columns[name].numbers() if name in columns else np.full(rows, np.nan)


def _column(name: str, series: "pandas.Series[Any]") -> Column:
    import pandas as pd

    kind = series.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind):
        whole = pd.api.types.is_integer_dtype(kind)
        if not whole or series.isna().all() or max(abs(int(series.max())), abs(int(series.min()))) <= LARGEST_EXACT:
            return _numeric(name, series.to_numpy(dtype=float, na_value=np.nan))
    values = series.astype(object)
    known = values[values.notna()]
    distinct = known.unique()
    if len(distinct) and all(map(_is_number, distinct)):
        return _numeric(name, values.where(values.notna(), np.nan).to_numpy(dtype=float))
    if not len(distinct):
        return _numeric(name, np.full(len(series), np.nan))
    codes, levels = pd.factorize(values)  # None and NaN become -1
    texts, again = _same_text([_text(level) for level in levels])
    return Column(name, texts, np.where(codes < 0, -1, again[codes]).astype(np.int32))


def _numeric(name: str, values: np.ndarray) -> Column:
    levels, codes = np.unique(values, return_inverse=True)
    known = int(np.count_nonzero(~np.isnan(levels)))  # NaN, if any, comes last
    return Column(name, levels[:known], np.where(codes < known, codes, -1).astype(np.int32))


def _same_text(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Distinct texts in their order, and the place of each of `texts` among them: 1 and "1" look the same."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return np.array(list(places), dtype=object), np.array([places[text] for text in texts])


def _is_number(value: object) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    return not isinstance(value, int) or abs(value) <= LARGEST_EXACT


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
