"""A model's operators as operators of an NPU: GEMMs in tiles on its arrays, rows on its vector units."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pimloom.cycle_sim.npu.vectors import VectorOp
from pimloom.cycle_sim.npu_pim.operators import GemmFaults, by_row, by_tile, gemm
from pimloom.cycle_sim.npu_pim.program import Builder, Operator
from pimloom.energy.npu_pim import Work
from pimloom.systems.devices.npu_pim.parts import on_device, title
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.work import gemm_work, vector_work
from pimloom.workload.op import Op

PARAMETERS = {"norm": 2, "rmsnorm": 1}  # rows that are loaded for all: beta and gamma, or gamma


@dataclass
class NpuProgram:
    """The operators of a device, what each makes the NPU do, and which of them make a stage."""

    shard: Shard
    builder: Builder = field(default_factory=Builder, kw_only=True)
    work: list[Work] = field(default_factory=list, kw_only=True)
    stages: dict[str, list[int]] = field(default_factory=dict, kw_only=True)

    def operator(self, name: str, after: Sequence[int], **options: Any) -> Operator:
        """An operator behind others; the first ones of a stage may start later."""
        begins = not after or (self.changes_late and after[0] in next(reversed(self.stages.values()), ()))
        return self.builder.operator(name, after, pause=int(self.ends_late and begins), **options)

    @property
    def ends_late(self) -> bool:
        """Whether an operator's end is seen a cycle late, and the first one starts in cycle 1."""
        return self.shard.system.faults.ends_seen_late

    @property
    def changes_late(self) -> bool:
        """Whether a cycle goes by between two stages, which the simulator's total leaves out."""
        return self.ends_late and self.shard.system.dram.row_buffers != "none"

    def one_by_one(self, made: Sequence[Op], after: Sequence[int]) -> list[int]:
        """All that take time on the NPU, one behind the other; the number of the last one."""
        last = list(after)
        for op in on_device(made):
            last = [self._gemm(op, last) if op.kind == "gemm" else self._vector(op, last)]
        return last

    def _vector(self, op: Op, after: Sequence[int]) -> int:
        """`terms` vectors of each row come in and one goes out."""
        shard, npu, does = self.shard, self.shard.system.npu, _does(op)
        faults, width = shard.system.faults, op.n_in if op.kind == "router" else op.n_out
        size, out = width * shard.element_bytes, op.n_out * shard.element_bytes
        together = 1 if faults.vectors_by_row else min(op.rows, npu.rows)
        cycles = shard.vector_cyc(does, 0) if faults.vector_sizes_lost else shard.vector_cyc(does, width, together)
        made = self.operator(title(op), after, least=cycles)
        if faults.vectors_by_row:
            by_row(self.builder, made, op.rows, size, op.terms, cycles, PARAMETERS.get(does, 0))
        else:
            by_tile(self.builder, made, op.rows, size, op.terms, cycles, npu.rows, out)
        made.singly = shard.rule.drains
        self.work.append(vector_work(does, op.rows, width, op.terms, shard.element_bytes, op.n_out))
        return made.index

    def _gemm(self, op: Op, after: Sequence[int]) -> int:
        """Rows times a matrix; of several matrices one behind the other."""
        shard, npu = self.shard, self.shard.system.npu
        made = self.operator(title(op), after, in_order=True, least=shard.least_cyc)
        f, done = shard.system.faults, Work()
        faults = GemmFaults(f.strip_stored, f.bias_by_rows, f.weights_first, f.stores_when_idle and f.queues_in_order)
        for rows in op.each or (op.rows,):
            sizes = (rows, op.n_in, op.n_out, npu.rows, shard.element_bytes)
            gemm(self.builder, made, *sizes, by_output=npu.dataflow == "os", biased=op.biased, faults=faults)
            done = done.plus(gemm_work(*sizes, biased=op.biased))
        made.singly = shard.rule.drains
        self.work.append(done)
        return made.index


def _does(op: Op) -> VectorOp:
    """What the vector units do for an operator: any function, sum or product of elements is one pass. Experts are
    chosen by the softmax of their scores; the choice itself is free [design]."""
    match op.kind:
        case "norm":
            return "rmsnorm" if op.function == "rmsnorm" else "norm"
        case "rotary":
            return "rotary"
        case "router" | "softmax":
            return "softmax"
    return "add"
