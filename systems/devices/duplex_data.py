"""Products on the logic dies of a Duplex device, on numbers: matrices in bundles of banks, as the device reads them.

A matrix is cut by columns over the pseudo channels of all stacks [paper]; what a pseudo channel has of it stands in one
bundle, eight banks that are read at once. [design] An access holds 16 inputs of an output in each bank; accesses go
through the inputs of eight outputs before they come to the next eight. The GEMM module of a pseudo channel multiplies
each access with the inputs of all tokens while the next one is read: products and sums in FP16 [paper: FP16 MACs], 16
of them in a tree and then to the sum of the output; `accumulator` float32 has wide sums instead.
"""

from typing import Literal

import numpy as np

from pimloom.arch.duplex import Duplex
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.asic_math import Array
from pimloom.systems.devices.duplex.memory import bundle_stream

FP16 = np.float16
BANKS = 8  # [paper] of a bundle
LANES = 16  # [paper] 256 bits of a bank


def place(matrix: Array, columns: int) -> Array:
    """Where a pseudo channel has its part of a matrix, float16[n_in, n_out]: float16[rows, columns, BANKS, LANES]."""
    n_in, n_out = matrix.shape
    steps, blocks = ceil_div(n_in, LANES), ceil_div(n_out, BANKS)
    whole = np.zeros((blocks * BANKS, steps * LANES), FP16)
    whole[:n_out, :n_in] = matrix.T
    accesses = whole.reshape(blocks, BANKS, steps, LANES).swapaxes(1, 2).reshape(-1, BANKS, LANES)
    rows = np.zeros((ceil_div(len(accesses), columns) * columns, BANKS, LANES), FP16)
    rows[: len(accesses)] = accesses
    return rows.reshape(-1, columns, BANKS, LANES)


class GemmModule:
    """That of one pseudo channel, at work on so many tokens, float16[tokens, n_in]."""

    def __init__(self, inputs: Array, n_out: int, accumulator: Literal["float16", "float32"] = "float16") -> None:
        tokens, n_in = inputs.shape
        self._steps, self._n_out, self._dtype = ceil_div(n_in, LANES), n_out, np.dtype(accumulator)
        whole = np.zeros((tokens, self._steps * LANES), FP16)
        whole[:, :n_in] = inputs
        self._inputs = whole.reshape(tokens, self._steps, 1, LANES).astype(self._dtype)
        self._sums = np.zeros((tokens, ceil_div(n_out, BANKS), BANKS), self._dtype)
        self._accesses = 0

    def take(self, access: Array) -> None:
        """The next access, float16[BANKS, LANES]."""
        block, step = divmod(self._accesses, self._steps)
        product = self._inputs[:, step] * access.astype(self._dtype)
        while product.shape[-1] > 1:
            product = product[..., 0::2] + product[..., 1::2]
        self._sums[:, block] += product[..., 0]
        self._accesses += 1

    def results(self) -> Array:
        """float16[tokens, n_out]. Raises ValueError before all of the matrix has come."""
        if self._accesses != self._steps * self._sums.shape[1]:
            raise ValueError(f"{self._accesses} accesses: expected {self._steps * self._sums.shape[1]}")
        return self._sums.reshape(len(self._sums), -1)[:, : self._n_out].astype(FP16)


def multiply(
    device: Duplex, inputs: Array, matrix: Array, accumulator: Literal["float16", "float32"] = "float16"
) -> Array:
    """float16[tokens, n_in] times [n_in, n_out] on all pseudo channels of a device: float16[tokens, n_out]."""
    org, found, table = device.part.organization, [], compile_table(device.part)
    assert org.access_bits == LANES * FP16(0).nbytes * BITS_PER_BYTE
    each = ceil_div(matrix.shape[1], device.pseudo_channels)
    for first in range(0, matrix.shape[1], each):
        mine = matrix[:, first : first + each]
        cells, module = place(mine, org.columns), GemmModule(inputs, mine.shape[1], accumulator)
        open_row = -1
        for command in bundle_stream(device.part, ceil_div(mine.shape[0], LANES) * ceil_div(mine.shape[1], BANKS)):
            if command["cmd"] == table.cmd("ALL_ACT"):
                open_row = int(command["row"])
            elif command["cmd"] == table.cmd("ALL_RD"):
                for column in range(command["col"], command["col"] + command["count"]):
                    module.take(cells[open_row, column])
        found.append(module.results())
    return np.concatenate(found, axis=1)
