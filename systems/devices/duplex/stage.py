"""A stage, which is one step of a batch, on nodes of Duplex devices, of GPUs, or of devices with units in their banks.

Layers follow one another; of devices that wait for one another the slowest counts. Layers but for the experts are cut
over the devices of a node, nodes have requests of their own; experts are dealt to all devices, each cut for `expert_tp`
of them (Yun et al., MICRO 2024, on parallelism). Rotation, softmax and biases are part of what stands beside them and
take nothing [design].
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from pimloom.arch.duplex import Links
from pimloom.arch.llm import LlmSpec
from pimloom.systems.devices.duplex.beside import APART, KeptSpeed
from pimloom.systems.devices.duplex.experts import Experts
from pimloom.systems.devices.duplex.layers import (
    ELEMENT_BYTES,
    NOTHING,
    LayerWork,
    Pair,
    Processors,
    Seen,
    in_turn,
    slowest,
)
from pimloom.systems.devices.duplex.links import QUIET, Sent, all_gather, all_reduce, exchanged, handed
from pimloom.systems.devices.duplex.memory import XPU
from pimloom.systems.devices.duplex.variants import Variant
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ends, equal_layers, layer_ops, ops
from pimloom.workload.op import LINKS, Op
from pimloom.workload.shard import Shard, cut

IDLE = Pair(NOTHING, NOTHING, 0.0)


class Piece(NamedTuple):
    """A part of a stage: what a device does, or what devices send one another."""

    name: str
    work: Pair = IDLE
    sent: Sent = QUIET

    @property
    def time_s(self) -> float:
        """Of the part."""
        return self.work.time_s + self.sent.time_s


class StageSum(NamedTuple):
    """A stage of all devices: time by part [s], energy by cause [pJ] without links, multiply-accumulates."""

    parts_s: Mapping[str, float]
    pj: Mapping[str, float]
    macs: float

    @property
    def time_s(self) -> float:
        """From the first layer to the end of the last."""
        return sum(self.parts_s.values())


@dataclass(frozen=True)
class Stages:
    """A model on `nodes` x `devices` of a system; beside: what both processors lose where they work at once.

    Raises UserError: experts or heads that do not come out even, an unknown router.
    """

    llm: LlmSpec
    system: Variant
    processors: Processors
    nodes: int
    devices: int
    router: str = "idlest_to_pim"
    beside: KeptSpeed = APART

    def __post_init__(self) -> None:
        cut(self.llm, self.half)
        assert self.experts

    @property
    def half(self) -> int:
        """Devices of a node whose xPU works, and as many whose other processor does: all of them unless apart."""
        return self.devices // 2 if self.system.apart else self.devices

    @property
    def every(self) -> int:
        """The same of all nodes."""
        return self.nodes * self.half

    @property
    def expert_tp(self) -> int:
        """Devices that share each expert."""
        return self.half if self.system.expert_tp else max(self.every // self.llm.num_experts, 1)

    @cached_property
    def experts(self) -> Experts:
        """Of a layer."""
        beside = APART if self.system.apart else self.beside
        return Experts(self.llm, self.system, self.processors, self.every, self.expert_tp, self.router, beside)

    def dealt(self, batch: Batch) -> list[Batch]:
        """The requests of each node."""
        return [Batch(batch.requests[node :: self.nodes]) for node in range(self.nodes)]

    def decode(self, contexts: Sequence[int], tokens: Sequence[Sequence[int]]) -> StageSum:
        """One new token of each request, all layers alone. contexts [tokens] count it; tokens: of each expert, a list
        for each layer that has experts."""
        return self.summed(self.pieces(Batch.decode(contexts), tokens))

    def summed(self, pieces: Iterable[Piece]) -> StageSum:
        """All pieces together."""
        parts, pj, macs, every = defaultdict[str, float](float), defaultdict[str, float](float), 0.0, self.every
        for name, work, sent in pieces:
            parts[name] += work.time_s + sent.time_s
            for side in (work.xpu, work.low):
                macs += every * side.macs
                for cause, value in side.pj.items():
                    pj[cause] += every * value
        return StageSum(parts, pj, macs)

    def pieces(
        self, batch: Batch, tokens: Sequence[Sequence[int]], layers: int | None = None, *, outside: bool = False
    ) -> Iterator[Piece]:
        """All parts of a stage, in order. layers: the first so many, else all; outside: with what stands before and
        behind the layers."""
        llm, dealt, waiting = self.llm, self.dealt(batch), iter(tokens)
        here = range(layers or llm.num_hidden_layers)
        if outside:
            yield from self._end(max(dealt, key=lambda node: node.rows), 0)
        made = {group[0]: list(self._before_ffn(dealt, group[0])) for group in equal_layers(llm, here)}
        first = {layer: group[0] for group in equal_layers(llm, here) for layer in group}
        for layer in here:
            yield from made[first[layer]]
            if not llm.is_dense(layer):
                yield Piece("experts", self.experts.layer(next(waiting)))
            yield Piece("communication", sent=self._behind_ffn(max(node.rows for node in dealt), layer))
        if outside:
            yield from self._end(max(dealt, key=lambda node: node.logits), 1)

    def _before_ffn(self, dealt: Sequence[Batch], layer: int) -> Iterator[Piece]:
        """A layer but for its experts and what comes of them: norms and sums first, though some stand behind."""
        llm, at, mine, hidden = self.llm, self.processors, cut(self.llm, self.half), self.llm.hidden_size
        qkv, gates, sparse = (mine.heads + 2 * mine.kv_heads) * llm.head_dim, 1 + llm.gated_ffn, not llm.is_dense(layer)

        def on_xpu(name: str, work: Callable[[Batch], LayerWork]) -> Piece:
            return Piece(name, slowest([Pair.of(XPU, work(node)) for node in dealt]))

        yield on_xpu("qkv", lambda node: at.linear(XPU, node.rows, hidden, qkv))
        if self.system.apart:
            yield Piece("communication", sent=self._heads_handed(dealt))
        window = llm.window_of(layer)
        yield Piece("attention", slowest([self._attention(node, window) for node in dealt]))
        yield on_xpu("projection", lambda node: at.linear(XPU, node.rows, mine.heads * llm.head_dim, hidden))
        yield on_xpu("other", lambda node: self._between(node, layer))
        if not llm.parallel_attention:
            rows = max(node.rows for node in dealt)
            yield Piece("communication", sent=self._reduced(rows))
        if not sparse:
            yield on_xpu("ffn", lambda node: at.expert(XPU, node.rows, hidden, mine.ffn, gates))
            return
        yield on_xpu("experts", lambda node: at.linear(XPU, node.rows, hidden, llm.num_experts))
        if shared := llm.num_shared_experts:
            yield on_xpu("ffn", lambda node: at.expert(XPU, node.rows, hidden, shared * mine.expert_ffn, gates))

    def _attention(self, node: Batch, window: int | None) -> Pair:
        """Of a node: prompts on the xPU, others on the processor that is done first, at once where it can be."""
        prompts, others = node.of("prefill", "train"), node.of("decode", "verify")
        xpu = NOTHING
        if prompts.requests:
            xpu = self._attend(XPU, Seen(prompts.attended(window), prompts.cached(window), prompts.rows))
        flowing = others.rows if others.rows > len(others.requests) else 0
        seen = Seen(others.attended(window), others.cached(window), flowing)
        path, work = self.system.sooner(partial(self._attend, seen=seen), self._least_s(seen))
        if path == XPU:
            return Pair.of(XPU, in_turn([xpu, work]))
        if not (self.system.co_processing or self.system.apart):
            return Pair(xpu, work, xpu.time_s + work.time_s)
        return Pair(xpu, work, self.experts.beside.together_s(xpu.time_s, work.time_s), at_once=True)

    def _least_s(self, seen: Seen) -> float:
        """What attention takes at least on the xPU: its memory."""
        mine = cut(self.llm, self.half)
        return 2 * self.processors.memory.least_s(XPU, ELEMENT_BYTES * seen.cached * mine.kv_heads * self.llm.head_dim)

    def _attend(self, path: str, seen: Seen) -> LayerWork:
        mine = cut(self.llm, self.half)
        return self.processors.attention(path, seen, mine.heads, mine.kv_heads, self.llm.head_dim)

    def _between(self, node: Batch, layer: int) -> LayerWork:
        """Norms and sums of a layer, each of whole vectors."""
        found = layer_ops(self.llm, Batch.prefill([node.rows]), Shard(tp=self.half), layer) if node.rows else ()
        mine = (op for op in found if op.kind in ("norm", "add") and not op.name.startswith("mlp.experts"))
        return in_turn([self.processors.elementwise(op.moved.read, op.moved.written) for op in mine])

    def _end(self, node: Batch, behind: int) -> Iterator[Piece]:
        """What stands before all layers, or behind them."""
        for op in ends(ops(self.llm, node, Shard(tp=self.half)))[behind]:
            if op.kind in LINKS:
                yield Piece(op.name, sent=self._talk(op))
            else:
                yield Piece(op.name, Pair.of(XPU, self._alone(op)))

    def _alone(self, op: Op) -> LayerWork:
        if op.kind == "gemm":
            return self.processors.linear(XPU, op.rows, op.n_in, op.n_out)
        return self.processors.elementwise(op.moved.read + op.moved.weights, op.moved.written)

    def _talk(self, op: Op) -> Sent:
        send = all_gather if op.kind == "all_gather" else all_reduce
        return send(self._links, ELEMENT_BYTES * op.rows * op.n_out, op.devices, self.nodes)

    def _reduced(self, rows: int) -> Sent:
        return all_reduce(self._links, self._vectors(rows), self.half, self.nodes)

    def _behind_ffn(self, rows: int, layer: int) -> Sent:
        """Sums of the FFN's parts; tokens to experts on other devices or nodes, and back."""
        found, size, tp, apart = self._reduced(rows), self._vectors(rows), self.expert_tp, self.system.apart
        if self.llm.is_dense(layer):
            return found
        if apart:
            there = handed(self._links, size * self.half, self.half, self.nodes)
            found = found.plus(there).plus(there)
        if tp > 1:
            found = found.plus(all_reduce(self._links, size, tp, self.every // tp))
        if self.nodes > 1:
            away = size * self.llm.num_experts_per_tok * (1 - 1 / self.nodes) / self.half
            for size_bytes in (away, away / tp):
                found = found.plus(exchanged(self._links, size_bytes, self.every))
        return found

    def _heads_handed(self, dealt: Sequence[Batch]) -> Sent:
        """Queries, keys and values of new tokens to the devices that attend, and what comes of them."""
        llm, rows = self.llm, max(node.of("decode", "verify").rows for node in dealt)
        elements = 2 * (llm.num_attention_heads + llm.num_key_value_heads) * llm.head_dim
        return handed(self._links, ELEMENT_BYTES * rows * elements, self.half, self.nodes) if rows else QUIET

    def _vectors(self, rows: int) -> int:
        return ELEMENT_BYTES * rows * self.llm.hidden_size

    @property
    def _links(self) -> Links:
        return self.processors.device.spec.links
