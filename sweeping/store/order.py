"""The order of a sweep's rows: that of the axes' values, the last axis fastest."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from pimloom.sweeping.definition.numbered import numbers_of, places_of
from pimloom.sweeping.definition.sweep import Axis, Sweep


def in_order(sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in the order of a grid, numbered from 0; of a continuous axis by value.

    The axes' columns get the values of the sweep, whatever else the folder holds has made of them.
    """
    keys = [_keys(axis, frame) for axis in sweep.axes]
    columns = {axis.column: _column(axis, key) for axis, key in zip(sweep.axes, keys, strict=True)}
    return frame.assign(**columns).iloc[np.lexsort(keys[::-1])].reset_index(drop=True)


def with_own_values(axes: Iterable[Axis], frame: pd.DataFrame) -> pd.DataFrame:
    """Rows within the axes, in whose columns stand the axes' own values: beside texts, a folder's numbers are texts."""
    return frame.assign(**{axis.column: _column(axis, _keys(axis, frame)) for axis in axes})


def _keys(axis: Axis, frame: pd.DataFrame) -> np.ndarray:
    """Where each row stands on the axis."""
    return places_of(axis, frame[axis.column]) if axis.values else numbers_of(frame[axis.column])


def _column(axis: Axis, key: np.ndarray) -> Any:
    if not axis.values:
        return key
    if isinstance(axis.values[0], str):
        return pd.array(np.array(axis.values, object)[key], pd.StringDtype(na_value=math.nan))
    return np.array(axis.values)[key]
