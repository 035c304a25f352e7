"""Latency of the ASIC's operations: one element per multiplier lane, one addition per adder, each clock."""

from pimloom.arch.pim_system import Npu
from pimloom.arch.program import AsicStep
from pimloom.arch.units import ceil_div


def latency_cyc(npu: Npu, step: AsicStep) -> int:
    """ASIC cycles of one step (specification 3.4; functional arithmetic in `asic_math`).

    Nonlinear operations are pipelined: `fill_cyc` once, then one element per multiplier and cycle and pass. Additions
    use the adder array, multiplications the multipliers.
    """
    lanes = ceil_div(step.elements, npu.multipliers)
    match step.op:
        case "add":
            return ceil_div(step.elements, npu.adders)
        case "multiply":
            return lanes  # [design] nothing to fill: products of two values that lie in SRAM
        case "rotary":  # [design] x cos + x' sin: two products and a sum, which follows them; the slower one counts
            return max(ceil_div(2 * step.elements, npu.multipliers), ceil_div(step.elements, npu.adders))
        case "choose":  # [design] comparators beside the multipliers, as softmax's maximum has; no pipeline to fill
            return step.passes * lanes
        case "layernorm":
            return npu.layernorm_passes * lanes + npu.fill_cyc
        case "rmsnorm":  # [design] LayerNorm's passes without the mean's: mean of squares, normalise
            return max(npu.layernorm_passes - 1, 1) * lanes + npu.fill_cyc
        case "softmax" | "activation" | "softcap" | "normalise":
            # specification 3.4: one pass, GELU and softmax; [design] SiLU = x / (1 + exp(-x)) and c tanh(x / c) are the
            # same exponential and reciprocal between multiplications
            return lanes + npu.fill_cyc
