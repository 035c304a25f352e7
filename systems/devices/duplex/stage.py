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

from pimloom.arch.error import UserError
from pimloom.arch.link import Fabric
from pimloom.arch.llm import LlmSpec
from pimloom.arch.near import next_to
from pimloom.arch.units import S_PER_PS
from pimloom.cycle_sim.link import Sent, all_gather, all_reduce
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
from pimloom.systems.devices.duplex.links import QUIET, exchanged, handed, in_nodes
from pimloom.systems.devices.duplex.memory import XPU
from pimloom.systems.devices.duplex.variants import Variant
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, layer_ops, outside
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
        """Time of the processors' work and the communication after it [s]."""
        return self.work.time_s + self.sent_s

    @property
    def sent_s(self) -> float:
        """Time of the communication between devices [s]."""
        return self.sent.ps * S_PER_PS


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
        self._check_experts()
        assert self.experts

    def _check_experts(self) -> None:
        """Raise UserError unless they come out even over the groups that share one, each of which is of one node."""
        experts, name = self.llm.num_experts, self.llm.name

        def shared(nodes: int) -> int:
            return self.half if self.system.expert_tp else max(nodes * self.half // experts, 1)

        def even(nodes: int) -> bool:
            every, tp = nodes * self.half, shared(nodes)
            return not (every % tp or experts % (every // tp) or self.half % tp)

        if experts > 1 and not even(self.nodes):
            fit = next_to(self.nodes, filter(even, range(1, 2 * self.nodes + experts)))
            said = f"{experts} experts of {name}: expected to come out even over {self.every} devices"
            if self.half % (tp := shared(self.nodes)):
                said = f"{experts} experts of {name}: each is cut over {tp} devices, and a node has {self.half}"
            if not self.system.expert_tp and not experts % self.nodes:
                raise UserError(f"{said}; set expert_tp=true{f', or nodes to {fit}' if fit else ''}")
            raise UserError(f"nodes: {said}; nearest: {fit}" if fit else f"{said}; take another number of devices")

    @property
    def half(self) -> int:
        """Devices of a node whose xPU works, and as many whose other processor does: all of them unless apart."""
        return self.devices // 2 if self.system.apart else self.devices

    @property
    def every(self) -> int:
        """Devices of all nodes whose xPU works [1]."""
        return self.nodes * self.half

    @property
    def expert_tp(self) -> int:
        """Devices that share each expert."""
        return self.half if self.system.expert_tp else max(self.every // self.llm.num_experts, 1)

    @cached_property
    def experts(self) -> Experts:
        """The experts of one layer, with the devices that share them."""
        beside = APART if self.system.apart else self.beside
        return Experts(self.llm, self.system, self.processors, self.every, self.expert_tp, self.router, beside)

    def dealt(self, batch: Batch) -> list[Batch]:
        """The requests of each node, which takes every `nodes`-th request of a batch."""
        return [Batch(batch.requests[node :: self.nodes]) for node in range(self.nodes)]

    def decode(self, contexts: Sequence[int], tokens: Sequence[Sequence[int]]) -> StageSum:
        """One new token of each request, all layers alone. contexts [tokens] count it; tokens: of each expert, a list
        for each layer that has experts."""
        return self.summed(self.pieces(Batch.decode(contexts), tokens))

    def summed(self, pieces: Iterable[Piece]) -> StageSum:
        """Time [s], energy [pJ] without links, and multiply-accumulates of all pieces, one after the other."""
        parts, pj, macs, every = defaultdict[str, float](float), defaultdict[str, float](float), 0.0, self.every
        for piece in pieces:
            parts[piece.name] += piece.time_s
            for side in (piece.work.xpu, piece.work.low):
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
            yield from self._end(dealt, 0)
        groups = list(equal_layers(llm, here))
        made = {group[0]: list(self._before_ffn(dealt, group[0])) for group in groups}
        rows = [node.rows for node in dealt]
        after = {group[0]: Piece("communication", sent=self._behind_ffn(rows, group[0])) for group in groups}
        first = {layer: group[0] for group in groups for layer in group}
        for layer in here:
            yield from made[first[layer]]
            if not llm.is_dense(layer):
                yield Piece("experts", self.experts.layer(next(waiting)))
            yield after[first[layer]]
        if outside:
            yield from self._end(dealt, 1)

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
            yield Piece("communication", sent=self._reduced([node.rows for node in dealt]))
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

    def _end(self, dealt: Sequence[Batch], behind: int) -> Iterator[Piece]:
        """What stands before all layers, or behind them: of each node what it has of it."""
        found = [{op.name: op for op in self._ends(node)[behind]} for node in dealt]
        for name, op in max(found, key=len).items():
            same = [ops[name] for ops in found if name in ops]
            if op.kind in LINKS:
                yield Piece(name, sent=self._talk(same))
            else:
                idle = [IDLE] * (len(found) - len(same))
                yield Piece(name, slowest([*(Pair.of(XPU, self._alone(one)) for one in same), *idle]))

    def _ends(self, node: Batch) -> tuple[list[Op], list[Op]]:
        return outside(self.llm, node, Shard(tp=self.half)) if node.requests else ([], [])

    def _alone(self, op: Op) -> LayerWork:
        if op.kind == "gemm":
            return self.processors.linear(XPU, op.rows, op.n_in, op.n_out)
        return self.processors.elementwise(op.moved.read + op.moved.weights, op.moved.written)

    def _talk(self, same: Sequence[Op]) -> Sent:
        """An operator of the links, of each node that has it."""
        devices, sizes = same[0].devices, [ELEMENT_BYTES * op.rows * op.n_out for op in same]
        if same[0].kind == "all_gather":  # rows x n_out: the part of a device
            return in_nodes(all_gather, self._links, [devices * size for size in sizes], devices)
        return in_nodes(all_reduce, self._links, sizes, devices)

    def _reduced(self, rows: Sequence[int]) -> Sent:
        return in_nodes(all_reduce, self._links, self._vectors(rows), self.half)

    def _behind_ffn(self, rows: Sequence[int], layer: int) -> Sent:
        """Sums of the FFN's parts; tokens to experts on other devices or nodes, and back. rows: of each node."""
        found, sizes, tp, apart = self._reduced(rows), self._vectors(rows), self.expert_tp, self.system.apart
        if self.llm.is_dense(layer):
            return found
        if apart:
            there = handed(self._links, [size * self.half for size in sizes], self.half)
            found = found.plus(there).plus(there)
        if tp > 1:
            found = found.plus(in_nodes(all_reduce, self._links, sizes, tp, self.half // tp))
        if self.nodes > 1:
            away = self.llm.num_experts_per_tok * (1 - 1 / self.nodes) / self.half
            for _ in ("there", "back"):  # a whole vector each way, of which devices that share an expert have a part
                found = found.plus(exchanged(self._links, [size * away for size in sizes], self.half))
        return found

    def _heads_handed(self, dealt: Sequence[Batch]) -> Sent:
        """Queries, keys and values of new tokens to the devices that attend, and what comes of them."""
        llm, rows = self.llm, [node.of("decode", "verify").rows for node in dealt]
        elements = 2 * (llm.num_attention_heads + llm.num_key_value_heads) * llm.head_dim
        return handed(self._links, [ELEMENT_BYTES * n * elements for n in rows], self.half) if any(rows) else QUIET

    def _vectors(self, rows: Sequence[int]) -> list[int]:
        return [ELEMENT_BYTES * n * self.llm.hidden_size for n in rows]

    @cached_property
    def _links(self) -> Fabric:
        return self.processors.device.spec.links.fabric()
