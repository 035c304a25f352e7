"""Attention of an NPU without PIM: keys and values are read, and the systolic arrays multiply them with vectors."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.kernels.core import VECTOR
from pimloom.cycle_sim.npu_pim.program import Builder, Operator


class Reads(NamedTuple):
    """A query head whose data are on their way: tokens, and the groups of q, of K and of the tiles of V."""

    tokens: int
    query: int
    keys: int
    values: tuple[int, ...]


def fused_mha(b: Builder, op: Operator, tokens: Sequence[int], heads: Heads) -> None:
    """One token of each request, with contexts of `tokens`: q x K, softmax, p x V, and the result is stored.

    A logit step streams all keys past a query; p x V takes a step for each tile of tokens, which loads a part of p. The
    reads of all requests are sent at the start, and the logits of a request go before the values of the one before it,
    head by head.
    """
    requests = [list(_reads(b, op, n, heads)) for n in tokens]
    before: list[tuple[Reads, int]] = []
    for request in (*requests, []):
        now = []
        for reads, ready in zip_longest(request, before):
            if reads:
                now.append((reads, logit_steps(b, op, reads, heads, ceil_div(reads.tokens, heads.arrays))))
            if ready:
                store = b.store(op, heads.value_bytes)
                attend_steps(b, op, ready[0], heads, ceil_div(ready[0].tokens, heads.tile), ready[1], store)
        before = now


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


def logit_steps(
    b: Builder, op: Operator, reads: Reads, heads: Heads, cycles: int, loaded: int = VECTOR, follows: int = -1
) -> int:
    """Keys stream past a query for `cycles`, for each tile of its elements; the place of the last step. loaded: into
    the arrays first; follows: the step behind which the first one goes."""
    for _ in range(ceil_div(heads.key_dim, heads.tile)):
        follows = b.step(op, cycles, (reads.keys, reads.query), loaded, follows=follows)
    return follows


def attend_steps(b: Builder, op: Operator, reads: Reads, heads: Heads, steps: int, logits: int, store: int) -> int:
    """Steps of p x V behind the softmax of `logits`, each with the next of the values; the place of the last one, which
    sends `store`."""
    cycles, pause = ceil_div(heads.value_dim, heads.arrays), heads.softmax_cyc(reads.tokens, 1)
    last = logits
    for i in range(steps):
        needs = reads.values[i : i + 1]
        sends = store if i == steps - 1 else -1
        last = b.step(op, cycles, needs, VECTOR, store=sends, follows=logits, pause=pause)
    return last
