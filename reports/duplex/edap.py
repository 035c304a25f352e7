"""Energy, delay and area of one matrix product on the units that Duplex is compared with (its figure 8)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pimloom.arch.duplex import OPS_PER_MAC, Duplex
from pimloom.arch.units import J_PER_PJ
from pimloom.energy.duplex import BankCounts, mac_pj, memory_pj
from pimloom.systems.devices.duplex.layers import ELEMENT_BYTES
from pimloom.systems.devices.duplex.memory import BANK, BANK_GROUP, LOGIC

UNITS = (BANK, BANK_GROUP, LOGIC)
N_IN, N_OUT = 16384, 4096  # [paper] of the matrix
OP_PER_BYTE = (1, 2, 4, 8, 16, 32)  # [paper]
DRAM_TIMES_LOGIC = 10  # [paper] area of the same circuit on a DRAM die, at equal feature size


class Edap(NamedTuple):
    """One product: operations for each byte of the matrix, energy [J], time [s], and the area of the units of a stack
    [mm2]."""

    units: str
    op_per_byte: int
    energy_j: float
    time_s: float
    area_mm2: float

    @property
    def product(self) -> float:
        """Energy x delay x area."""
        return self.energy_j * self.time_s * self.area_mm2


def area_mm2(device: Duplex, units: str) -> float:
    """Units of a stack. Buffers and softmax stay on the logic die [paper]; the MACs of units on DRAM dies are those of
    the GEMM modules, ten times as large and as many as their rate asks for; their wires are not counted [design]."""
    area, spec = dict(device.spec.logic_area_mm2), device.spec
    if units == LOGIC:
        return sum(area.values())
    pim = spec.bank_pim if units == BANK else spec.bank_group_pim
    rate = pim.times_bandwidth * pim.op_per_byte / (device.logic_times * device.logic_op_per_byte)
    return area["buffers"] + area["softmax"] + DRAM_TIMES_LOGIC * rate * area["gemm_modules"]


def figure(device: Duplex, op_per_byte: Sequence[int] = OP_PER_BYTE) -> Iterator[Edap]:
    """Every kind of units at each number of operations for a byte, memory at its full bandwidth."""
    n_bytes, org = ELEMENT_BYTES * N_IN * N_OUT, device.part.organization
    columns = n_bytes * org.columns / org.row_bytes
    for units in UNITS:
        times, ratio = device.logic_times, device.logic_op_per_byte
        if units != LOGIC:
            pim = device.spec.bank_pim if units == BANK else device.spec.bank_group_pim
            times, ratio = pim.times_bandwidth, pim.op_per_byte
        for ops in op_per_byte:
            memory = memory_pj(units, BankCounts(columns, columns / org.columns)).total_pj
            joules = (memory + mac_pj(ops * n_bytes / OPS_PER_MAC)) * J_PER_PJ
            seconds = n_bytes * max(1.0, ops / ratio) / (times * device.xpu_bytes_s)
            yield Edap(units, ops, joules, seconds, area_mm2(device, units))


def normalised(found: Sequence[Edap]) -> dict[tuple[str, int], float]:
    """Energy x delay x area of each, over the worst at the same operations for a byte."""
    worst = {at.op_per_byte: max(one.product for one in found if one.op_per_byte == at.op_per_byte) for at in found}
    return {(one.units, one.op_per_byte): one.product / worst[one.op_per_byte] for one in found}
