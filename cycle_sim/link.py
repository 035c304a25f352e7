"""Messages between devices: what they take on a ring or through a switch, within a domain and between domains.

A message holds its sender's link for its bits, and arrives a latency later. In a ring a device has one link to the next
and one from the one before, and sends on what has arrived as a whole. A collective of n bytes over p devices works on p
parts of n / p bytes: in each step every device sends one part to its neighbour. After p - 1 steps of a reduce-scatter
each device holds one part's sum; after p - 1 of an all-gather all hold all of them. The largest part meets no wait and
travels all steps, so its way is the time of the whole.

Through a switch a device sends to every other one, message behind message on its own link: a reduce-scatter, or an
all-gather, is one step of p - 1 parts. An all-reduce is both (two-shot), or every device sends all n bytes to all
others (one-shot), whichever ends first: few bytes go at once, many in parts. vLLM chooses between these two
(csrc/custom_all_reduce.cuh, by fixed sizes), NCCL by what its model takes for each (src/graph/tuning.cc) [secondary].

Over domains each device works with those of the same place in other domains: parts are summed within a domain, then
between them over the network, then gathered within.
"""

from fractions import Fraction
from typing import NamedTuple

from pimloom.arch.link import Fabric, Link
from pimloom.arch.units import BITS_PER_BYTE, PS_PER_NS, ceil_div


class Sent(NamedTuple):
    """Time of a collective [ps], and bytes over all links within domains, and over all of the network."""

    ps: int = 0
    near_bytes: int = 0
    far_bytes: int = 0

    def plus(self, other: "Sent") -> "Sent":
        """Both, one after the other."""
        return Sent(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def all_bytes(self) -> int:
        """Over all links."""
        return self.near_bytes + self.far_bytes

    def pj(self, fabric: Fabric) -> float:
        """Energy on all links; a link whose energy is not known counts nothing."""
        far = fabric.far.pj_per_bit if fabric.far else None
        return BITS_PER_BYTE * (self.near_bytes * (fabric.near.pj_per_bit or 0) + self.far_bytes * (far or 0))


def bits_ps(link: Link, n_bytes: int) -> int:
    """For how long a message of `n_bytes` holds a link [ps]."""
    bits = Fraction(n_bytes * BITS_PER_BYTE * PS_PER_NS)
    exact = bits / Fraction(link.gbps)  # 1 Gb/s is a bit in 1 ns
    return ceil_div(exact.numerator, exact.denominator)


def send_ps(link: Link, n_bytes: int) -> int:
    """A message of `n_bytes` from a device to its neighbour [ps]; none if it is empty."""
    return bits_ps(link, n_bytes) + latency_ps(link) if n_bytes else 0


def latency_ps(link: Link) -> int:
    """From a message's last bit to its arrival [ps]."""
    return round(Fraction(link.latency_ns) * PS_PER_NS)


def reduce_scatter_ps(link: Link, n_bytes: int, devices: int) -> int:
    """Until each of `devices` holds the sum of its part of `n_bytes` [ps]."""
    part = ceil_div(n_bytes, devices)
    return send_ps(link, (devices - 1) * part) if link.topology == "switch" else (devices - 1) * send_ps(link, part)


def all_gather_ps(link: Link, n_bytes: int, devices: int) -> int:
    """Until all `devices` hold all parts of `n_bytes` [ps]."""
    return reduce_scatter_ps(link, n_bytes, devices)


def all_reduce_ps(link: Link, n_bytes: int, devices: int) -> int:
    """Until all `devices` hold the sum of all their `n_bytes` [ps]."""
    return _all_reduce(link, n_bytes, devices).ps


def all_reduce_bytes(n_bytes: int, devices: int) -> int:
    """Bytes that cross all links together in an all-reduce of `n_bytes` in parts."""
    return 2 * (devices - 1) * n_bytes


def _all_reduce(link: Link, n_bytes: int, devices: int) -> Sent:
    """In parts, or through a switch at once if that ends first."""
    in_parts = reduce_scatter_ps(link, n_bytes, devices) + all_gather_ps(link, n_bytes, devices)
    found = Sent(in_parts, all_reduce_bytes(n_bytes, devices))
    if link.topology == "ring":
        return found
    at_once = Sent(send_ps(link, (devices - 1) * n_bytes), devices * (devices - 1) * n_bytes)
    return min(found, at_once)


def all_reduce(fabric: Fabric, n_bytes: int, devices: int) -> Sent:
    """Until all `devices` hold the sum of all their `n_bytes`.

    >>> nvlink = Link(gbps=8, latency_ns=5, pj_per_bit=1, topology="ring")  # a byte in 1 ns
    >>> all_reduce(Fabric(nvlink), 800, 4)  # 6 steps of 200 ns and 5 ns
    Sent(ps=1230000, near_bytes=4800, far_bytes=0)
    """
    domains, inside = fabric.layout(devices)
    near = _all_reduce(fabric.near, n_bytes, inside)
    if domains == 1:
        return near
    assert fabric.far is not None
    part = ceil_div(n_bytes, inside)
    far = _all_reduce(fabric.far, part, domains)
    scattered = reduce_scatter_ps(fabric.near, n_bytes, inside) + all_gather_ps(fabric.near, n_bytes, inside)
    return Sent(scattered + far.ps, domains * all_reduce_bytes(n_bytes, inside), inside * far.near_bytes)


def all_gather(fabric: Fabric, n_bytes: int, devices: int) -> Sent:
    """Until all `devices` hold all parts of `n_bytes`: between domains first, then within."""
    domains, inside = fabric.layout(devices)
    ps, near_bytes = all_gather_ps(fabric.near, n_bytes, inside), domains * (inside - 1) * n_bytes
    if domains == 1:
        return Sent(ps, near_bytes)
    assert fabric.far is not None
    part = ceil_div(n_bytes, inside)
    return Sent(ps + all_gather_ps(fabric.far, part, domains), near_bytes, inside * (domains - 1) * part)


def all_to_all(fabric: Fabric, n_bytes: int, devices: int) -> Sent:
    """Each device's `n_bytes` to all of them, an equal part to each; near and far links send at once."""
    domains, inside = fabric.layout(devices)
    part = ceil_div(n_bytes, devices)
    near, far = (inside - 1) * part, (devices - inside) * part
    ps = send_ps(fabric.near, near)
    if domains > 1:
        assert fabric.far is not None
        ps = max(ps, send_ps(fabric.far, far))
    return Sent(ps, devices * near, devices * far)
