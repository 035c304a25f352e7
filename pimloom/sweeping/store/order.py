"""The order of a sweep's rows: that of the axes' values, the last axis fastest."""

import numpy as np
import pandas as pd

from pimloom.sweeping.definition.numbered import places_of
from pimloom.sweeping.definition.sweep import Sweep


def in_order(sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in the order of a grid, numbered from 0; of a continuous axis by value."""
    keys = [
        places_of(axis, frame[axis.column])
        if axis.values
        else pd.to_numeric(frame[axis.column], errors="coerce").to_numpy(np.float64)
        for axis in sweep.axes
    ]
    return frame.iloc[np.lexsort(keys[::-1])].reset_index(drop=True)
