"""A systolic array of R x C processing elements: exact cycles of a GEMM, in closed form.

(M x K) x (K x N) is cut into tiles, columns of tiles outermost; a tile takes `rows` <= R rows from the top and
`columns` <= C columns from the left of the array. In a cycle every element takes what its neighbours held at the end of
the cycle before, multiplies, adds, and holds the results at the cycle's end. What an edge of the array is given in
cycle t is used there in cycle t; what leaves in cycle t is outside at its end. Cycles count from 0: a GEMM whose last
result leaves in cycle t takes t + 1.

Weight stationary, "ws": rows are k, columns n, all M rows of activations stream. Weights enter at the top, the lowest
row first, a row a cycle, column j by j cycles later. Activation (m, row i) enters on the left in cycle s + m + i if the
tile starts in s; sums go down, also through rows without weights, and leave at the bottom. Sums of different k are
added outside, in an accumulator.

Output stationary, "os": rows are m, columns n, all K products stream. Activation (row i, k) enters on the left in
cycle s + k + i, weight (k, column j) at the top in s + k + j. When the last row of the tile has its result in a column,
the column's results go down, a row a cycle, and leave at the bottom.

Not overlapped: a tile begins when the last result of the tile before has left. Overlapped: an element has a second
register, for the next weight (ws) or for the result on its way out (os), and a tile begins as soon as nothing in the
array is overwritten that is still needed. The next tile's weights go down behind the wave of the tile before, each as
far as its row.

[derived] from these sentences; NeuPIMs' simulator has rules of its own, see docs/npu_pim.md.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.units import ceil_div

Dataflow = Literal["ws", "os"]


@dataclass(frozen=True)
class Systolic:
    """An array of `rows` x `columns` processing elements. Raises UserError if it has none."""

    rows: int
    columns: int
    dataflow: Dataflow
    overlapped: bool = False

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1:
            raise UserError(f"array: expected at least one row and one column, got {self.rows} x {self.columns}")
        if self.dataflow not in ("ws", "os"):
            raise UserError(f"dataflow: expected one of ws, os, got {self.dataflow}")


class Phases(NamedTuple):
    """Cycles of one tile by itself, one phase after the other."""

    preload_cyc: int
    fill_cyc: int
    stream_cyc: int
    drain_cyc: int

    @property
    def total_cyc(self) -> int:
        """All phases."""
        return sum(self)


class Gemm(NamedTuple):
    """A GEMM on an array.

    folds: tiles; utilisation: MACs / (cycles * rows * columns); reads and writes: elements that enter and leave the
    array by its edges. sum_reads: partial sums that the accumulator reads again to add to them.
    """

    total_cyc: int
    folds: int
    macs: int
    utilisation: float
    activation_reads: int
    weight_reads: int
    sum_reads: int
    output_writes: int


def phases(array: Systolic, rows: int, columns: int, streamed: int) -> Phases:
    """One tile of `rows` x `columns` through which `streamed` rows (ws) or products (os) pass.

    ws: `rows` cycles of weights; until the first result leaves the first column; results; until the last column's.
    os: until the last element has its first product; products; until the last result has left.

    >>> phases(Systolic(128, 128, "ws"), 128, 128, 512)
    Phases(preload_cyc=128, fill_cyc=127, stream_cyc=512, drain_cyc=127)
    >>> phases(Systolic(128, 128, "os"), 128, 128, 512)
    Phases(preload_cyc=0, fill_cyc=254, stream_cyc=512, drain_cyc=128)
    """
    _check("tile", rows, columns, streamed)
    if rows > array.rows or columns > array.columns:
        raise UserError(f"tile: expected at most {array.rows} x {array.columns}, got {rows} x {columns}")
    if array.dataflow == "ws":
        return Phases(rows, array.rows - 1, streamed, columns - 1)
    return Phases(0, rows + columns - 2, streamed, array.rows)


def gemm(array: Systolic, m: int, k: int, n: int) -> Gemm:
    """(m x k) x (k x n) on `array`, from the first element in to the last result out. Raises UserError.

    A tile takes rows + streamed + R + columns - 2 cycles in both dataflows. Overlapped, the next begins
    max(streamed, its rows) later with ws, max(streamed, rows of the one before) with os.

    >>> gemm(Systolic(128, 128, "ws"), 512, 1024, 3072).total_cyc
    171648
    >>> gemm(Systolic(128, 128, "ws", overlapped=True), 512, 1024, 3072).total_cyc
    98686
    """
    _check("GEMM", m, k, n)
    stationary = array.dataflow == "ws"
    along, streamed = (k, m) if stationary else (m, k)
    down, across = ceil_div(along, array.rows), ceil_div(n, array.columns)
    total = _overlapped(array, along, n, streamed) if array.overlapped else _one_by_one(array, along, n, streamed)
    macs = m * k * n
    return Gemm(
        total_cyc=total,
        folds=down * across,
        macs=macs,
        utilisation=macs / (total * array.rows * array.columns),
        activation_reads=m * k * across,
        weight_reads=k * n if stationary else k * n * down,
        sum_reads=m * n * (down - 1) if stationary else 0,
        output_writes=m * n * down if stationary else m * n,
    )


def _one_by_one(array: Systolic, along: int, n: int, streamed: int) -> int:
    """The sum over all tiles."""
    down, across = ceil_div(along, array.rows), ceil_div(n, array.columns)
    return down * across * (streamed + array.rows - 2) + along * across + n * down


def _overlapped(array: Systolic, along: int, n: int, streamed: int) -> int:
    """To the end of the last tile, or of the last in the wider column of tiles before it, which may end later."""
    down, across = ceil_div(along, array.rows), ceil_div(n, array.columns)
    last_rows, last_columns = along - (down - 1) * array.rows, n - (across - 1) * array.columns
    column = (down - 1) * max(streamed, array.rows) + max(streamed, last_rows)  # of tiles
    exposed = min(along, array.rows) if array.dataflow == "ws" else last_rows  # first preload; last drain
    begins = exposed + across * column - max(streamed, exposed)
    widest = max(last_columns, array.columns - column) if across > 1 else last_columns
    return begins + streamed + array.rows + widest - 2


def _check(what: str, *sizes: int) -> None:
    if min(sizes) < 1:
        raise UserError(f"{what}: expected sizes of at least 1, got {' x '.join(map(str, sizes))}")
