"""The experts of a layer on devices with an xPU and another processor."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import ceil_div
from pimloom.mappers.experts import read_units
from pimloom.systems.devices.duplex.beside import APART, KeptSpeed
from pimloom.systems.devices.duplex.layers import LayerWork, Pair, Processors, in_turn, slowest
from pimloom.systems.devices.duplex.memory import XPU
from pimloom.systems.devices.duplex.variants import ESTIMATED_SHARE, ROUTERS, Variant


@dataclass(frozen=True)
class Experts:
    """They are dealt to groups of `tp` of all `devices`, each cut for those of its group.

    Raises UserError: experts that do not come out even, an unknown router.
    """

    llm: LlmSpec
    system: Variant
    processors: Processors
    devices: int
    tp: int
    router: str
    beside: KeptSpeed = APART
    known: dict[tuple[int, ...], Pair] = field(default_factory=dict, compare=False)  # layers that were asked for

    def __post_init__(self) -> None:
        if self.router not in ROUTERS:
            raise UserError(f"router {self.router!r}: expected one of {', '.join(ROUTERS)}")
        every, experts = self.devices, self.llm.num_experts
        if experts > 1 and (every % self.tp or experts % (every // self.tp)):
            said = f"{experts} experts of {self.llm.name}: expected to come out even over {every} devices"
            raise UserError(f"{said}; take another number of nodes or devices")

    def layer(self, tokens: Sequence[int]) -> Pair:
        """All of them, with so many tokens each."""
        key = tuple(tokens)
        if key not in self.known:
            groups = self.devices // self.tp
            each = len(tokens) // groups
            self.known[key] = slowest([self._device(tokens[i * each : (i + 1) * each]) for i in range(groups)])
        return self.known[key]

    def _device(self, tokens: Sequence[int]) -> Pair:
        """The experts of one device."""
        if self.system.low is None or not self.system.co_processing:
            return self._in_turn(tokens)
        router = ROUTERS[self.router]
        both = [[self._expert(path, n) for n in tokens] for path in (XPU, self.system.low)]
        on_xpu, on_low = self._estimated(tokens) if router.estimated else ([w.time_s for w in side] for side in both)
        time = max if router.estimated else self.beside.together_s
        there = set(router.rule(tokens, on_xpu, on_low, router.groups(len(tokens)), time).xpu)
        xpu = in_turn(work for i, work in enumerate(both[0]) if i in there)
        low = in_turn(work for i, work in enumerate(both[1]) if i not in there)
        return Pair(xpu, low, self.beside.together_s(xpu.time_s, low.time_s), at_once=True)

    def _in_turn(self, tokens: Sequence[int]) -> Pair:
        """Each on the processor that is done first."""
        found = [self.system.sooner(partial(self._expert, rows=n)) for n in tokens]
        xpu, low = (in_turn(work for path, work in found if (path == XPU) is side) for side in (True, False))
        return Pair(xpu, low, xpu.time_s + low.time_s)

    def _estimated(self, tokens: Sequence[int]) -> tuple[list[float], list[float]]:
        """S's times on the xPU and on Logic-PIM; an expert without tokens is charged, too."""
        device, share = self.processors.device, ESTIMATED_SHARE
        on_xpu = self.processors.flops[XPU] / device.xpu_bytes_s
        xpu = [read_units(n, on_xpu, share=share) for n in tokens]
        return xpu, [read_units(n, device.logic_op_per_byte, device.logic_times, share) for n in tokens]

    def _expert(self, path: str, rows: int) -> LayerWork:
        width = ceil_div(self.llm.expert_intermediate_size, self.tp)
        return self.processors.expert(path, rows, self.llm.hidden_size, width, 1 + self.llm.gated_ffn)
