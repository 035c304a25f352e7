"""Causal attention of many new tokens on the systolic arrays: the prompt of a request, or a part of it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.kernels.core import NOTHING, TILE
from pimloom.cycle_sim.npu_pim.program import Builder, Operator


class Chunk(NamedTuple):
    """New tokens of a request, and those before them, whose K and V are in memory."""

    new: int
    before: int


class Rows(NamedTuple):
    """A tile of queries: its rows, and the tokens that the first and the last of its rows see in all, from `first` to
    `last`, exclusive."""

    height: int
    first: int
    last: int


def tiles_of(chunk: Chunk, tile: int, window: int) -> Iterator[Rows]:
    """The new tokens in tiles of rows, in order.

    >>> list(tiles_of(Chunk(300, 50), 128, 0))
    [Rows(height=128, first=0, last=178), Rows(height=128, first=0, last=306), Rows(height=44, first=0, last=350)]
    >>> list(tiles_of(Chunk(10, 50), 8, 16))
    [Rows(height=8, first=35, last=58), Rows(height=2, first=43, last=60)]
    """
    for at in range(0, chunk.new, tile):
        height = min(tile, chunk.new - at)
        last = chunk.before + at + height
        yield Rows(height, max(chunk.before + at - window + 1, 0) if window else 0, last)


def columns_of(rows: Rows, tile: int) -> range:
    """The tiles of tokens that a tile of queries multiplies: whole ones, those on the diagonal included."""
    return range(rows.first // tile, ceil_div(rows.last, tile))


def causal_attention(b: Builder, op: Operator, chunks: Sequence[Chunk], heads: Heads) -> None:
    """softmax(q K^T) V of each chunk and head, a tile of queries after the other; the result of each is stored.

    A tile of queries stands in the arrays while the keys that it sees stream past, tile by tile; then the vector units
    take the softmax of its rows, while the arrays go on with the next tile of queries; then a tile of probabilities
    after the other stands there while the columns of V stream past. K and V are read once for the query heads that
    share them, each tile before the first queries that see it; new ones lie in memory as QKV has stored them.
    """
    ready: list[tuple[int, Rows, list[int]]] = []
    for chunk in chunks:
        for reads in _reads(b, op, chunk, heads):
            for rows, query, keys, values in reads:
                logits = _logits(b, op, rows, query, keys, heads)
                cycles = heads.softmax_cyc(rows.last - rows.first, rows.height)
                ready.append((b.vector_step(op, cycles, logits), rows, values))
                if len(ready) > 1:
                    _values(b, op, *ready.pop(0), heads)
    for softmax, rows, values in ready:
        _values(b, op, softmax, rows, values, heads)


def _reads(
    b: Builder, op: Operator, chunk: Chunk, heads: Heads
) -> Iterator[list[tuple[Rows, int, list[int], list[int]]]]:
    """For each query head its tiles of queries, with the groups of queries, of K and of V that each needs."""
    total = chunk.before + chunk.new
    for _ in range(heads.kv_heads):
        keys, values = dict[int, int](), dict[int, int]()
        for _ in range(heads.shared):
            found = []
            for rows in tiles_of(chunk, heads.tile, heads.window):
                query = b.load(op, rows.height * heads.key_bytes)
                for i in columns_of(rows, heads.tile):
                    if i not in keys:
                        n = min(heads.tile, total - i * heads.tile)
                        keys[i], values[i] = b.load(op, n * heads.key_bytes), b.load(op, n * heads.value_bytes)
                seen = columns_of(rows, heads.tile)
                found.append((rows, query, [keys[i] for i in seen], [values[i] for i in seen]))
            yield found


def _logits(b: Builder, op: Operator, rows: Rows, query: int, keys: list[int], heads: Heads) -> int:
    """Queries stand, keys stream: a step for each tile of keys and of the elements of a head; the last one."""
    last = -1
    for _ in range(ceil_div(heads.key_dim, heads.tile)):
        loaded = TILE
        for i, key in zip(columns_of(rows, heads.tile), keys, strict=True):
            seen = min((i + 1) * heads.tile, rows.last) - i * heads.tile
            last = b.step(op, ceil_div(seen, heads.arrays), (query, key), loaded)
            loaded = NOTHING
    return last


def _values(b: Builder, op: Operator, softmax: int, rows: Rows, values: list[int], heads: Heads) -> None:
    """Probabilities stand, the columns of V stream: a step for each tile of tokens; the last one stores."""
    store = b.store(op, rows.height * heads.value_bytes)
    cycles = ceil_div(heads.value_dim, heads.arrays)
    for i, value in enumerate(values):
        sends = store if i == len(values) - 1 else -1
        b.step(op, cycles, (value,), TILE, store=sends, follows=softmax)
