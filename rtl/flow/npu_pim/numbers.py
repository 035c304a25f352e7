"""What the commands of a PIM channel do to numbers, in the order of issue: bit for bit with `cycle_sim/pim_math.py`.

What the system leaves open is ours [design]: a header goes back to the first elements of row and vector, each COMP
takes the next ones in all banks, and a result is the sum since the last one, rounded once.
"""

from collections.abc import Iterator
from typing import NamedTuple

import ml_dtypes
import numpy as np

from pimloom.cycle_sim.pim_math import mac_column, read_result
from pimloom.rtl.npu_pim.plan import Plan

BF16 = ml_dtypes.bfloat16


class Happened(NamedTuple):
    """A command that issued: opcode, first bank, row that it opens, column; COMPs of a GEMV; word of a WR."""

    cmd: int
    bank: int
    row: int
    col: int
    comps: int
    word: np.ndarray | None = None


class Numbers:
    """Cells, row buffers, vector and accumulators of a channel. cells: bfloat16[bank, row, column, element]."""

    def __init__(self, plan: Plan, elements: int, lanes: int, rows: int) -> None:
        columns = plan.table.rules.columns
        self.plan, self.lanes, self.place = plan, lanes, 0
        self.cells = np.zeros((plan.banks, rows, columns, elements), BF16)
        self.vector = np.zeros(columns * elements, BF16)
        self.acc = np.zeros(plan.banks, np.float32)
        self.mem, self.pim = np.full(plan.banks, -1), np.full(plan.banks, -1)

    def do(self, x: Happened) -> Iterator[np.ndarray]:
        """Carry out a command; the word that an RD reads, or the banks' results."""
        op, pim = self.plan.op, self.pim if self.plan.dual else self.mem
        if x.cmd == op.act:
            self.mem[x.bank] = x.row
        elif x.cmd == op.g_act:
            pim[x.bank : x.bank + self.plan.group] = x.row
        elif x.cmd == op.wr:
            self.cells[x.bank, self.mem[x.bank], x.col] = x.word
        elif x.cmd == op.rd:
            yield self.cells[x.bank, self.mem[x.bank], x.col].copy()
        elif x.cmd == op.gwrite:
            self.vector = self.cells[x.bank, self.mem[x.bank]].reshape(-1).copy()
        elif x.cmd == op.header:
            self.place = 0
        elif x.cmd == op.comp:
            self._multiply(pim)
        elif x.cmd in (op.readres, op.gemv):
            for _ in range(x.comps if x.cmd == op.gemv else 0):
                self._multiply(pim)
            yield read_result(self.acc)
            self.acc = np.zeros_like(self.acc)

    def _multiply(self, rows: np.ndarray) -> None:
        here = np.arange(self.place, self.place + self.lanes) % len(self.vector)
        weights = np.stack([bank[row].reshape(-1)[here] for bank, row in zip(self.cells, rows, strict=True)])
        self.acc = mac_column(self.acc, weights, self.vector[here])
        self.place += self.lanes
