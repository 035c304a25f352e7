"""Weights of fewer bits than what they are multiplied with: their size, and what that gains of a matrix product."""

from fractions import Fraction
from typing import NamedTuple

from pimloom.arch.error import of_option
from pimloom.arch.units import BITS_PER_BYTE

SCALE_BITS = 16  # one FP16 scale for each group [secondary: MARLIN's README]


class WeightFormat(NamedTuple):
    """bits: of a weight in a layer's matrices; group: weights that share a scale; 0: none do."""

    bits: int
    group: int = 0

    @property
    def mean_bits(self) -> Fraction:
        """Of a weight with its part of the scale.

        >>> float(WeightFormat(4, 128).mean_bits)
        4.125
        """
        return self.bits + (Fraction(SCALE_BITS, self.group) if self.group else Fraction(0))


FORMATS = {"int4": WeightFormat(4, 128), "int8": WeightFormat(8)}  # MARLIN's [secondary]; one scale for each column


def format_of(text: str) -> WeightFormat:
    """As a user writes it: int4, int8, or int4:64 with another group. Raises UserError.

    >>> format_of("int4:64").mean_bits
    Fraction(17, 4)
    """
    name, colon, group = text.partition(":")
    if name not in FORMATS or (colon and not (group.isdecimal() and group.isascii() and 1 <= int(group[:9]) < 10**6)):
        raise of_option("weights", text, f"expected one of {', '.join(FORMATS)}, or int4:64 for a scale per 64 weights")
    return FORMATS[name]._replace(group=int(group)) if colon else FORMATS[name]


class Rates(NamedTuple):
    """Of a machine: operations and bytes in a second; weights that it can turn into FP16, None: as many as come."""

    flops: float
    bytes: float
    dequantised: float | None = None


def gemm_s(rows: int, n_in: int, n_out: int, weights: WeightFormat, rates: Rates, wide_bits: int = 16) -> float:
    """A matrix product: the longest of its operations, its bytes and its dequantisation."""
    elements = n_in * n_out
    moved = (float(elements * weights.mean_bits) + rows * (n_in + n_out) * wide_bits) / BITS_PER_BYTE
    turned = 0.0 if rates.dequantised is None else elements / rates.dequantised
    return max(2 * rows * elements / rates.flops, moved / rates.bytes, turned)


def crossing_rows(bits: Fraction | int, rates: Rates) -> float:
    """Rows from which a product of large matrices computes longer than its weights take.

    >>> round(crossing_rows(16, Rates(125e12, 600e9)))
    208
    """
    return rates.flops * float(bits) / BITS_PER_BYTE / (2 * rates.bytes)
