"""Disjoint pieces along a line, best in all: the dynamic programme behind templates and rows of `spares.py`."""

from collections.abc import Sequence

import numpy as np


def cover(gains: Sequence[np.ndarray], jumps: Sequence[int], prices: np.ndarray) -> np.ndarray:
    """Which pieces to take where, so that the sum of gain + price over all that are taken is largest.

    gains[k]: float (H, B), what a piece of length jumps[k] that starts at place h gains, for B problems at once, -inf
    where there is none. prices: float (Q,), added to every piece: the higher, the more are taken. Returns int8
    (H, B, Q): the length of the piece to take at h if none before reaches over h, 0 for none.
    """
    height, batch = gains[0].shape
    priced = [(gain[:, :, None] + prices).astype(np.float32) for gain in gains]
    best = np.zeros((height + max(jumps) + 1, batch, len(prices)), np.float32)
    parts = [np.empty(best.shape[1:], np.float32) for _ in gains]
    for h in range(height - 1, -1, -1):
        here = best[h]
        here[:] = best[h + 1]
        for gain, jump, part in zip(priced, jumps, parts, strict=True):
            np.add(best[h + jump], gain[h], out=part)
            np.maximum(here, part, out=here)
    chosen = np.zeros((height, batch, len(prices)), np.int8)
    skip = best[1 : height + 1]
    for gain, jump in zip(priced, jumps, strict=True):
        value = best[jump : jump + height] + gain
        chosen[(value > skip) & (value == best[:height]) & (chosen == 0)] = jump
    return chosen


def follow(chosen: np.ndarray) -> np.ndarray:
    """Where the pieces of a cover start: int64 (steps, B, Q), the number of places where there are no more."""
    height = len(chosen)
    places = np.arange(height, dtype=np.int32)[:, None, None]
    nearest = np.minimum.accumulate(np.where(chosen > 0, places, np.int32(height))[::-1])[::-1]
    nearest = np.concatenate([nearest, np.full((1, *chosen.shape[1:]), height, np.int32)])
    length = np.concatenate([chosen, np.zeros((1, *chosen.shape[1:]), np.int8)])
    b, q = np.indices(chosen.shape[1:])
    at = nearest[0].astype(np.int64)
    steps = []
    while (at < height).any():
        steps.append(at)
        at = nearest[np.minimum(at + length[at, b, q], height), b, q].astype(np.int64)
    return np.array(steps, np.int64).reshape(-1, *chosen.shape[1:])
