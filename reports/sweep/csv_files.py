"""The points of a sweep as CSV, every digit kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pimloom.arch.files import inert, replacing, writing
from pimloom.sweeping.columns import LARGEST_EXACT, Column


def write_points(path: Path, columns: Mapping[str, Column], rows: np.ndarray) -> None:
    """Write the given rows (places) of all columns to `path`; no value is an empty cell.

    Raises UserError if the file cannot be written.
    """
    import pyarrow as pa
    from pyarrow import csv

    names = [inert(name) for name in columns]
    table = pa.Table.from_arrays([_array(column, rows) for column in columns.values()], names=names)
    with writing(path), replacing(path) as file:
        csv.write_csv(table, file)


def _array(column: Column, rows: np.ndarray) -> Any:
    """The column as an Arrow array; numbers that are all whole as integers."""
    import pyarrow as pa

    codes = column.codes[rows]
    levels: list[object] = column.levels.tolist()
    if not column.numeric:
        levels = [inert(str(level)) for level in levels]
    elif np.isfinite(column.levels).all() and (np.abs(column.levels) <= LARGEST_EXACT).all():
        whole = (column.levels == np.floor(column.levels)).all()
        levels = column.levels.astype(np.int64).tolist() if whole else levels
    kind = pa.string() if not column.numeric else None
    return pa.array(levels or [None], type=kind).take(pa.array(codes, mask=codes < 0))
