"""One decoder layer of one tensor-parallel shard as a program of operators, stage by stage.

Stages are those of `mappers.interleave`: a stage begins when both programs of the one before, that of the NPU and that
of PIM, have ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pimloom.mappers.interleave import Stage, stages
from pimloom.mappers.kv import Cache
from pimloom.systems.devices.npu_pim.attention import Placed, attention
from pimloom.systems.devices.npu_pim.npu_program import NpuProgram
from pimloom.systems.devices.npu_pim.parts import Parts, parts_of
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops
from pimloom.workload.op import LINKS, Op
from pimloom.workload.shard import Shard


class Layer(NamedTuple):
    """A layer's number, and its cache of each request; none: they lie in all channels."""

    number: int
    caches: Sequence[Cache]


@dataclass
class LayerProgram(NpuProgram):
    """The operators of a layer for the requests of a batch, with sub-batches of two, one behind the other. talk: by
    stage, what the devices of a tp group send one another."""

    batch: Batch
    here: Layer
    then: Layer
    talk: dict[str, list[Op]] = field(default_factory=dict, kw_only=True)

    def build(self, sub_batches: Sequence[Sequence[int]], order: Sequence[Stage] = ()) -> "LayerProgram":
        """The stages in `order`, or all once each, for these sub-batches: numbers of requests, at least one in each."""
        before: Sequence[int] = ()
        for stage in order or stages(len(sub_batches)):
            last, done = list[int](), list[Op]()
            if stage.through is not None:
                done += self._parts(self._layer(stage.behind("through")), sub_batches[stage.through]).behind
                last = self.one_by_one(done, before)
            if stage.qkv:
                mine = [i for part in stage.qkv for i in sub_batches[part]]
                first = self._parts(self._layer(stage.behind("qkv")), mine).before
                done += first
                last = self.one_by_one(first, last or before)
            if stage.attention is not None:
                layer = self._layer(stage.behind("attention"))
                turn = self._in_turn(layer, sub_batches[stage.attention])
                placed = [Placed(self.batch.requests[i], layer.caches[i] if layer.caches else None) for i in turn]
                last = attention(self, self._parts(layer, turn).attention, placed, before, last)
            self.talk[stage.name] = [op for op in done if op.kind in LINKS]
            before = self.stages[stage.name] = last
        return self

    def _layer(self, behind: bool) -> Layer:
        return self.then if behind else self.here

    def _parts(self, layer: Layer, requests: Sequence[int]) -> Parts:
        """The operators of a layer for these requests."""
        some, llm = Batch(tuple(self.batch.requests[i] for i in requests)), self.shard.llm
        return parts_of(layer_ops(llm, some, Shard(tp=self.shard.tp), layer.number, routing=self.shard.system.routing))

    def _in_turn(self, layer: Layer, requests: Sequence[int]) -> Sequence[int]:
        """The requests of a sub-batch in the order in which PIM takes them."""
        return self.shard.rules.in_turn(requests, layer.caches)
