"""Arithmetic and scratchpad traffic of an NPU's operators, counted from their sizes, whatever the simulation's faults.

A byte that arrives is written into a scratchpad and read from it by arrays or vector units; a result is written into it
and read for its store.
"""

from collections.abc import Callable, Sequence

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu.vectors import PLAIN, VectorOp
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.prompt import Chunk, columns_of, tiles_of
from pimloom.energy.npu_pim import Work


def gemm_work(rows: int, n_in: int, n_out: int, tile: int, element_bytes: int, *, biased: bool = True) -> Work:
    """(rows x n_in) x (n_in x n_out) in tiles: weights and bias arrive once and stream from the pad for every tile of
    rows; activations arrive once and are read once; partial sums are read and written in each step of n_in but the
    first, which starts from the bias. biased: whether there is a bias."""
    arrive = n_in * n_out + biased * n_out + rows * n_in
    stream = n_in * n_out * ceil_div(rows, tile) + rows * n_in
    sums = rows * n_out * (2 * ceil_div(n_in, tile) - (not biased))  # read and written
    return Work(rows * n_in * n_out, 0, (arrive + stream + sums + rows * n_out) * element_bytes)


def vector_work(op: VectorOp, rows: int, width: int, operands: int, element_bytes: int, out: int = -1) -> Work:
    """`rows` rows of `width` elements each: `operands` blocks arrive, and one is stored, of `out` elements a row, -1:
    as many."""
    moved = operands * width + (width if out < 0 else out)
    return Work(0, rows * lane_ops(op, width), 2 * rows * moved * element_bytes)


def sum_work(chunks: int, elements: int, element_bytes: int) -> Work:
    """`chunks` partial results of `elements` elements each arrive from PIM; they are added and stored if there are
    several."""
    arrive, stored = chunks * elements, elements if chunks > 1 else 0
    return Work(0, arrive - elements, 2 * (arrive + stored) * element_bytes)


def fused_work(tokens: Sequence[int], of: Heads, softmax: Callable[[int], int]) -> Work:
    """Attention on the arrays: K and V arrive once and stream for every head; q arrives, is read, and the result is
    stored; logits and probabilities are each written and read. softmax: operations of lanes on so many logits."""
    heads, context, both = of.kv_heads * of.shared, sum(tokens), of.key_dim + of.value_dim
    arrive = of.key_dim if of.values_in_keys else both
    cached = context * of.kv_heads * (arrive + both * of.shared)
    vectors = 2 * len(tokens) * heads * both
    ops = heads * sum(softmax(n) for n in tokens)
    return Work(context * heads * both, ops, (cached + vectors + 4 * context * heads) * of.element_bytes)


def prompt_work(chunks: Sequence[Chunk], heads: Heads, softmax: Callable[[int], int]) -> Work:
    """Causal attention in tiles of queries: K and V arrive once and stream for every tile of queries of every head;
    whole tiles are multiplied, those on the diagonal included; logits and probabilities are each written and read."""
    queries, products, streamed, cached, ops = 0, 0, 0, 0, 0
    for chunk in chunks:
        total, queries = chunk.before + chunk.new, queries + chunk.new
        every = tiles_of(chunk, heads.tile, heads.window)
        tiles = [(rows, columns_of(rows, heads.tile).start * heads.tile) for rows in every]
        cached += total - min(first for _, first in tiles)
        for rows, first in tiles:
            streamed += rows.last - first
            products += rows.height * (rows.last - first)
            ops += rows.height * softmax(rows.last - rows.first)
    n, both = heads.kv_heads * heads.shared, heads.key_dim + heads.value_dim
    elements = both * (heads.kv_heads * cached + n * streamed) + n * (2 * queries * both + 4 * products)
    return Work(n * products * both, n * ops, elements * heads.element_bytes)


def lane_ops(op: VectorOp, width: int) -> int:
    """Operations of vector lanes on a row, by the passes of its latency: norm 5 of them, softmax 3, both with two adder
    trees, norm with three scalar operations; RMSNorm 3, one tree and two scalar ones; all others passes alone."""
    tree = width - 1
    several = {"norm": 5 * width + 2 * tree + 3, "rmsnorm": 3 * width + tree + 2, "softmax": 3 * width + 2 * tree}
    return several[op] if op in several else PLAIN[op] * width
