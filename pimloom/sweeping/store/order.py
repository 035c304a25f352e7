"""The order of a sweep's rows: that of the axes' values, the last axis fastest."""

import math
from typing import Any

import numpy as np
import pandas as pd

from pimloom.sweeping.definition.numbered import numbers_of, places_of
from pimloom.sweeping.definition.sweep import Axis, Sweep


def in_order(sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in the order of a grid, numbered from 0; of a continuous axis by value.

    The axes' columns get the values of the sweep, whatever else the folder holds has made of them.
    """
    keys = [
        places_of(axis, frame[axis.column]) if axis.values else numbers_of(frame[axis.column]) for axis in sweep.axes
    ]
    columns = {axis.column: _column(axis, key) for axis, key in zip(sweep.axes, keys, strict=True)}
    return frame.assign(**columns).iloc[np.lexsort(keys[::-1])].reset_index(drop=True)


def _column(axis: Axis, key: np.ndarray) -> Any:
    if not axis.values:
        return key
    if isinstance(axis.values[0], str):
        return pd.array(np.array(axis.values, object)[key], pd.StringDtype(na_value=math.nan))
    return np.array(axis.values)[key]
