"""GEMMs of random numbers: their tiles, when each starts, and their float32 sums in the order of the array."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl.flow.scenes.values import BF16, small_operands
from pimloom.rtl.npu.shape import ArrayShape

Progress = Callable[[int, int], None]


class Job(NamedTuple):
    """a x b on an array; bfloat16[m, k] and bfloat16[k, n]. overlapped: see `cycle_sim/npu/arrays.py`."""

    a: np.ndarray
    b: np.ndarray
    overlapped: bool

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows, inner length and columns of the product: m, k, n."""
        return *self.a.shape, self.b.shape[1]


class Tile(NamedTuple):
    """What an array holds at once. start: the clock of its first operands, but for preloaded weights; from 0, the
    job's first."""

    start: int
    row: int
    rows: int
    column: int
    columns: int


def draw_jobs(shape: ArrayShape, rng: np.random.Generator, results: int) -> Iterator[Job]:
    """GEMMs with at least so many results in all: of whole tiles, with partial ones, of one row; every second one
    overlapped."""
    left, drawn = results, 0
    while left > 0:
        m, k, n = (int(rng.integers(1, 3 * size + 2)) for size in (shape.rows, shape.rows, shape.columns))
        if drawn % 4 == 3:
            m, k, n = 2 * shape.rows, shape.rows * int(rng.integers(1, 4)), shape.columns * int(rng.integers(1, 4))
        if drawn % 8 == 5:
            m, k = (1, k) if shape.dataflow == "ws" else (m, 1)
        yield Job(small_operands(rng, m, k), small_operands(rng, k, n), drawn // 2 % 2 == 1)
        left, drawn = left - m * n, drawn + 1


class Sized(Protocol):
    """A job, or what tells its size."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows, inner length and columns of the product: m, k, n."""

    @property
    def overlapped(self) -> bool:
        """Whether tiles overlap in time, as `tiles` says."""


def tiles(shape: ArrayShape, job: Sized) -> list[Tile]:
    """Columns of tiles outermost. Not overlapped, a tile begins when the last result of the one before has left;
    overlapped, as `cycle_sim/npu/arrays.py` says."""
    m, k, n = job.size
    stationary = shape.dataflow == "ws"
    along, streamed = (k, m) if stationary else (m, k)
    found: list[Tile] = []
    for column in range(0, n, shape.columns):
        for row in range(0, along, shape.rows):
            rows, columns = min(shape.rows, along - row), min(shape.columns, n - column)
            start = rows if stationary else 0
            if found and job.overlapped:
                start = found[-1].start + max(streamed, rows if stationary else found[-1].rows)
            elif found:
                start += last_leaves(shape, found[-1], streamed) + 1
            found.append(Tile(start, row, rows, column, columns))
    return found


def last_leaves(shape: ArrayShape, tile: Tile, streamed: int) -> int:
    """The clock in which the last result of a tile leaves."""
    down = shape.rows - 1 if shape.dataflow == "ws" else tile.rows - 1 + shape.rows
    return tile.start + streamed - 1 + down + tile.columns - 1


def sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float32[m, n] of a x b: +0, then one product after the other added, each rounded once; k in order."""
    wide, weights = (asic.settle(x.astype(np.float32)) for x in (a, b))
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = asic.add(total, asic.mul(wide[:, k, None], weights[k]))
    return total


def product(shape: ArrayShape, job: Job) -> np.ndarray:
    """float32[m, n] as the array makes it: ws: the sums of each `rows` of k, added one after the other in the
    accumulator, which takes the first as it is; os: the sum over all k."""
    if shape.dataflow == "os":
        return sums(job.a, job.b)
    cuts = range(0, job.a.shape[1], shape.rows)
    parts = [sums(job.a[:, k : k + shape.rows], job.b[k : k + shape.rows]) for k in cuts]
    total = parts[0]
    for part in parts[1:]:
        total = asic.add(total, part)
    return total


def bits(x: np.ndarray) -> np.ndarray:
    """The bits of each bfloat16 of an array, uint16 of the same shape."""
    return np.ascontiguousarray(x, BF16).view(np.uint16)
