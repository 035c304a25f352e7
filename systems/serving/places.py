"""The channel of each request that joins a batch, among the channels that have rows for its cache."""

from collections.abc import Callable
from typing import Any

import numpy as np


def least_load(
    cost: Callable[[Any], Any], load: np.ndarray, tokens: np.ndarray, needed: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Algorithm 2 (`mappers.packing.pack`) among the channels that have rows: int64 channels, -1 where none has.

    load: of the channels, in the unit of `cost`; tokens, needed: contexts of the requests and the rows that they take;
    free: rows of the channels. Changes load and free.
    """
    found = np.full(len(tokens), -1)
    for i in np.argsort(-tokens, kind="stable").tolist():
        fits = free >= needed[i]
        if not fits.any():
            break
        found[i] = c = int(np.where(fits, load, np.inf).argmin())
        load[c] += cost(int(tokens[i]))
        free[c] -= needed[i]
    return found


def in_turn(pointer: int, needed: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, int]:
    """(the next channel that has rows, from `pointer` on, and so on: int64 channels, -1 where none has; the channel
    from which the next search begins). needed: rows that the requests take; free: of the channels, changed."""
    found, first = np.full(len(needed), -1), pointer
    for i in range(len(needed)):
        turn = (pointer + np.arange(len(free))) % len(free)
        fits = turn[free[turn] >= needed[i]]
        if not len(fits):
            return found, first
        found[i] = fits[0]
        free[fits[0]] -= needed[i]
        pointer = (int(fits[0]) + 1) % len(free)
    return found, pointer
