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
    part = np.empty(best.shape[1:], np.float32)
    for h in range(height - 1, -1, -1):
        here, known = best[h], best[h + 1]
        for gain, jump in zip(priced, jumps, strict=True):
            np.add(best[h + jump], gain[h], out=part)
            np.maximum(known, part, out=here)
            known = here
    chosen = np.zeros((height, batch, len(prices)), np.int8)
    skip = best[1 : height + 1]
    for gain, jump in zip(priced, jumps, strict=True):
        value = best[jump : jump + height] + gain
        chosen[(value > skip) & (value == best[:height]) & (chosen == 0)] = jump
    return chosen


def follow(chosen: np.ndarray) -> np.ndarray:
    """Where the pieces of a cover start: int32 (steps, B, Q), the number of places where there are no more."""
    height, problems = len(chosen), chosen[0].size
    flat = chosen.reshape(height, problems)
    places = np.arange(height, dtype=np.int32)[:, None]
    nearest = np.full((height + 1, problems), height, np.int32)
    np.minimum.accumulate(np.where(flat > 0, places, np.int32(height))[::-1], out=nearest[height - 1 :: -1])
    after = np.minimum(places + flat, np.int32(height))  # of the piece that starts here
    after = np.concatenate([after, np.full((1, problems), height, np.int32)])
    lanes = np.arange(problems)
    at, steps = nearest[0], []
    while (at < height).any():
        steps.append(at)
        at = nearest.take(after.take(at * problems + lanes) * problems + lanes)
    return np.array(steps, np.int32).reshape(-1, *chosen.shape[1:])
