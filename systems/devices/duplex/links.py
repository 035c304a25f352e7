"""What devices of Duplex systems send one another. sizes: bytes of each node; time is that of the largest."""

from collections.abc import Sequence
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


def all_reduce(links: Links, sizes: Sequence[float], devices: int, rings: float = 1) -> Sent:
    """A ring, or several, in each node: 2 (n - 1) messages of a part each, from every device."""
    hops = 2 * (devices - 1)
    return Sent(hops * links.hop_s(max(sizes) / devices), rings * hops * sum(sizes))


def all_gather(links: Links, sizes: Sequence[float], devices: int) -> Sent:
    """A ring in each node: the part of each device, of so many bytes, to all others."""
    hops = devices - 1
    return Sent(hops * links.hop_s(max(sizes)), devices * hops * sum(sizes))


def handed(links: Links, sizes: Sequence[float], pairs: int) -> Sent:
    """So many bytes in each node, shared among pairs of devices."""
    return Sent(links.hop_s(max(sizes) / pairs), sum(sizes))


def exchanged(links: Links, sizes: Sequence[float], devices: int) -> Sent:
    """So many bytes of each of a node's `devices` to other nodes."""
    return Sent(links.hop_s(max(sizes), network=True), network_bytes=devices * sum(sizes))
