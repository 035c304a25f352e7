"""A device's share of a decoder layer, and what the machine needs to know of its NPU."""

from dataclasses import dataclass

from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.units import BITS_PER_BYTE, mhz_to_ps
from pimloom.cycle_sim.npu.vectors import VectorOp, VectorUnits, vector_cyc
from pimloom.cycle_sim.npu_pim.machine import ArrayRule, Npu, drained, overlapped
from pimloom.mappers.kv import Shape

PASSES = 5  # casys-kaist/NeuPIMs@f299af3: of E x E weights, after which the NPU's addresses begin again


@dataclass(frozen=True)
class Shard:
    """A model's decoder layer cut for tensor parallelism over `tp` devices of `system`."""

    llm: LlmSpec
    system: NpuPimSystem
    shape: Shape
    tp: int

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.system.npu.element_bits // BITS_PER_BYTE

    @property
    def rule(self) -> ArrayRule:
        """How steps follow each other: as NeuPIMs' simulator has it, or that of its NPU alone."""
        npu, alone = self.system.npu, self.system.dram.row_buffers == "none"
        if alone and self.system.faults.arrays_drain:
            return drained(npu.rows, npu.gemv_load_cyc)
        return overlapped(npu.rows, npu.gemv_load_cyc, clamped=alone)

    @property
    def least_cyc(self) -> int:
        """From a step's start to its result, at least [NPU cycles]."""
        return self.rule.latency_cyc + self.step_cyc

    @property
    def step_cyc(self) -> int:
        """Between two steps of the arrays, which share the rows that stream through [NPU cycles]."""
        npu = self.system.npu
        return max(npu.rows // npu.arrays, npu.least_step_cyc)

    @property
    def machine(self) -> Npu:
        """What the machine needs to know of the NPU."""
        system, faults, npu = self.system, self.system.faults, self.system.npu
        address_bytes = PASSES * self.llm.hidden_size**2 * self.element_bytes
        if not (system.dram.row_buffers == "none" and faults.blocks_shifted):
            address_bytes //= self.tp
        return Npu(
            npu.rows, self.step_cyc, address_bytes, faults.hashed_lines, npu.dataflow == "os", self.rule,
            clock_ps=mhz_to_ps(npu.clock_mhz), starts_early=faults.starts_early, vector_units=npu.vector_units,
            in_order=faults.queues_in_order,
            shift_bytes=self.element_bytes if faults.blocks_shifted else 0,
            steps=system.controller.offers_per_ck if faults.interconnect else 0, late=faults.ends_seen_late,
        )  # fmt: skip

    @property
    def row_bytes(self) -> int:
        """Bytes of a row index: that row of all banks of all channels."""
        return self.shape.row * self.element_bytes * self.shape.banks * self.system.dram.channels

    def vector_cyc(self, op: VectorOp, elements: int, rows: int = 1) -> int:
        """Cycles of `rows` rows of `elements` elements each on the vector units."""
        npu = self.system.npu
        return vector_cyc(VectorUnits(npu.vector_units, npu.vector_lanes), op, elements, rows)
