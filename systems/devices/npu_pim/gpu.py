"""Operators of a decoder layer on a GPU: stages and operators are those of an NPU without PIM.

Memory is read and written once for each operator; a fused attention keeps its logits on the chip.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pimloom.arch.llm import LlmSpec
from pimloom.arch.routing import UNIFORM
from pimloom.systems.devices.npu_pim.parts import batch_of, on_device, parts_of, title, values_in_keys
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops
from pimloom.workload.op import LINKS, Moved, Op
from pimloom.workload.routing import Chosen, Expectation
from pimloom.workload.shard import Shard

ALIKE, ALL_REDUCE = Expectation(UNIFORM), "all-reduce"


class Work(NamedTuple):
    """An operator: its stage, name and operations, and the elements that it reads and writes. cached, weights: elements
    of cached keys and values, and of matrices with `weight_bits` per weight, None: as wide as elements. sends: a
    collective between devices, instead of operations."""

    stage: str
    name: str
    flops: int
    elements: int
    cached: int = 0
    weights: int = 0
    weight_bits: float | None = None
    sends: Op | None = None

    def bits(self, llm: LlmSpec, element_bits: int) -> float:
        """Of what it reads and writes."""
        if llm.quantization is None:
            return self.elements * element_bits
        narrow = self.weights * (element_bits - (self.weight_bits or element_bits))
        return self.elements * element_bits - narrow - self.cached * (element_bits - llm.cache_bits(element_bits))


def layer_work(
    llm: LlmSpec, tp: int, tokens: Sequence[int], new: Sequence[int] | None = None, layer: int = 0
) -> Iterator[Work]:
    """The operators of a decoder layer on one of `tp` devices, in order. tokens: the context of each request; new: of
    these, how many are computed, one if None."""
    return batch_work(llm, tp, batch_of(tokens, new), layer)


def batch_work(llm: LlmSpec, tp: int, batch: Batch, layer: int, routing: Chosen = ALIKE) -> Iterator[Work]:
    """The same of a batch; routing: how its tokens choose experts."""
    parts = parts_of(layer_ops(llm, batch, Shard(tp=tp), layer, routing=routing))
    yield from (_work("A", op) for op in on_device(parts.before, links=True))
    yield Work("B", "fused_mha", *_attention(parts.attention))
    yield from (_work("E", op) for op in on_device(parts.behind, links=True))


def _work(stage: str, op: Op) -> Work:
    if op.kind in LINKS:
        return Work(stage, ALL_REDUCE, 0, 0, sends=op)
    moved = op.moved
    weights = moved.weights if op.kind == "gemm" else 0
    return Work(stage, title(op), *_asked(op, moved), weights, op.weight_bits)


def _attention(core: Sequence[Op]) -> tuple[int, int, int]:
    """Operations and elements, and those of the cache: logits stay on the chip, and values that are parts of keys are
    read with them."""
    elements = cached = 0
    for op in core:
        if op.kind in ("score", "value"):
            each = op.kv_heads * (op.head_dim - op.shared) + op.shared
            fetched = 0 if op.kind == "value" and values_in_keys(core, op) else op.cached * each
            elements += fetched + op.rows * op.heads * op.head_dim
            cached += fetched if op.from_cache else 0
        elif op.kind == "softmax":
            elements += op.moved.weights  # sinks
    return 2 * sum(op.macs for op in core), elements, cached


def alone(op: Op) -> Work:
    """An operator before or behind the layers."""
    if op.kind in LINKS:
        return Work("", op.name, 0, 0, sends=op)
    narrow = (0, None) if op.weight_bits is None else (op.moved.weights, op.weight_bits)
    return Work("", op.name, *_asked(op, op.moved), *narrow)


def _asked(op: Op, moved: Moved) -> tuple[int, int, int]:
    """Operations and elements, and those of the cache. Work on vectors is bound by memory on any such machine, its few
    operations and parameters do not count."""
    weights = moved.weights if op.kind in ("gemm", "embedding") else 0
    return 2 * op.macs, weights + moved.cache_read + moved.read + moved.written, moved.cache_read
