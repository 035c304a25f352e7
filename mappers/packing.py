"""Which channel serves a request, and in which sub-batch: NeuPIMs' algorithms 1 to 3.

Heo et al., ASPLOS 2024, algorithms 1-3; casys-kaist/NeuPIMs@f299af3, Scheduler.cc and get_distributions.py, restated.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.mappers.kv import Shape


class Constants(NamedTuple):
    """What Algorithm 1 knows of a channel [CK]: a GWRITE (L_gw), and a tile (L_tile) of logit and of attend."""

    gwrite_ck: float
    logit_tile_ck: float
    attend_tile_ck: float


PUBLISHED = Constants(100, 184, 184)  # L_gw 100, L_tile 184: casys-kaist/NeuPIMs@f299af3, Scheduler.cc


def estimate_ck(shape: Shape, tokens: int, constants: Constants = PUBLISHED) -> float:
    """Algorithm 1: time of one request's attention in its channel [CK], with ceilings where the paper prints none."""
    gwrite_ck, logit_tile_ck, attend_tile_ck = constants
    groups = ceil_div(shape.width, shape.row) * shape.shared
    logit = groups * (gwrite_ck + ceil_div(tokens, shape.banks) * logit_tile_ck)
    tiles = ceil_div(shape.head_dim, shape.banks)
    return logit + ceil_div(tokens, shape.row) * shape.heads * (gwrite_ck + tiles * attend_tile_ck)


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


def split(channel: np.ndarray, channels: int, parts: int) -> list[np.ndarray]:
    """Algorithm 3 for any number of sub-batches: the first part of each channel's requests in list order, the second, …

    What a channel has beyond a multiple of `parts`, the sub-batches take in turn, one each, over all channels.
    """
    found: list[list[int]] = [[] for _ in range(parts)]
    turn = 0
    for c in range(channels):
        mine = np.flatnonzero(channel == c).tolist()
        each, more = divmod(len(mine), parts)
        lucky = {(turn + i) % parts for i in range(more)}
        turn = (turn + more) % parts
        at = 0
        for s in range(parts):
            n = each + (s in lucky)
            found[s] += mine[at : at + n]
            at += n
    return [np.array(part, np.int64) for part in found]
