"""Rows of a command stream as the bits on a port."""

import numpy as np
from amaranth.lib.data import StructLayout


def pack(layout: StructLayout, rows: np.ndarray) -> np.ndarray:
    """Fields of `rows` named as the layout's, int64[n]; nested layouts read from the same rows."""
    packed = np.zeros(len(rows), np.int64)
    for name, field in layout:
        inner = field.shape
        value = pack(inner, rows) if isinstance(inner, StructLayout) else rows[name].astype(np.int64)
        packed |= (value & ((1 << field.width) - 1)) << field.offset
    return packed
