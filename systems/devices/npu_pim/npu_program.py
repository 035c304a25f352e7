"""A model's operators as operators of an NPU: GEMMs in tiles on its arrays, rows on its vector units."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pimloom.cycle_sim.npu.vectors import VectorOp
from pimloom.cycle_sim.npu_pim.operators import gemm
from pimloom.cycle_sim.npu_pim.program import Builder, Operator
from pimloom.energy.npu_pim import Work
from pimloom.systems.devices.npu_pim.parts import on_device, title
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.work import gemm_work, vector_work
from pimloom.workload.op import Op

NARROWED = ("router", "sampling", "embedding")  # of other rows than go out


@dataclass
class NpuProgram:
    """The operators of a device, what each makes the NPU do, and which of them make a stage."""

    shard: Shard
    builder: Builder = field(default_factory=Builder, kw_only=True)
    work: list[Work] = field(default_factory=list, kw_only=True)
    stages: dict[str, list[int]] = field(default_factory=dict, kw_only=True)

    def operator(self, name: str, after: Sequence[int], **options: Any) -> Operator:
        """An operator behind others; the first ones of a stage may start later."""
        return self.builder.operator(name, after, pause=self.shard.rules.pause(after, self.stages), **options)

    def one_by_one(self, made: Sequence[Op], after: Sequence[int]) -> list[int]:
        """All that take time on the NPU, one behind the other; the number of the last one."""
        last = list(after)
        for op in on_device(made):
            last = [self._gemm(op, last) if op.kind == "gemm" else self._vector(op, last)]
        return last

    def _vector(self, op: Op, after: Sequence[int]) -> int:
        """`terms` vectors of each row come in and one goes out."""
        shard, does, width = self.shard, _does(op), op.n_in if op.kind in NARROWED else op.n_out
        made = self.operator(title(op), after, least=shard.rules.rows_cyc(does, op.rows, width))
        shard.rules.vector_rows(self.builder, made, does, (op.rows, width, op.n_out), op.terms)
        made.singly = shard.rule.drains
        self.work.append(vector_work(does, op.rows, width, op.terms, shard.element_bytes, op.n_out))
        return made.index

    def _gemm(self, op: Op, after: Sequence[int]) -> int:
        """Rows times a matrix; of several matrices one behind the other."""
        shard, npu = self.shard, self.shard.system.npu
        made = self.operator(title(op), after, in_order=True, least=shard.least_cyc)
        done, moves = Work(), shard.rules.gemm_moves
        for rows in op.each or (op.rows,):
            sizes = (rows, op.n_in, op.n_out, npu.rows, shard.element_bytes)
            gemm(self.builder, made, *sizes, by_output=npu.dataflow == "os", biased=op.biased, moves=moves)
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
