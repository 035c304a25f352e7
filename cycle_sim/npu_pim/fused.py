"""Attention of an NPU without PIM: keys and values are read, and the systolic arrays multiply them with vectors."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.kernels.core import NOTHING, VECTOR
from pimloom.cycle_sim.npu_pim.program import Builder, Operator


class Reads(NamedTuple):
    """A query head whose data are on their way: tokens, and the groups of q, of K and of the tiles of V."""

    tokens: int
    query: int
    keys: int
    values: tuple[int, ...]


def fused_mha(b: Builder, op: Operator, tokens: Sequence[int], heads: Heads, *, serial: bool) -> None:
    """One token of each request, with contexts of `tokens`: q x K, softmax, p x V, and the result is stored.

    A logit step streams all keys past a query; p x V takes a step for each tile of tokens, which loads a part of p. The
    reads of all requests are sent at the start, and the logits of a request go before the values of the one before it,
    head by head. serial: see `_one_by_one`.
    """
    if serial:
        _one_by_one(b, op, tokens, heads)
        return
    requests = [list(_reads(b, op, n, heads)) for n in tokens]
    before: list[tuple[Reads, int]] = []
    for request in (*requests, []):
        now = []
        for reads, ready in zip_longest(request, before):
            if reads:
                now.append((reads, _logit(b, op, reads, heads, VECTOR, -1)))
            if ready:
                store = b.store(op, heads.value_bytes)
                _attend(b, op, ready[0], heads, ceil_div(ready[0].tokens, heads.tile), ready[1], store)
        before = now


def _one_by_one(b: Builder, op: Operator, tokens: Sequence[int], heads: Heads) -> None:
    """One request and head at a time, as NeuPIMs' simulator has it: logits without a load of their query, in whole rows
    that each array takes, and one step more for V where the tiles do not end with one token. V is read as a whole, and
    nothing of a request before the result of the second before it is stored, whose half of the pads it takes."""
    last, made = -1, list[list[int]]()
    for i, n in enumerate(tokens):
        gate, stores = made[i - 2][-1] if i > 1 else -1, list[int]()
        for reads in list(_whole_reads(b, op, n, heads, gate)):
            logits = _logit(b, op, reads, heads, NOTHING, last, whole=True)
            stores.append(b.store(op, heads.value_bytes))
            steps = ceil_div(n + heads.tile - 1, heads.tile)
            last = _attend(b, op, reads._replace(values=reads.values * steps), heads, steps, logits, stores[-1])
        made.append(stores)


def _whole_reads(b: Builder, op: Operator, tokens: int, heads: Heads, gate: int) -> Iterator[Reads]:
    for _ in range(heads.kv_heads):
        query = b.load(op, heads.key_bytes, gate)
        keys, values = b.load(op, tokens * heads.key_bytes), b.load(op, tokens * heads.value_bytes)
        yield Reads(tokens, query, keys, (values,))
        for _ in range(heads.shared - 1):
            yield Reads(tokens, b.load(op, heads.key_bytes), keys, (values,))


def _reads(b: Builder, op: Operator, tokens: int, heads: Heads) -> Iterator[Reads]:
    """The query heads of a request, each with its reads; those that share K and V read them once, values that are
    parts of keys with these."""
    for _ in range(heads.kv_heads):
        keys = b.load(op, tokens * heads.key_bytes)
        tiles = [min(heads.tile, tokens - at) for at in range(0, tokens, heads.tile)]
        values = (keys,) * len(tiles)
        if not heads.values_in_keys:
            values = tuple(b.load(op, tile * heads.value_bytes) for tile in tiles)
        for _ in range(heads.shared):
            yield Reads(tokens, b.load(op, heads.key_bytes), keys, values)


def _logit(b: Builder, op: Operator, reads: Reads, heads: Heads, loaded: int, follows: int, whole: bool = False) -> int:
    cycles = max(reads.tokens // heads.arrays, 1) if whole else ceil_div(reads.tokens, heads.arrays)
    for _ in range(ceil_div(heads.key_dim, heads.tile)):
        follows = b.step(op, cycles, (reads.keys, reads.query), loaded, follows=follows)
    return follows


def _attend(b: Builder, op: Operator, reads: Reads, heads: Heads, steps: int, logits: int, store: int) -> int:
    cycles, pause = ceil_div(heads.value_dim, heads.arrays), heads.softmax_cyc(reads.tokens, 1)
    last = logits
    for i in range(steps):
        needs = reads.values[i : i + 1]
        sends = store if i == steps - 1 else -1
        last = b.step(op, cycles, needs, VECTOR, store=sends, follows=logits, pause=pause)
    return last
