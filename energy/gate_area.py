"""Area of a system's logic from the gates of our own blocks, part by part; beside `energy.logic_area`, an estimate.

NAND2 equivalents of gates.csv at 180 nm are taken for 45 nm, too: a NAND2 of an open 45 nm library each, then scaled as
`energy.logic_area` scales its arithmetic. In it: registers and control. Left out: pads and scratchpads, wires, clock
trees, memories of the blocks, pins, and what fills a die.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.system import PimSystem
from pimloom.arch.units import UM2_PER_MM2
from pimloom.energy.logic_area import DRAM_PENALTY, NODE_OF_ASIC

# [derived] 0.57 um x 1.4 um, NAND2_X1 of the NanGate/FreePDK45 open cell library: [secondary] its LEF in
# The-OpenROAD-Project/OpenROAD-flow-scripts@d27f2d0, flow/platforms/nangate45/lef/NangateOpenCellLibrary.macro.mod.lef
NAND2_UM2 = 0.57 * 1.4
LANES, ELEMENT_BITS = 16, 16  # [design] of our PIM units: 16 products of bfloat16 a clock; of arrays bfloat16, too
CONTROLLED_BANKS = {"dual": 32, "pim_gpt": 16}  # [design] of the channels whose controllers gates.csv has
TILED_ROWS, SUB_BATCHES = 128, 2  # [design] of the array and of the interleave controller there
PARTS = ("arrays", "vector_units", "sequencers", "pim_units", "controllers")

Areas = dict[str, float | None]


class Gates(NamedTuple):
    """A line of gates.csv: NAND2 equivalents of one `of`, and the command that prints the figure they come from."""

    block: str
    nand2: float
    of: str
    command: str


@cache
def gates() -> dict[str, Gates]:
    """All lines of gates.csv by block."""
    with (Path(__file__).parent / "gates.csv").open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return {row["block"]: Gates(row["block"], float(row["nand2"]), row["of"], row["command"]) for row in rows}


def pim_areas_mm2(system: PimSystem, part: Part) -> Areas:
    """Of PIM-GPT, by PARTS: MAC units of all banks in the DRAM process, command sequencers of all channels; mm2.

    None: there is no such part, or our units are not made for its operands, lanes or banks.
    """
    unit, shrink = part.pim_unit, NODE_OF_ASIC**2
    fits = unit is not None and (unit.element_bits, unit.lanes) == (ELEMENT_BITS, LANES)
    units = _mm2("pim_unit", system.dram.channels * part.organization.banks, shrink * DRAM_PENALTY) if fits else None
    found: Areas = dict.fromkeys(PARTS)
    if part.organization.banks == CONTROLLED_BANKS["pim_gpt"]:
        found["controllers"] = _mm2("sequencer", system.dram.channels, shrink)
    return found | {"pim_units": units}


def npu_pim_areas_mm2(system: NpuPimSystem, part: Part) -> Areas:
    """Of an NPU with or without PIM, by PARTS; mm2.

    arrays: processing elements of the dataflow; vector_units: a lane is one of our vector units, which take an element
    a clock; sequencers: a tile sequencer for each array, and one interleave controller; pim_units: in the DRAM
    process; controllers: of all channels, with short queues. None: without `energy`, whose `logic_scale` is the
    node's, or where our blocks were not synthesised for such rows, sub-batches, elements, lanes, banks or row buffers.
    """
    found: Areas = dict.fromkeys(PARTS)
    if system.energy is None:
        return found
    npu, dram, scale = system.npu, system.dram, system.energy.logic_scale
    has_pim, fits = dram.row_buffers != "none", npu.element_bits == ELEMENT_BITS
    if npu.rows == TILED_ROWS and system.interleave.sub_batches in (1, SUB_BATCHES):
        interleave = _mm2("interleave", 1, scale) if system.interleave.sub_batches > 1 else 0.0
        found["sequencers"] = _mm2("npu_tiles", npu.arrays, scale) + interleave
    if fits:
        found["arrays"] = _mm2(f"{npu.dataflow}_element", npu.arrays * npu.rows**2, scale)
        found["vector_units"] = _mm2("npu_vector", npu.vector_units * npu.vector_lanes, scale)
    if not has_pim:
        return found | {"pim_units": 0.0}
    if fits and dram.lanes == LANES:
        found["pim_units"] = _mm2("pim_unit", dram.channels * part.organization.banks, scale * DRAM_PENALTY)
    if part.organization.banks == CONTROLLED_BANKS.get(dram.row_buffers):
        found["controllers"] = _mm2("npu_pim_channel", dram.channels, scale)
    return found


def _mm2(block: str, number: int, scale: float) -> float:
    return number * gates()[block].nand2 * NAND2_UM2 * scale / UM2_PER_MM2
