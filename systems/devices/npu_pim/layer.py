"""One decoder layer of one tensor-parallel shard as a program of operators, stage by stage.

Stages are those of `mappers.interleave`: a stage begins when both programs of the one before, that of the NPU and that
of PIM, have ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pimloom.mappers.interleave import Stage, stages
from pimloom.mappers.kv import Cache
from pimloom.systems.devices.npu_pim.attention import Placed, attention
from pimloom.systems.devices.npu_pim.npu_program import NpuProgram
from pimloom.systems.devices.npu_pim.parts import Parts, parts_of
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops
from pimloom.workload.op import LINKS, Op
from pimloom.workload.shard import Shard


@dataclass
class LayerProgram(NpuProgram):
    """The operators of a layer for the requests of a batch. caches: of each request; empty: they lie in all channels.
    talk: by stage, what the devices of a tp group send one another."""

    batch: Batch
    caches: Sequence[Cache]
    talk: dict[str, list[Op]] = field(default_factory=dict, kw_only=True)

    def build(self, sub_batches: Sequence[Sequence[int]], order: Sequence[Stage] = ()) -> "LayerProgram":
        """The stages in `order`, or all once each, for these sub-batches: numbers of requests, at least one in each."""
        before: Sequence[int] = ()
        for stage in order or stages(len(sub_batches)):
            last, done = list[int](), list[Op]()
            if stage.through is not None:
                done += self._parts(sub_batches[stage.through]).behind
                last = self.one_by_one(done, before)
            if stage.qkv:
                first = self._parts([i for part in stage.qkv for i in sub_batches[part]]).before
                done += first
                last = self.one_by_one(first, last or before)
            if stage.attention is not None:
                mine = self._in_turn(sub_batches[stage.attention])
                placed = [Placed(self.batch.requests[i], self.caches[i] if self.caches else None) for i in mine]
                last = attention(self, self._parts(mine).attention, placed, before, last)
            self.talk[stage.name] = [op for op in done if op.kind in LINKS]
            before = self.stages[stage.name] = last
        return self

    def _parts(self, requests: Sequence[int]) -> Parts:
        """The operators of the layer for these requests."""
        some = Batch(tuple(self.batch.requests[i] for i in requests))
        return parts_of(layer_ops(self.shard.llm, some, Shard(tp=self.shard.tp)))

    def _in_turn(self, requests: Sequence[int]) -> Sequence[int]:
        """The requests of a sub-batch in the order in which PIM takes them."""
        by_channel = self.shard.system.faults.requests_by_channel and self.caches
        return sorted(requests, key=lambda i: self.caches[i].channel) if by_channel else requests
