"""A device's share of a decoder layer, and what the machine needs to know of its NPU."""

from dataclasses import dataclass
from functools import cached_property

from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.units import BITS_PER_BYTE, mhz_to_ps
from pimloom.cycle_sim.npu.vectors import VectorOp
from pimloom.cycle_sim.npu_pim.machine import ArrayRule, Npu
from pimloom.mappers.kv import Shape
from pimloom.systems.npu_rules import NpuRules
from pimloom.systems.reference.neupims import rules_of

PASSES = 5  # casys-kaist/NeuPIMs@f299af3: of E x E weights, after which the NPU's addresses begin again


@dataclass(frozen=True)
class Shard:
    """A model's decoder layer cut for tensor parallelism over `tp` devices of `system`. line_bytes: of a column access;
    ends: whether embeddings and the LM head lie there, too."""

    llm: LlmSpec
    system: NpuPimSystem
    shape: Shape
    tp: int
    line_bytes: int
    ends: bool = False

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.system.npu.element_bits // BITS_PER_BYTE

    @cached_property
    def rules(self) -> NpuRules:
        """What decides sizes, orders and what waits."""
        return rules_of(self.system)

    @property
    def rule(self) -> ArrayRule:
        """How steps follow each other."""
        return self.rules.arrays()

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
        npu, weight_bytes = self.system.npu, PASSES * self.llm.hidden_size**2 * self.element_bytes
        addresses = max(self.rules.address_bytes(weight_bytes, self.tp), self.rules.apart_bytes(self.line_bytes))
        return self.rules.machine(
            Npu(
                npu.rows, self.step_cyc, addresses, False, npu.dataflow == "os",
                self.rule, clock_ps=mhz_to_ps(npu.clock_mhz), vector_units=npu.vector_units,
            )
        )  # fmt: skip

    @property
    def row_bytes(self) -> int:
        """Bytes of a row index: that row of all banks of all channels."""
        return self.rules.row_bytes(self.shape)

    def vector_cyc(self, op: VectorOp, elements: int, rows: int = 1) -> int:
        """Cycles of `rows` rows of `elements` elements each on the vector units."""
        return self.rules.vector_cyc(op, elements, rows)
