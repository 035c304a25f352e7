"""How long the array and the vector unit of the machine take for a step, in closed form."""

from pimloom.rtl.flow.npu.gemm import tiles
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.vector import Op, VectorUnit
from pimloom.rtl.system.plan import MOVE


class Product:
    """A GEMM of m rows, k and n in elements; tiles overlap."""

    overlapped = True

    def __init__(self, m: int, k: int, n: int) -> None:
        self.size = m, k, n


def gemm_clocks(shape: ArrayShape, m: int, k: int, n: int) -> int:
    """Clocks from the one in which a GEMM step leaves to the one that stores its last result.

    The job is there, and the first operand, in the clock after. A tile is loaded a place a clock into one of two
    halves, which is free again when its last operand has entered the last row and column. A tile enters in the clock
    after its last operand came, not before two clocks after the job did nor while it would be in the way of the one
    before; the first of a column of tiles not before two clocks after the last but one was taken from the accumulator.
    The accumulator's half is full rows + columns + 1 clocks after the last operand of its last tile entered.
    """
    loaded, frees, full, taken = 0, list[int](), list[int](), list[int]()
    begins = 3
    all_tiles = tiles(shape, Product(m, k, n))
    for f, tile in enumerate(all_tiles):
        first = loaded + 1 if f < 2 else max(loaded + 1, frees[f - 2] + 1)
        loaded = first + max(m, tile.rows) - 1
        enters = max(begins, loaded + 1)
        if tile.row == 0 and len(taken) > 1:
            enters = max(enters, taken[-2] + 2)
        start = enters + tile.rows
        last = start + m - 1
        frees.append(last + max(shape.rows, shape.columns))
        following = all_tiles[f + 1].rows if f + 1 < len(all_tiles) else 0
        begins = start + max(m - following, 0)
        if tile.row + tile.rows == k:
            full.append(last + shape.rows + shape.columns + 1)
            taken.append(max(full[-1], taken[-1] + 1 if taken else 0) + m - 1)
    return taken[-1]


def vector_clocks(unit: VectorUnit, op: int, n: int) -> int:
    """Clocks from the one in which a vector step leaves to the one that stores its last element."""
    if op == MOVE:
        return n
    inner = unit.units[Op(op)]
    latency = inner.latency(n) if callable(inner.latency) else inner.latency + n - 1
    return 1 + latency
