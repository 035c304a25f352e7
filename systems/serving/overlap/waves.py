"""Whole waves of tiles: products keep all execution units of a processor busy only if their tiles fill them up."""

from typing import NamedTuple

from pimloom.arch.units import ceil_div

TILES = ((128, 256), (256, 128), (128, 128))  # rows and columns [recalled: what CUTLASS has for large products]


class Units(NamedTuple):
    """Execution units of a processor, so many of which a collective takes."""

    collective: int
    all: int


def padding(rows: int, columns: int, units: int, groups: int = 1) -> float:
    """By how much whole waves of tiles exceed a product of so many rows and columns, or `groups` of them at once.

    >>> padding(128, 256 * 132, 132), padding(128, 256 * 133, 132)
    (1.0, 1.4887218045112782)
    """
    exact = groups * rows * columns
    found = []
    for high, wide in TILES:
        tiles = groups * ceil_div(rows, high) * ceil_div(columns, wide)
        found.append(ceil_div(tiles, units) * units * high * wide / exact)
    return min(found)


def beside(rows: int, whole: int, columns: int, units: Units, groups: int = 1) -> float:
    """How much longer a product of a part's rows takes on the units that a collective leaves, over its share of that of
    the `whole` rows on all of them."""
    there = units.all - units.collective
    longer = padding(rows, columns, there, groups) / padding(whole, columns, units.all, groups)
    return longer * units.all / there
