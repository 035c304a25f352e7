"""Which channel serves a request, and in which sub-batch: NeuPIMs' algorithms 1 to 3.

Heo et al., ASPLOS 2024, algorithms 1-3; casys-kaist/NeuPIMs@f299af3, Scheduler.cc and get_distributions.py, restated.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.mappers.kv import Shape

GWRITE_CK, TILE_CK = 100, 184  # L_gw and L_tile as published


def estimate_ck(shape: Shape, tokens: int, gwrite_ck: float = GWRITE_CK, tile_ck: float = TILE_CK) -> float:
    """Algorithm 1: time of one request's attention in its channel [CK], with ceilings where the paper prints none."""
    logit = ceil_div(shape.width, shape.row) * shape.shared * (gwrite_ck + ceil_div(tokens, shape.banks) * tile_ck)
    tiles = ceil_div(shape.head_dim, shape.banks)
    return logit + ceil_div(tokens, shape.row) * shape.heads * (gwrite_ck + tiles * tile_ck)


def pack(cost: Callable[[int], float], tokens: Sequence[int], channels: int, load: Sequence[float] = ()) -> np.ndarray:
    """Algorithm 2: the longest request first, each to the channel of least load; returns the channel of each.

    load: of the requests that are in the channels already, in the unit of `cost`.
    """
    loads = np.array(load if len(load) else np.zeros(channels), float)
    found = np.zeros(len(tokens), np.int64)
    for i in sorted(range(len(tokens)), key=lambda i: -tokens[i]):
        found[i] = np.argmin(loads)
        loads[found[i]] += cost(tokens[i])
    return found


def round_robin(tokens: Sequence[int], channels: int) -> np.ndarray:
    """Request i to channel i mod `channels`."""
    return np.arange(len(tokens)) % channels


def halve(channel: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 3 as released: the first half of each channel's requests in list order, and the second.

    Where the number is odd, the halves take the one in the middle in turn.
    """
    first: list[int] = []
    second: list[int] = []
    up = True
    for c in range(channels):
        mine = np.flatnonzero(channel == c).tolist()
        k = len(mine) // 2
        if len(mine) % 2:
            k, up = k + up, not up
        first += mine[:k]
        second += mine[k:]
    return np.array(first, np.int64), np.array(second, np.int64)
