"""A scratchpad of two halves: one is loaded while the arrays compute from the other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError


class Buffered(NamedTuple):
    """When the load and the computation of each tile start and end [cycles]; int64[tiles]."""

    load_start_cyc: np.ndarray
    load_end_cyc: np.ndarray
    compute_start_cyc: np.ndarray
    compute_end_cyc: np.ndarray


def double_buffered(load_cyc: Sequence[int] | np.ndarray, compute_cyc: Sequence[int] | np.ndarray) -> Buffered:
    """Tiles one after the other through two halves, tile i in half i mod 2, all as early as can be.

    A load waits for the load before it and for the computation of the tile that had its half; a computation waits for
    its load and for the computation before it. What ends in a cycle is free, or there, in that cycle. n equal tiles
    take load + (n - 1) * max(load, compute) + compute. Raises UserError.

    >>> [x.tolist() for x in double_buffered([4, 4, 4], [6, 6, 6])]
    [[0, 4, 10], [4, 8, 14], [4, 10, 16], [10, 16, 22]]
    """
    loads, computes = np.asarray(load_cyc, np.int64), np.asarray(compute_cyc, np.int64)
    if loads.shape != computes.shape or min(loads.min(initial=0), computes.min(initial=0)) < 0:
        raise UserError("double buffer: expected as many loads as computations, none below 0 cycles")
    load_end, compute_end = np.zeros_like(loads), np.zeros_like(loads)
    loaded = freed = computed = 0  # ends: last load, last computation but one, last computation
    for i, (load, compute) in enumerate(zip(loads.tolist(), computes.tolist(), strict=True)):
        loaded = max(loaded, freed) + load
        freed, computed = computed, max(loaded, computed) + compute
        load_end[i], compute_end[i] = loaded, computed
    return Buffered(load_end - loads, load_end, compute_end - computes, compute_end)
