"""Attention of an NPU without PIM: keys and values are read, and the systolic arrays multiply them with vectors."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.kernels.core import NOTHING, VECTOR
from pimloom.cycle_sim.npu_pim.program import Builder, Operator


class Heads(NamedTuple):
    """Attention of one device on its arrays.

    kv_heads, shared, head_dim: heads of keys, query heads that read the same one, elements of a head; tile: rows of an
    array; arrays: that share the rows which stream through; softmax_cyc: of so many logits [NPU cycles].
    """

    kv_heads: int
    shared: int
    head_dim: int
    tile: int
    arrays: int
    element_bytes: int
    softmax_cyc: Callable[[int], int]


class Reads(NamedTuple):
    """A query head whose data are on their way: tokens, and the groups of q, of K and of the tiles of V."""

    tokens: int
    query: int
    keys: int
    values: tuple[int, ...]


def fused_mha(b: Builder, op: Operator, tokens: Sequence[int], heads: Heads, *, serial: bool) -> None:
    """One token of each request, with contexts of `tokens`: q x K, softmax, p x V, and the result is stored.

    A logit step streams all keys past a query; p x V takes a step for each tile of tokens, which loads a part of p. The
    reads of all requests are sent at the start. serial: one request and head at a time, logits without a load of their
    query and with one step more for V where the tiles do not end with one token, as NeuPIMs' simulator has it; else the
    logits of a request go before the values of the one before it, head by head.
    """
    requests = [list(_reads(b, op, n, heads)) for n in tokens]
    if serial:
        last = -1
        for reads in chain(*requests):
            logits = _logit(b, op, reads, heads, NOTHING, last)
            last = _attend(b, op, reads, heads, ceil_div(reads.tokens + heads.tile - 1, heads.tile), logits)
        return
    before: list[tuple[Reads, int]] = []
    for request in (*requests, []):
        now = []
        for reads, ready in zip_longest(request, before):
            if reads:
                now.append((reads, _logit(b, op, reads, heads, VECTOR, -1)))
            if ready:
                _attend(b, op, ready[0], heads, ceil_div(ready[0].tokens, heads.tile), ready[1])
        before = now


def _reads(b: Builder, op: Operator, tokens: int, heads: Heads) -> Iterator[Reads]:
    """The query heads of a request, each with its reads; those that share K and V read them once."""
    width = heads.head_dim * heads.element_bytes
    for _ in range(heads.kv_heads):
        keys = b.load(op, tokens * width)
        tiles = [min(heads.tile, tokens - at) for at in range(0, tokens, heads.tile)]
        values = tuple(b.load(op, tile * width) for tile in tiles)
        for _ in range(heads.shared):
            yield Reads(tokens, b.load(op, width), keys, values)


def _logit(b: Builder, op: Operator, reads: Reads, heads: Heads, loaded: int, follows: int) -> int:
    cycles = ceil_div(reads.tokens, heads.arrays)
    for _ in range(ceil_div(heads.head_dim, heads.tile)):
        follows = b.step(op, cycles, (reads.keys, reads.query), loaded, follows=follows)
    return follows


def _attend(b: Builder, op: Operator, reads: Reads, heads: Heads, steps: int, logits: int) -> int:
    cycles, pause = ceil_div(heads.head_dim, heads.arrays), heads.softmax_cyc(reads.tokens)
    store = b.store(op, heads.head_dim * heads.element_bytes)
    last = logits
    for i in range(steps):
        needs = reads.values[i : i + 1]
        sends = store if i == steps - 1 else -1
        last = b.step(op, cycles, needs, VECTOR, store=sends, follows=logits, pause=pause)
    return last
