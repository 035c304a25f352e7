"""A decode step of a batch on nodes of Duplex devices, of GPUs, or of devices with units in their banks.

Layers follow one another; a step is their sum, of devices that wait for one another the slowest. Layers but for the
experts are cut over the devices of a node, nodes have requests of their own; experts are dealt to all devices, each cut
for `expert_tp` of them (Yun et al., MICRO 2024, on parallelism). Without: embedding, LM head, rotation, softmax.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import ceil_div
from pimloom.mappers.experts import read_units
from pimloom.systems.devices.duplex.beside import APART, KeptSpeed
from pimloom.systems.devices.duplex.layers import ELEMENT_BYTES, LayerWork, Processors, in_turn
from pimloom.systems.devices.duplex.memory import XPU
from pimloom.systems.devices.duplex.variants import ESTIMATED_SHARE, ROUTERS, Variant
from pimloom.workload.shard import cut


class DecodeStep(NamedTuple):
    """One step of all devices: time by part [s], energy by cause [pJ], multiply-accumulates."""

    parts_s: Mapping[str, float]
    pj: Mapping[str, float]
    macs: float

    @property
    def time_s(self) -> float:
        """From the first layer to the end of the last."""
        return sum(self.parts_s.values())


@dataclass(frozen=True)
class Decode:
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
        cut(self.llm, self.devices)
        if self.router not in ROUTERS:
            raise UserError(f"router {self.router!r}: expected one of {', '.join(ROUTERS)}")
        every, experts = self.nodes * self.devices, self.llm.num_experts
        if experts > 1 and (every % self.expert_tp or experts % (every // self.expert_tp)):
            raise UserError(f"{experts} experts of {self.llm.name}: expected to come out even over {every} devices")

    @property
    def expert_tp(self) -> int:
        """Devices that share each expert."""
        return self.devices if self.system.expert_tp else max(self.nodes * self.devices // self.llm.num_experts, 1)

    def step(self, contexts: Sequence[int], tokens: Sequence[Sequence[int]]) -> DecodeStep:
        """One new token of each request. contexts [tokens] count it; tokens: of each expert, a list for each layer that
        has experts."""
        parts, pj, macs = defaultdict[str, float](float), defaultdict[str, float](float), 0.0
        for name, work, devices in (*self._dense(contexts), *(("experts", *self._experts(layer)) for layer in tokens)):
            parts[name] += work.time_s
            macs += devices * work.macs
            for cause, value in work.pj.items():
                pj[cause] += devices * value
        parts["communication"] = self._communication_s(ceil_div(len(contexts), self.nodes))
        return DecodeStep(parts, pj, macs)

    def _dense(self, contexts: Sequence[int]) -> list[tuple[str, LayerWork, int]]:
        """All that every layer, or every layer without experts, has: part, work of a device, how many do it."""
        llm, at, mine, every = self.llm, self.processors, cut(self.llm, self.devices), self.nodes * self.devices
        rows, hidden, layers = ceil_div(len(contexts), self.nodes), llm.hidden_size, llm.num_hidden_layers
        dense = sum(llm.is_dense(i) for i in range(layers))
        qkv = at.linear(XPU, rows, hidden, (mine.heads + 2 * mine.kv_heads) * llm.head_dim)
        attention = _slowest([self._attention(sum(contexts[node :: self.nodes])) for node in range(self.nodes)])
        out = at.linear(XPU, rows, mine.heads * llm.head_dim, hidden)
        found = [("qkv", qkv), ("attention", attention), ("projection", out), ("other", self._between(rows))]
        made = [(name, work.times(layers), every) for name, work in found]
        ffn = at.expert(XPU, rows, hidden, mine.ffn, 1 + llm.gated_ffn)
        gate = at.linear(XPU, rows, hidden, llm.num_experts)
        return [*made, ("ffn", ffn.times(dense), every), ("experts", gate.times(layers - dense), every)]

    def _attention(self, seen: int) -> LayerWork:
        """On a device of a node whose requests have so many tokens together."""
        at, llm, mine = self.processors, self.llm, cut(self.llm, self.devices)
        return self._shorter(lambda path: at.attention(path, seen, mine.heads, mine.kv_heads, llm.head_dim))

    def _between(self, rows: int) -> LayerWork:
        """Two norms and two sums of a layer, of whole vectors on every device."""
        elements = rows * self.llm.hidden_size
        norm, add = self.processors.elementwise(elements, 1, 1), self.processors.elementwise(elements, 2, 1)
        return in_turn([norm, norm, add, add])

    def _shorter(self, layer: Callable[[str], LayerWork]) -> LayerWork:
        """On the processor that is done first."""
        found = [layer(path) for path in (XPU, self.system.low) if path]
        return min(found, key=lambda work: work.time_s)

    def _experts(self, tokens: Sequence[int]) -> tuple[LayerWork, int]:
        """The experts of a layer: work of a device, and how many do it."""
        groups = self.nodes * self.devices // self.expert_tp
        each = len(tokens) // groups
        found = [self._experts_of(tokens[i * each : (i + 1) * each]) for i in range(groups)]
        return _slowest(found), groups * self.expert_tp

    def _experts_of(self, tokens: Sequence[int]) -> LayerWork:
        """The experts of one device."""
        if not self.system.co_processing or self.system.low is None:
            return in_turn(self._shorter(partial(self._expert, rows=n)) for n in tokens)
        router = ROUTERS[self.router]
        both = [[self._expert(path, n) for n in tokens] for path in (XPU, self.system.low)]
        on_xpu, on_low = self._estimated(tokens) if router.estimated else ([w.time_s for w in side] for side in both)
        time = max if router.estimated else self.beside.together_s
        there = set(router.rule(tokens, on_xpu, on_low, router.groups(len(tokens)), time).xpu)
        xpu = in_turn(work for i, work in enumerate(both[0]) if i in there)
        low = in_turn(work for i, work in enumerate(both[1]) if i not in there)
        return in_turn([xpu, low])._replace(time_s=self.beside.together_s(xpu.time_s, low.time_s))

    def _estimated(self, tokens: Sequence[int]) -> tuple[list[float], list[float]]:
        """S's times on the xPU and on Logic-PIM; an expert without tokens is charged, too."""
        device, share = self.processors.device, ESTIMATED_SHARE
        on_xpu = self.processors.flops[XPU] / device.xpu_bytes_s
        xpu = [read_units(n, on_xpu, share=share) for n in tokens]
        return xpu, [read_units(n, device.logic_op_per_byte, device.logic_times, share) for n in tokens]

    def _expert(self, path: str, rows: int) -> LayerWork:
        width = ceil_div(self.llm.expert_intermediate_size, self.expert_tp)
        return self.processors.expert(path, rows, self.llm.hidden_size, width, 1 + self.llm.gated_ffn)

    def _communication_s(self, rows: int) -> float:
        """All-reduces of a step, and tokens to experts on other nodes and back."""
        llm, at = self.llm, self.processors
        size = ELEMENT_BYTES * rows * llm.hidden_size
        layers = llm.num_hidden_layers
        sparse = sum(not llm.is_dense(i) for i in range(layers))
        total = 2 * layers * at.all_reduce_s(size, self.devices)
        if self.expert_tp > 1:
            total += sparse * at.all_reduce_s(size, self.expert_tp)
        if self.nodes > 1:
            away = size * llm.num_experts_per_tok * (1 - 1 / self.nodes) / self.devices
            links = at.device.spec.links
            total += sparse * (links.hop_s(away, network=True) + links.hop_s(away / self.expert_tp, network=True))
        return total


def _slowest(found: Sequence[LayerWork]) -> LayerWork:
    """Of devices that wait for one another: their mean, but for the time, which is that of the slowest."""
    mean = in_turn(found).times(1 / len(found))
    return mean._replace(time_s=max(work.time_s for work in found))
