"""Area of the logic that a system adds to its memory: arithmetic from the areas of single operations; an estimate.

Left out: scratchpads and buffers, registers, wires and control of the NPU and of PIM units, memory controllers, pins, a
second row buffer (`energy.area` has it as a share of a bank), and the DRAM dies themselves.
"""

from typing import NamedTuple

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.system import PimSystem
from pimloom.arch.units import UM2_PER_MM2

DRAM_PENALTY = 1.5  # [secondary] logic in a DRAM process over the same in a logic process, PIM-GPT's MAC units
PUBLISHED_MULTIPLIERS = 128  # [recalled] of the ASIC whose core area is published, arch/systems/pim_gpt.yaml
PUBLISHED_ADDERS = 256  # [recalled] likewise
NODE_OF_ASIC = 28 / 45  # [secondary] TSMC 28 nm; [assumed] lengths scale with the node's name


class Arithmetic(NamedTuple):
    """Areas of a multiplier and of an adder at 45 nm [um2]."""

    multiplier: float
    adder: float


# [recalled] the table of areas at 45 nm beside Horowitz's energies (ISSCC 2014), as W. Dally's talks give it
OF_BITS = {
    8: Arithmetic(282, 137),  # [recalled] INT8 multiply, INT32 add
    16: Arithmetic(1640, 1360),  # [recalled] FP16; [assumed] BF16 takes as much, though its mantissa is shorter
    32: Arithmetic(7700, 4184),  # [recalled] FP32
}


def pim_area_mm2(system: PimSystem, part: Part) -> float | None:
    """ASIC core, and the MAC units of all banks in the DRAM process; None without a figure for such operands.

    `npu.area_mm2` is a core with the published multipliers and adders; more or fewer of them are added or taken away.
    """
    unit = part.pim_unit
    if unit is None or unit.element_bits not in OF_BITS:
        return None
    shrink, each = NODE_OF_ASIC**2, OF_BITS[unit.element_bits]
    changed = (system.npu.multipliers - PUBLISHED_MULTIPLIERS) * each.multiplier
    changed += (system.npu.adders - PUBLISHED_ADDERS) * each.adder
    core = max(system.npu.area_mm2 + changed * shrink / UM2_PER_MM2, 0.0)
    lanes = system.dram.channels * part.organization.banks * unit.lanes
    return core + lanes * sum(each) * shrink * DRAM_PENALTY / UM2_PER_MM2


def npu_pim_area_mm2(system: NpuPimSystem, part: Part) -> float | None:
    """Cells of the arrays, lanes of the vector units, PIM's MAC units in the DRAM process; None without `energy`.

    Each a multiplier and an adder. `energy.logic_scale` is taken for the area, too [assumed].
    """
    if system.energy is None:
        return None
    npu, each = system.npu, OF_BITS[system.npu.element_bits]
    cells = npu.arrays * npu.rows**2 + npu.vector_units * npu.vector_lanes
    beside = system.dram.channels * part.organization.banks * system.dram.lanes * DRAM_PENALTY
    return (cells + beside) * sum(each) * system.energy.logic_scale / UM2_PER_MM2
