"""CENT's near-memory unit on numbers: accumulators, reduction trees, exponent units, and programs of its RISC-V cores.

Its words are 256 bits, 16 lanes of bfloat16; inside it reckons in float32 [design]. What its cores do follows from what
the authors' code counts for them [secondary CENT]: the root of an RMSNorm, a reciprocal for each head of a softmax
whose lanes a core writes, and two sums for each pair of a rotation. The programs are ours [design].
"""

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from pimloom.arch.units import KIB, ceil_div
from pimloom.cycle_sim.asic_math import Array, add, exp, pairwise
from pimloom.cycle_sim.pim_math import LANES
from pimloom.cycle_sim.riscv import Instruction, assemble, run

BF16 = ml_dtypes.bfloat16
BUFFER_BYTES = 64 * KIB  # [secondary CENT] the shared buffer

# ft0 to bfloat16 in the low half of t0, to nearest even; s0 is 0x7fff
_ROUNDED = """
    fmv.x.w t0, ft0
    srli t1, t0, 16
    andi t1, t1, 1
    add t0, t0, t1
    add t0, t0, s0
    srli t0, t0, 16
"""
# t0 into all lanes of the word at a1
_ALL_LANES = """
    slli t1, t0, 16
    or t0, t0, t1
""" + "\n".join(f"sw t0, {at}(a1)" for at in range(0, 2 * LANES, 4))
_HALF_OF_LAST_PLACE = """
    lui s0, 8
    addi s0, s0, -1             # 0x7fff
"""
# 1 / sqrt(sum / n + eps) of the sum at a0 into the word at a1; a2: n, fa0: eps
ROOT = assemble(f"""{_HALF_OF_LAST_PLACE}
    flw ft0, 0(a0)
    fcvt.s.w ft1, a2
    fdiv.s ft0, ft0, ft1
    fadd.s ft0, ft0, fa0
    fsqrt.s ft0, ft0
    addi t0, zero, 1
    fcvt.s.w ft1, t0
    fdiv.s ft0, ft1, ft0
    {_ROUNDED}
    {_ALL_LANES}
    ret
""")
# 1 / sum of a2 sums from a0 on, a3 bytes apart, into words from a1 on, a4 bytes apart
RECIPROCAL = assemble(f"""{_HALF_OF_LAST_PLACE}
    addi t0, zero, 1
    fcvt.s.w ft1, t0
head:
    flw ft0, 0(a0)
    fdiv.s ft0, ft1, ft0
    {_ROUNDED}
    {_ALL_LANES}
    add a0, a0, a3
    add a1, a1, a4
    addi a2, a2, -1
    bne a2, zero, head
    ret
""")
# Four products p of a2 pairs from a0 on, into p0 - p1, p2 + p3 from a1 on; a3, a4: bytes from pair to pair of a core
ROTATION = assemble(f"""{_HALF_OF_LAST_PLACE}
pair:
""" + "\n".join(f"lhu t{i}, {2 * i}(a0)\nslli t{i}, t{i}, 16\nfmv.w.x ft{i + 1}, t{i}" for i in range(4)) + f"""
    fsub.s ft0, ft1, ft2
    {_ROUNDED}
    sh t0, 0(a1)
    fadd.s ft0, ft3, ft4
    {_ROUNDED}
    sh t0, 2(a1)
    add a0, a0, a3
    add a1, a1, a4
    addi a2, a2, -1
    bne a2, zero, pair
    ret
""")  # fmt: skip


class NearMemoryUnit:
    """The unit of a device. executed: by program, what each of its cores has executed so far."""

    def __init__(self, cores: int = 8) -> None:
        self.cores, self.executed = cores, {name: Counter[str]() for name in ("root", "reciprocal", "rotation")}

    def total(self, values: Array) -> Array:
        """Sums over the last axis, float32[..., n] to float32[...]: word by word into an accumulator, whose lanes then
        go through a reduction tree."""
        words = ceil_div(values.shape[-1], LANES)
        padded = np.zeros((*values.shape[:-1], words * LANES), np.float32)
        padded[..., : values.shape[-1]] = values
        lanes = np.zeros((*values.shape[:-1], LANES), np.float32)
        for word in np.moveaxis(padded.reshape(*values.shape[:-1], words, LANES), -2, 0):
            lanes = add(lanes, word)
        return pairwise(lanes)

    def exponentials(self, values: Array) -> Array:
        """Of the exponent units, float32 of any shape."""
        return exp(values)

    def root(self, total: float | np.floating[Any], n: int, eps: float) -> Array:
        """1 / sqrt(total / n + eps) in all lanes of a word, float32 to bfloat16[16]."""
        memory = np.zeros(BUFFER_BYTES, np.uint8)
        memory.view(np.float32)[0] = total
        self.executed["root"] += run(ROOT, memory, {"a1": 2 * LANES, "a2": n, "fa0": eps}, 1)
        return memory[2 * LANES : 4 * LANES].view(BF16)

    def reciprocals(self, totals: Array) -> Array:
        """1 / totals in all lanes of a word each, float32[n] to bfloat16[n, 16], dealt over the cores."""
        return self._dealt("reciprocal", RECIPROCAL, totals.astype(np.float32).reshape(-1, 1), 2 * LANES)

    def rotated(self, products: Array) -> Array:
        """p0 - p1 and p2 + p3, bfloat16[n, 4] to bfloat16[n, 2], pairs dealt over the cores."""
        return self._dealt("rotation", ROTATION, products.astype(BF16), 4)

    def _dealt(self, name: str, program: tuple[Instruction, ...], items: Array, out_bytes: int) -> Array:
        """Items one by one to the cores, each with its result of so many bytes, as many at a time as the buffer holds;
        what is left over in the last turn is zero."""
        in_bytes = items.nbytes // len(items)
        turns = max(1, BUFFER_BYTES // ((in_bytes + out_bytes) * self.cores))
        found, each = [], turns * self.cores
        for first in range(0, len(items), each):
            mine = np.ascontiguousarray(items[first : first + each])
            rounds = ceil_div(len(mine), self.cores)
            memory, core = np.zeros(BUFFER_BYTES, np.uint8), np.arange(self.cores)
            memory[: mine.nbytes] = mine.reshape(-1).view(np.uint8)
            results = rounds * self.cores * in_bytes
            given: dict[str, ArrayLike] = {
                "a0": core * in_bytes, "a1": results + core * out_bytes, "a2": rounds,
                "a3": in_bytes * self.cores, "a4": out_bytes * self.cores,
            }  # fmt: skip
            self.executed[name] += run(program, memory, given, self.cores)
            made = memory[results : results + len(mine) * out_bytes]
            found.append(made.reshape(len(mine), out_bytes).view(BF16))
        return np.concatenate(found)
