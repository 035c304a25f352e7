"""What devices of Duplex systems send one another."""

from typing import NamedTuple

from pimloom.arch.duplex import Links


class Sent(NamedTuple):
    """Time [s], and bytes over all links of the nodes, and over those between nodes."""

    time_s: float = 0.0
    node_bytes: float = 0.0
    network_bytes: float = 0.0

    def plus(self, other: "Sent") -> "Sent":
        """Both, one after the other."""
        return Sent(*(a + b for a, b in zip(self, other, strict=True)))


QUIET = Sent()


def all_reduce(links: Links, size_bytes: float, devices: int, nodes: int = 1) -> Sent:
    """A ring in each node: 2 (n - 1) messages of a part each, from every device."""
    hops = 2 * (devices - 1)
    return Sent(hops * links.hop_s(size_bytes / devices), nodes * hops * size_bytes)


def all_gather(links: Links, size_bytes: float, devices: int, nodes: int = 1) -> Sent:
    """A ring in each node: the part of each device, of so many bytes, to all others."""
    hops = devices - 1
    return Sent(hops * links.hop_s(size_bytes), nodes * devices * hops * size_bytes)


def handed(links: Links, size_bytes: float, pairs: int, nodes: int = 1) -> Sent:
    """So many bytes in each node, shared among pairs of devices."""
    return Sent(links.hop_s(size_bytes / pairs), nodes * size_bytes)


def exchanged(links: Links, size_bytes: float, devices: int) -> Sent:
    """So many bytes of each of `devices` devices to other nodes."""
    return Sent(links.hop_s(size_bytes, network=True), network_bytes=devices * size_bytes)
