"""The links between devices that share a model: those within a domain, and the network between domains."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.part import NonNegative
from pimloom.arch.units import ceil_div


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device's link to its neighbour, or to a switch, in both directions at the same time. Links with a name stand in
    `arch/fabrics/links.yaml`."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "gbps": "rate of a device's link, each way [Gb/s]",
        "latency_ns": "from a message's last bit sent to its arrival at the neighbour [ns]",
        "pj_per_bit": "energy of a bit from one device to another [pJ]; null: not known, and not counted",
        "topology": "ring: each device sends to the next one; switch: to any other, one after the other",
    }

    gbps: Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]
    latency_ns: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    pj_per_bit: NonNegative | None
    topology: Literal["ring", "switch"]


LINKED = {
    "link": "link to the other devices of a domain: a name in arch/fabrics/links.yaml, or its keys",
    "domain": "devices that `link` joins; null: any number [1]",
    "network": "link of each device to those of other domains, as `link`; null: there is none",
}


class Domains(NamedTuple):
    """The domains of a number of devices: how many, and the number of devices in the largest one."""

    domains: int
    inside: int


class Fabric(NamedTuple):
    """The links of each device: `near` joins the devices of a domain, at most `domain` (None: any number); `far` joins
    domains."""

    near: Link
    domain: int | None = None
    far: Link | None = None

    def layout(self, devices: int) -> Domains:
        """Domains for so many devices, as equal as possible; inside: devices of the largest domain."""
        domains = 1 if self.domain is None else ceil_div(devices, self.domain)
        return Domains(domains, ceil_div(devices, domains))


def fabric_of(link: Link | None, domain: int | None, network: Link | None, devices: int, where: str) -> Fabric | None:
    """The links between so many devices; None for one device. where: name of the system in errors. Raises UserError if
    the system has no link, or no network and more devices than a domain."""
    if devices == 1:
        return None
    if link is None:
        raise UserError(f"--tp {devices}: {where} has no key link, which joins devices that share a layer; add one")
    if domain is not None and devices > domain and network is None:
        said = f"its link joins {domain} devices, and it has no key network for more"
        raise UserError(f"--tp {devices}: {where}: {said}; add one, or take at most {domain}")
    return Fabric(link, domain, network)
