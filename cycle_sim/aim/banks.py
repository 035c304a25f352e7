"""Data of AiM's channels: what each command does to banks, global buffers and accumulators, in bfloat16.

Which operand a command takes [secondary AIM, CENT]: MAC16 multiplies a column with the entry of the global buffer of
the same number, or that of an even bank with its neighbour's; EWMUL16 multiplies the first two banks of a group into
the third; an accumulator has 16 bits. What they leave open is ours [design]: the arithmetic is that of `pim_math`;
where banks have several accumulators, WRMAC16s that follow one another set the first, the second, …, and then MACs,
functions and reads take those in turn; a read leaves them as they are. Function 0 is the sigmoid, from a table of 512
pieces on [-10, 10] [secondary CENT], between whose points it goes straight.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from pimloom.cycle_sim.asic_math import Array, mul, to_bf16
from pimloom.cycle_sim.pim_math import LANES, Accumulator, mac_columns

BF16 = ml_dtypes.bfloat16
GROUP, RIGHT, PRODUCT = 4, 1, 2  # banks of a group; which of them EWMUL16 takes beside the first, and writes
SET, TAKEN, ANSWERED, FUNCTIONS = range(4)  # how many accumulators of a channel are set, and the next in turn
EDGE, PIECES = 10.0, 512  # [secondary CENT] of the table of the sigmoid
Channels: TypeAlias = Any  # what indexes channels: a list, an array


def sigmoid(x: ArrayLike) -> Array:
    """float32[...] from the table: error at most 2e-5 within its edges, 5e-5 beyond."""
    points = np.linspace(-EDGE, EDGE, PIECES + 1)
    table = (1 / (1 + np.exp(-points))).astype(np.float32)
    return np.interp(np.asarray(x, np.float32), points, table).astype(np.float32)


class AimBanks:
    """Channels of `banks` banks with rows of `columns` columns. A row exists from its first use on, zeros.

    accumulators: of each bank; accumulator: their width. functions: by number of AF, float32 to float32.
    """

    def __init__(
        self, channels: int, banks: int, columns: int, accumulators: int = 1, accumulator: Accumulator = "bf16"
    ) -> None:
        self.shape, self.width = (channels, banks, columns, LANES), accumulator
        self.buffer = np.zeros((channels, columns, LANES), BF16)
        self.functions: dict[int, Callable[[Array], Array]] = {0: sigmoid}
        self._rows: dict[int, Array] = {}
        self._sums = np.zeros((channels, accumulators, banks), np.float32)
        self._made = np.zeros((channels, banks), BF16)
        self._turn = np.zeros((channels, FUNCTIONS + 1), np.int64)
        self._setting = np.zeros(channels, bool)

    def row(self, row: int) -> Array:
        """bfloat16[channels, banks, columns, LANES], to read and to write."""
        if row not in self._rows:
            self._rows[row] = np.zeros(self.shape, BF16)
        return self._rows[row]

    def load(self, at: Channels, vector: Array) -> None:
        """WRGB of entries 0, 1, …: bfloat16[channels or 1, entries, LANES]."""
        self.buffer[at, : vector.shape[1]] = vector

    def set(self, at: Channels, values: Array) -> None:
        """WRMAC16: bfloat16[channels, banks]."""
        turn = self._turn
        turn[at] = np.where(self._setting[at][:, None], turn[at], 0)
        if turn[at, SET].max() >= self._sums.shape[1]:
            raise ValueError(f"WRMAC16: {self._sums.shape[1]} accumulators of a bank are set already")
        self._sums[at, turn[at, SET]] = values.astype(np.float32)
        turn[at, SET] += 1
        self._setting[at] = True

    def multiply(self, at: Channels, row: int, count: int, first: int = 0, *, beside: bool = False) -> None:
        """MAC16 of `count` columns from `first` on, with the buffer, or `beside`: even banks with their neighbours."""
        slot, columns = self._next(at, TAKEN), slice(first, first + count)
        cells, sums = self.row(row)[at][:, :, columns], self._sums[at, slot]
        if beside:
            sums[:, ::2] = mac_columns(sums[:, ::2], cells[:, ::2], cells[:, 1::2], self.width)
        else:
            sums = mac_columns(sums, cells, self.buffer[at][:, None, columns], self.width)
        self._sums[at, slot] = sums

    def multiply_bank(self, at: Channels, bank: int, row: int, count: int, *, beside: bool = False) -> None:
        """MAC of one bank."""
        slot, cells = self._next(at, TAKEN), self.row(row)[at]
        other = cells[:, (bank + 1) % self.shape[1], :count] if beside else self.buffer[at][:, :count]
        self._sums[at, slot, bank] = mac_columns(self._sums[at, slot, bank], cells[:, bank, :count], other, self.width)

    def results(self, at: Channels) -> Array:
        """RDMAC16: bfloat16[channels, banks]."""
        return to_bf16(self._sums[at, self._next(at, ANSWERED)])

    def apply(self, at: Channels, function: int) -> None:
        """AF16 on the accumulators."""
        self._made[at] = to_bf16(self.functions[function](self._sums[at, self._next(at, FUNCTIONS)]))

    def function_results(self, at: Channels) -> Array:
        """RDAF16: bfloat16[channels, banks]."""
        return self._made[at]

    def products(self, at: Channels, row: int, count: int, *, every: bool = True) -> None:
        """EWMUL16 of `count` columns, in all groups or in the first."""
        cells = self.row(row)
        for first in range(0, self.shape[1] if every else GROUP, GROUP):
            left, right = (cells[at, bank, :count].astype(np.float32) for bank in (first, first + RIGHT))
            cells[at, first + PRODUCT, :count] = to_bf16(mul(left, right))

    def copy_out(self, at: Channels, bank: int, row: int, count: int) -> None:
        """RDCP: columns of a bank into the buffer."""
        self.buffer[at, :count] = self.row(row)[at, bank, :count]

    def copy_back(self, at: Channels, bank: int, row: int, count: int) -> None:
        """WRCP: entries of the buffer into a bank."""
        self.row(row)[at, bank, :count] = self.buffer[at, :count]

    def _next(self, at: Channels, use: int) -> Array:
        """The accumulator of each channel that is next for a use."""
        self._setting[at] = False
        turn = self._turn[at]
        self._turn[at, use] += 1
        return turn[:, use] % np.maximum(turn[:, SET], 1)
