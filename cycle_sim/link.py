"""Time and bytes of messages between devices: on a ring or through a switch, within a domain and between domains.

A message occupies its sender's link for its bits, and arrives one latency later. In a ring each device has a link to
the next device, and forwards a message when all of it has arrived. A collective of n bytes over p devices works on p
parts of n / p bytes: in each step every device sends one part to its neighbour. After p - 1 steps of a reduce-scatter
each device has the sum of one part; after p - 1 steps of an all-gather all devices have all parts. The largest part
never waits and takes all steps, so its time is that of the collective.

Through a switch a device sends to all others, one message after the other on its own link: a reduce-scatter, or an
all-gather, is one step of p - 1 parts. An all-reduce is the faster of two: both of these (two-shot), or every device
sends all n bytes to all others (one-shot), which is faster for few bytes. vLLM makes the same choice by fixed sizes
(csrc/custom_all_reduce.cuh), NCCL by a model of both times (src/graph/tuning.cc) [secondary].

Over several domains: a reduce-scatter within each domain, an all-reduce over the network between devices of the same
place, an all-gather within each domain.
"""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from pimloom.arch.link import Fabric, Link
from pimloom.arch.units import BITS_PER_BYTE, PS_PER_NS, ceil_div


class Sent(NamedTuple):
    """A collective: its time [ps], its bytes over all links within domains, and its bytes over the network."""

    ps: int = 0
    near_bytes: int = 0
    far_bytes: int = 0

    def plus(self, other: "Sent") -> "Sent":
        """The sum of two collectives, one after the other."""
        return Sent(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def all_bytes(self) -> int:
        """Bytes over all links."""
        return self.near_bytes + self.far_bytes

    def pj(self, fabric: Fabric) -> float:
        """Energy on all links [pJ]; a link of unknown energy counts 0."""
        far = fabric.far.pj_per_bit if fabric.far else None
        return BITS_PER_BYTE * (self.near_bytes * (fabric.near.pj_per_bit or 0) + self.far_bytes * (far or 0))


def bits_ps(link: Link, n_bytes: int) -> int:
    """Time for which a message of `n_bytes` occupies a link [ps]."""
    bits = Fraction(n_bytes * BITS_PER_BYTE * PS_PER_NS)
    exact = bits / Fraction(link.gbps)  # 1 Gb/s is a bit in 1 ns
    return ceil_div(exact.numerator, exact.denominator)


@lru_cache(maxsize=4096)  # layers of a step send the same sizes
def send_ps(link: Link, n_bytes: int) -> int:
    """Time of a message of `n_bytes` from a device to its neighbour [ps]; 0 if it is empty."""
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
    """An all-reduce within a domain: in parts, or through a switch all at once if that is faster."""
    in_parts = reduce_scatter_ps(link, n_bytes, devices) + all_gather_ps(link, n_bytes, devices)
    found = Sent(in_parts, all_reduce_bytes(n_bytes, devices))
    if link.topology == "ring":
        return found
    at_once = Sent(send_ps(link, (devices - 1) * n_bytes), devices * (devices - 1) * n_bytes)
    return min(found, at_once)


def all_reduce(fabric: Fabric, n_bytes: int, devices: int) -> Sent:
    """An all-reduce: until all `devices` have the sum of all their `n_bytes`.

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
    """An all-gather: until all `devices` have all parts of `n_bytes`, first between domains, then within."""
    domains, inside = fabric.layout(devices)
    ps, near_bytes = all_gather_ps(fabric.near, n_bytes, inside), domains * (inside - 1) * n_bytes
    if domains == 1:
        return Sent(ps, near_bytes)
    assert fabric.far is not None
    part = ceil_div(n_bytes, inside)
    return Sent(ps + all_gather_ps(fabric.far, part, domains), near_bytes, inside * (domains - 1) * part)


def all_to_all(fabric: Fabric, n_bytes: int, devices: int) -> Sent:
    """An all-to-all: each device sends an equal part of its `n_bytes` to each device, over both links at the same time.
    """
    domains, inside = fabric.layout(devices)
    part = ceil_div(n_bytes, devices)
    near, far = (inside - 1) * part, (devices - inside) * part
    ps = send_ps(fabric.near, near)
    if domains > 1:
        assert fabric.far is not None
        ps = max(ps, send_ps(fabric.far, far))
    return Sent(ps, devices * near, devices * far)
