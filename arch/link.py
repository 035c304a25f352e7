"""The links between devices that share a model."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.part import NonNegative


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device's link to its neighbour; it sends and receives at once."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "gbps": "rate of a device's link, each way [Gb/s]",
        "latency_ns": "from a message's last bit sent to its arrival at the neighbour [ns]",
        "pj_per_bit": "energy of a bit from one device to its neighbour [pJ]",
        "topology": "ring: each device sends to the next one",
    }

    gbps: Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]
    latency_ns: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    pj_per_bit: NonNegative
    topology: Literal["ring"]
