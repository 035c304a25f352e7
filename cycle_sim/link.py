"""Messages between devices in a ring: each has one link to the next device and one from the one before.

A message holds its sender's link for its bits, and arrives a latency later; a device sends on what has arrived as a
whole. A collective of n bytes over p devices works on p parts of n / p bytes: in each step every device sends one part
to its neighbour. After p - 1 steps of a reduce-scatter each device holds one part's sum; after p - 1 of an all-gather
all hold all of them. The largest part meets no wait and travels all steps, so its way is the time of the whole.
"""

from fractions import Fraction

from pimloom.arch.link import Link
from pimloom.arch.units import BITS_PER_BYTE, PS_PER_NS, ceil_div


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
    return (devices - 1) * send_ps(link, ceil_div(n_bytes, devices))


def all_gather_ps(link: Link, n_bytes: int, devices: int) -> int:
    """Until all `devices` hold all parts of `n_bytes` [ps]."""
    return (devices - 1) * send_ps(link, ceil_div(n_bytes, devices))


def all_reduce_ps(link: Link, n_bytes: int, devices: int) -> int:
    """Until all `devices` hold the sum of all their `n_bytes` [ps]: a reduce-scatter, then an all-gather."""
    return reduce_scatter_ps(link, n_bytes, devices) + all_gather_ps(link, n_bytes, devices)


def all_reduce_bytes(n_bytes: int, devices: int) -> int:
    """Bytes that cross all links together in an all-reduce of `n_bytes`."""
    return 2 * (devices - 1) * n_bytes
