"""Communication between devices of Duplex systems: collectives of rings in each node, and messages between pairs.

sizes: bytes of each node. Nodes send at the same time, so the largest one sets the time.
"""

from collections.abc import Callable, Sequence
from math import ceil

from pimloom.arch.link import Fabric
from pimloom.cycle_sim.link import Sent, send_ps

QUIET = Sent()
Collective = Callable[[Fabric, int, int], Sent]  # `all_reduce` or `all_gather` of `cycle_sim.link`


def in_nodes(collective: Collective, links: Fabric, sizes: Sequence[int], devices: int, rings: int = 1) -> Sent:
    """A collective over a ring of `devices` in each node, or over several rings at the same time."""
    each = [collective(Fabric(links.near), size, devices) for size in sizes]
    return Sent(max(one.ps for one in each), rings * sum(one.near_bytes for one in each))


def handed(links: Fabric, sizes: Sequence[int], pairs: int) -> Sent:
    """One message in each pair of devices of a node, which share the node's bytes equally."""
    return Sent(send_ps(links.near, ceil(max(sizes) / pairs)), sum(sizes))


def exchanged(links: Fabric, sizes: Sequence[float], devices: int) -> Sent:
    """One message of each of a node's `devices` to other nodes. sizes: bytes of a message; a mean may be no integer."""
    assert links.far is not None
    return Sent(send_ps(links.far, ceil(max(sizes))), far_bytes=ceil(devices * sum(sizes)))
