"""NeuPIMs' placement of keys and values, and the PIM commands of one decoder layer's attention over them.

A request's whole cache lies in one channel; a row index is the same row in all its banks (a tile). K: token t is in
bank t mod B, tile t div B, its elements in chunks of a row. V: a row of tokens each, head-dimension element d in bank d
mod B. Heo et al., ASPLOS 2024, 6.3 [secondary]; casys-kaist/NeuPIMs@f299af3, NeuPIMSLogitSoftmax.cc and
NeuPIMSAttend.cc, restated.
"""

from typing import NamedTuple

import numpy as np

from pimloom.arch.pim_stream import ANNOUNCE, COPY, GEMV, MULTIPLY, PIM_STREAM, RESULTS
from pimloom.arch.units import ceil_div

LOGIT_COLUMN, ATTEND_COLUMN = 0, 8  # of row 0 of bank 0: where the simulator pretends that q and the logits lie


class Shape(NamedTuple):
    """Attention of one device, and its banks.

    heads: query heads of this device; kv_heads: heads of its cache; row: elements of a row; banks: of a channel; lanes:
    multipliers of a bank; allotted: elements of K of a token that rows are reserved for.
    """

    heads: int
    kv_heads: int
    head_dim: int
    row: int
    banks: int
    lanes: int
    allotted: int

    @property
    def width(self) -> int:
        """Elements of K of a token on this device."""
        return self.kv_heads * self.head_dim

    @property
    def shared(self) -> int:
        """Query heads that read the same K and V."""
        return self.heads // self.kv_heads

    def rows_k(self, tokens: int) -> int:
        """Rows of a channel for the keys of a request."""
        return ceil_div(self.allotted, self.row) * ceil_div(tokens, self.banks)

    def rows_v(self, tokens: int) -> int:
        """Rows of a channel for the values of a request."""
        return ceil_div(self.allotted, self.banks) * ceil_div(tokens, self.row)


class Cache(NamedTuple):
    """Where a request's cache lies: its channel, and the first row of its keys and of its values there."""

    channel: int
    row_k: int
    row_v: int


def place(shape: Shape, tokens: np.ndarray, channel: np.ndarray, base_row: int) -> list[Cache]:
    """Rows in the order of the requests, K before V, rising from `base_row` in each channel."""
    free: dict[int, int] = {}
    found = []
    for n, c in zip(tokens.tolist(), channel.tolist(), strict=True):
        row_k = free.get(c, base_row)
        row_v = row_k + shape.rows_k(n)
        free[c] = row_v + shape.rows_v(n)
        found.append(Cache(c, row_k, row_v))
    return found


def _tiles(rows: np.ndarray, heads: np.ndarray, comps: np.ndarray, announced: int, fused: bool) -> np.ndarray:
    """Tiles at `rows`, each a header, then for every head in `heads` a dot product of as many multiplications as
    `comps` has for it. rows int64 (tiles,); heads, comps int64 (heads,)."""
    per_head = np.ones_like(comps) if fused else comps + 1
    each = 1 + int(per_head.sum())
    found = np.zeros((len(rows), each), PIM_STREAM)
    found["row"] = rows[:, None]
    found["head"] = -1
    header = found[:, 0]
    header["cmd"], header["comps"], header["results"] = ANNOUNCE, announced, len(heads)
    body = found[:, 1:]
    body["head"] = np.repeat(heads, per_head)
    if fused:
        body["cmd"], body["count"] = GEMV, comps
    else:
        body["cmd"] = MULTIPLY
        body["cmd"][:, per_head.cumsum() - 1] = RESULTS
    body["last"][:, -1] = 1
    return found.reshape(-1)


def _copy(column: int) -> np.ndarray:
    found = np.zeros(1, PIM_STREAM)
    found["cmd"], found["col"], found["head"] = COPY, column, -1
    return found


def logit(
    shape: Shape, tokens: int, row_k: int, *, fused: bool, exact: bool, header_rows: int | None = None
) -> np.ndarray:
    """q x K of all heads of one request.

    exact: headers count multiplications as they are, not rounded down to a power of two. header_rows: rows after which
    those that headers name begin again at 0; None: they are the true ones.
    """
    chunks, tiles = ceil_div(shape.width, shape.row), ceil_div(tokens, shape.banks)
    found = []
    for c in range(chunks):
        held = min(shape.width - c * shape.row, shape.row)
        begin, dim = c * shape.row, shape.head_dim
        first = np.arange(begin // dim, ceil_div(begin + held, dim))  # heads, of which the chunk may cut the ends
        pieces = np.minimum((first + 1) * dim, begin + held) - np.maximum(first * dim, begin)
        comps = -(-pieces // shape.lanes)
        for s in range(shape.shared):
            heads = first * shape.shared + s
            count = int(comps.sum())
            rows = row_k + np.arange(tiles) * chunks + c
            made = _tiles(rows, heads, comps, count if exact else _below(count), fused)
            if header_rows is not None:
                made["row"][made["cmd"] == ANNOUNCE] %= header_rows
            found += [_copy(LOGIT_COLUMN), made]
    return np.concatenate(found, dtype=PIM_STREAM)


def attend(shape: Shape, tokens: int, row_v: int, *, fused: bool, exact: bool, same_rows: bool = False) -> np.ndarray:
    """softmax(l) x V of all heads of one request. exact: as in `logit`, where rounded, up.

    same_rows: all heads visit the rows of the first one.
    """
    chunks, tiles = ceil_div(tokens, shape.row), ceil_div(shape.head_dim, shape.banks)
    one = []  # the first head
    for c in range(chunks):
        comps = ceil_div(min(tokens - c * shape.row, shape.row), shape.lanes)
        rows = row_v + np.arange(tiles) * chunks + c
        announced = comps if exact else _above(comps)
        one += [_copy(ATTEND_COLUMN), _tiles(rows, np.zeros(1, int), np.array([comps]), announced, fused)]
    found = np.tile(np.concatenate(one, dtype=PIM_STREAM), shape.heads)
    head = np.repeat(np.arange(shape.heads), len(found) // shape.heads)
    if not same_rows:
        found["row"] += np.where(found["cmd"] == COPY, 0, head // shape.shared * tiles * chunks)
    found["head"] = np.where(found["head"] < 0, -1, head)
    return found


def _below(n: int) -> int:
    """The largest power of two up to n."""
    return 1 << n.bit_length() - 1


def _above(n: int) -> int:
    """The smallest power of two from n on."""
    return 1 << (n - 1).bit_length()
