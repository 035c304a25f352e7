"""The GPUs and stacks of AttAcc, and the layers that run on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import msgspec

from pimloom.arch.link import Fabric, Link
from pimloom.arch.link_names import named_links
from pimloom.arch.part import Part
from pimloom.arch.routing import EVEN, Routing
from pimloom.mappers.attacc.layout import CHANNELS, Placement
from pimloom.systems.devices.attacc.gpu import Gpu
from pimloom.systems.reference.attacc import Slips

STACKS = 5  # [secondary A] beside each GPU
STACK_GB_S = 670.4  # [secondary A] of a stack's interface at 5.2 Gb/s
GAIN: Mapping[Placement, int] = {Placement.BANK: 9, Placement.BANK_GROUP: 3, Placement.BUFFER: 1}  # [secondary A]
GAIN_UNLIMITED: Mapping[Placement, int] = {Placement.BANK: 16, Placement.BANK_GROUP: 8, Placement.BUFFER: 1}  # [A]


@cache
def nvlink3() -> Fabric:
    """The links of an A100, any number of which they join."""
    return Fabric(msgspec.convert(named_links()["nvlink3"], Link))


class Experts(NamedTuple):
    """Feed-forward parts of a layer, of which each token takes some, as `routing` says."""

    number: int
    chosen: int
    routing: Routing = EVEN


class Decoder(NamedTuple):
    """Equal layers. ffn: width of the feed-forward part, or of an expert's, which a simulator may not round. gated:
    three matrices, not two. kv_heads: heads of K and V, None: of every head; head: its width, None: a share of
    `width`."""

    layers: int
    width: int
    heads: int
    ffn: float
    gated: bool
    kv_heads: int | None = None
    head: int | None = None
    experts: Experts | None = None

    @property
    def groups(self) -> int:
        """Heads of K and V."""
        return self.kv_heads or self.heads

    @property
    def sharers(self) -> int:
        """Query heads that share one of them."""
        return self.heads // self.groups

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.head or self.width // self.heads


@dataclass(frozen=True)
class Stacks:
    """Those beside each GPU."""

    part: Part
    placement: Placement = Placement.BANK
    power_limited: bool = True
    count: int = STACKS
    pipelined: bool = False
    co_processing: bool = False

    def pins_gb_s(self, slips: Slips) -> float:
        """What their pins carry, of all channels."""
        return self.count * (STACK_GB_S if slips.rate_of_one_part else self.part.peak_gb_s * CHANNELS)

    def units_gb_s(self, slips: Slips) -> float:
        """What their units read."""
        return self.pins_gb_s(slips) * (GAIN if self.power_limited else GAIN_UNLIMITED)[self.placement]


@dataclass(frozen=True)
class Box:
    """GPUs that share every layer; attention is done by the stacks, else by the processors of the host, else by them.
    element_bytes: 2 or 1, of weights, K, V and activations. fabric, collective_us: what joins the GPUs, and what a
    collective costs to begin."""

    gpu: Gpu
    gpus: int
    stacks: Stacks | None = None
    host: Gpu | None = None
    element_bytes: int = 2
    fabric: Fabric = field(default_factory=nvlink3)
    collective_us: float = 0.0
