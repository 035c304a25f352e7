"""How a device works: which processors it has and how experts are split between them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pimloom.mappers.experts import (
    ExpertSplit,
    Groups,
    Time,
    alone,
    busiest_to_xpu,
    contiguous,
    dealt_round,
    idlest_to_pim,
)
from pimloom.mappers.experts import optimum as least_of_all
from pimloom.systems.devices.duplex.layers import LayerWork
from pimloom.systems.devices.duplex.memory import BANK, LOGIC, XPU


class Variant(NamedTuple):
    """How a device works. low: path of the processor beside the xPU; co_processing: both at once, experts split between
    them; expert_tp: each expert over all devices of a node; apart: half of the devices have no xPU in use, and all
    experts and decode attention, the other half no processor beside it; times: devices, in those of the other
    systems."""

    name: str
    low: str | None = None
    co_processing: bool = False
    expert_tp: bool = False
    times: int = 1
    apart: bool = False

    def sooner(self, layer: Callable[[str], LayerWork], least_s: float = 0.0) -> tuple[str, LayerWork]:
        """Of the processors that it may run on the one that is done first, and what it does. least_s: what the xPU
        takes at least, which saves working it out."""
        low = self.low and layer(self.low)
        if self.low and low and (self.apart or low.time_s < least_s):
            return self.low, low
        xpu = layer(XPU)
        return (self.low, low) if self.low and low and low.time_s < xpu.time_s else (XPU, xpu)


VARIANTS = (  # [paper]
    Variant("GPU"),
    Variant("2xGPU", times=2),
    Variant("Duplex", LOGIC),
    Variant("Duplex+PE", LOGIC, co_processing=True),
    Variant("Duplex+PE+ET", LOGIC, co_processing=True, expert_tp=True),
    Variant("Bank-PIM", BANK),
)

Tokens = Sequence[int]
Times = Sequence[float]


class Router(NamedTuple):
    """rule: tokens, times on the xPU and on the other processor, groups and the time of both sides to a split. groups:
    of a number of experts, each in a memory space of its own. estimated: by S's estimate of the times, not by those
    that the layers take. spaces: whether memory has any."""

    rule: Callable[[Tokens, Times, Times, Groups, Time], ExpertSplit]
    groups: Callable[[int], Groups]
    estimated: bool = False
    spaces: bool = True


def _optimum(_: Tokens, xpu: Times, pim: Times, groups: Groups, time: Time) -> ExpertSplit:
    return least_of_all(xpu, pim, groups, time)


ROUTERS: Mapping[str, Router] = {
    "idlest_to_pim": Router(idlest_to_pim, dealt_round),  # [paper]
    "busiest_to_xpu": Router(busiest_to_xpu, contiguous, estimated=True),  # [secondary S]
    "idlest_to_pim_alone": Router(idlest_to_pim, alone, spaces=False),  # [design] without the memory spaces
    "busiest_to_xpu_alone": Router(busiest_to_xpu, alone, estimated=True, spaces=False),  # [design]
    "optimum": Router(_optimum, dealt_round),  # [design]
    "optimum_alone": Router(_optimum, alone, spaces=False),  # [design]
}
ESTIMATED_SHARE = 0.75  # [secondary S] of the bandwidth, which an expert's estimate counts on
