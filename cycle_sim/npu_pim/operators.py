"""A GEMM on the arrays and rows on the vector units as blocks and tasks."""

from typing import NamedTuple

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.program import Builder, Operator


class GemmMoves(NamedTuple):
    """What a GEMM loads and stores, in which order; the defaults move what it needs.

    strip: the store of a tile writes all batch places of as many outputs as there are rows; bias_by_rows: a bias for
    each tile of rows, for which the store of its first outputs waits and no step; weights_first: before the activations
    of the same depth; early: a tile is stored as soon as no step that adds to it is under way.
    """

    strip: bool = False
    bias_by_rows: bool = False
    weights_first: bool = False
    early: bool = False


WHAT_IT_NEEDS = GemmMoves()


def gemm(
    b: Builder,
    op: Operator,
    rows: int, n_in: int, n_out: int, tile: int, element_bytes: int,
    *,
    by_output: bool = False,
    biased: bool = True,
    moves: GemmMoves = WHAT_IT_NEEDS,
) -> None:  # fmt: skip
    """(rows x n_in) x (n_in x n_out) in tiles: bias first; weights once, activations once, stored after the last k.

    Activations stand in the arrays, all outputs of a k follow each other, and the first preloads. by_output: results
    stand, all k of an output follow each other, and nothing is preloaded.
    """
    down, across, batches = ceil_div(n_in, tile), ceil_div(n_out, tile), ceil_div(rows, tile)
    width = [min(tile, n_out - m * tile) for m in range(across)]
    depth = [min(tile, n_in - i * tile) for i in range(down)]
    height = [min(tile, rows - n * tile) for n in range(batches)]
    weights = [[-1] * across for _ in depth]
    activations = [[-1] * down for _ in height]
    biases = ([width[0]] * batches if moves.bias_by_rows else width) if biased else []
    bias = [b.load(op, w * element_bytes) for w in biases]
    by_depth = [(i, m) for i in range(down) for m in range(across)]
    places = sorted(by_depth, key=lambda place: place[1]) if by_output else by_depth
    for n in range(batches):
        for i, m in places if n == 0 else [(i, 0) for i in range(down)]:  # later ones find the weights there
            wanted = [(weights[i], m, depth[i] * width[m]), (activations[n], i, height[n] * depth[i])]
            for found, place, size in wanted if moves.weights_first else reversed(wanted):
                if found[place] < 0:
                    found[place] = b.load(op, size * element_bytes)
    stores = [[-1] * across for _ in height]
    for n, mine in enumerate(stores):
        for m in range(across):
            strip = tile * min(max(rows - tile * m, 0), tile)
            mine[m] = b.store(op, (strip if moves.strip else height[n] * width[m]) * element_bytes)
            if moves.early and biased:
                op.bias[mine[m]] = (bias[n] if m == 0 else -1) if moves.bias_by_rows else bias[m]
    first, last = (k.NOTHING if by_output else k.TILE), down - 1
    steps = [
        (i, m, first if m == 0 else k.NOTHING, weights[i][m], () if moves.bias_by_rows else tuple(bias[m : m + 1]))
        for i, m in places
    ]
    for beside, mine in zip(activations, stores, strict=True):
        if moves.early:
            op.entry.update(enumerate((mine[m] for _, m in places), len(op.tasks)))
        op.tasks += [
            (k.GEMM, loaded, (weight, beside[i], *added), mine[m] if i == last else -1)
            for i, m, loaded, weight, added in steps
        ]


def by_tile(
    b: Builder, op: Operator, rows: int, size: int, operands: int, cycles: int, tile: int, out: int = 0
) -> None:
    """Rows of `size` bytes on vector units: `operands` blocks are loaded and one is stored for each tile of rows.

    A store waits for all loads of the operator. cycles: of a whole tile, on all units; out: bytes of a row that is
    stored, 0: as many.
    """
    heights = [min(tile, rows - at) for at in range(0, rows, tile)]
    needs = [b.load(op, height * size) for _ in range(operands) for height in heights]
    for height in heights:
        b.task(op, cycles, needs, b.store(op, height * (out or size)), wide=True)
