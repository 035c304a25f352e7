"""Latency of the ASIC's operations: one element per multiplier lane, one addition per adder, each clock."""

from pimloom.arch.program import AsicStep
from pimloom.arch.system import Npu
from pimloom.arch.units import ceil_div


def latency_cyc(npu: Npu, step: AsicStep) -> int:
    """ASIC cycles of one step (specification 3.4; functional arithmetic in `asic_math`).

    Nonlinear operations are pipelined: `fill_cyc` once, then one element per multiplier and cycle; LayerNorm makes
    `layernorm_passes` passes, `normalise` one. Additions use the adder array.
    """
    if step.op == "add":
        return ceil_div(step.elements, npu.adders)
    passes = npu.layernorm_passes if step.op == "layernorm" else 1
    return passes * ceil_div(step.elements, npu.multipliers) + npu.fill_cyc
