"""A GPU or CPU of which its peak rate and its bandwidth are known."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.link import LINKED, Fabric, Link, fabric_of
from pimloom.arch.part import Positive
from pimloom.arch.routing import Routing

Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=1e-6, le=1)]
Rate = Annotated[float, msgspec.Meta(ge=1e-6, le=1e9)]  # far beyond any processor, so that times are finite
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class RooflineSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU or CPU baseline: bandwidth, peak rate and a fixed cost per kernel."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "peak_tflops": "peak arithmetic rate [TFLOPS]",
        "memory_gb_s": "memory bandwidth [GB/s]",
        "memory_bytes": "memory [bytes]",
        "peak_share": "share of the peak rate that can be had [1]",
        "memory_share": "share of the memory bandwidth that can be had [1]",
        "element_bits": "width of weights and cache [bits]",
        "power_w": "power while it runs [W]",
        "idle_w": "power while it has nothing to do [W]; null: not known, and not counted",
        "launch_us": "cost of one kernel launch [µs]",
        "kernels_per_layer": "kernels of one decoder layer and token [1]; a parallel block takes one less",
        "collective_us": "fixed time of a collective, for launch and barrier [µs]; null: not counted",
        **LINKED,
    }

    description: str
    kind: Literal["roofline"]
    peak_tflops: Rate
    memory_gb_s: Rate
    memory_bytes: Positive
    peak_share: Share
    memory_share: Share
    element_bits: Positive
    power_w: Rate
    launch_us: Amount
    kernels_per_layer: Count
    idle_w: Amount | None = None
    link: Link | None = None
    domain: Positive | None = None
    network: Link | None = None
    collective_us: Amount | None = None
    routing: Routing = Routing()

    def fabric(self, devices: int, where: str) -> Fabric | None:
        """The links between so many devices, as `fabric_of` returns them; None for one device. where: names the system
        in errors. Raises UserError if the file has no link that joins them."""
        return fabric_of(self.link, self.domain, self.network, devices, where)
