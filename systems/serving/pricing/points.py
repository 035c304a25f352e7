"""Sample points that prices are interpolated between, the coordinates of an iteration, and iterations at points."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from pimloom.systems.serving.pricing.costs import Piece

MOST = 1 << 40  # no point is above
ATTENDED = [1, *(1 << 6 * i for i in range(1, 7)), MOST]  # by each row of prompts, in the mean
SHORT = 1 << 8  # [design] tokens of contexts that are hidden behind arrays, or nearly so


class Axes(NamedTuple):
    """Of decode: requests (sub-batches begin with two), contexts in the mean; of prompts: rows, of which fewer wait for
    weights, whatever their number, and how many tokens each attends to."""

    requests: list[int]
    contexts: list[int]
    rows: list[int]
    attended: list[int] = ATTENDED


DOUBLINGS = [1 << i for i in range(41)]
FINE = Axes(DOUBLINGS, DOUBLINGS, [1, 4, 16, *DOUBLINGS[6:]])
DENSE = Axes(
    [*range(1, 257), *DOUBLINGS[9:]],
    DOUBLINGS,
    [*range(1, 16), *range(16, 64, 2), *range(64, 256, 4), *range(256, 512, 8), *range(512, 4096, 128)]
    + DOUBLINGS[12:],
)
CHEAP = 256  # [design] steps that a device simulates one by one, from which it has points at every number of requests


def axes_of(steps: int) -> Axes:
    """The coordinates of sample points. steps: different iterations up to which a device simulates all. Fast devices
    have a point at every number of requests, where shared experts change the slope of time."""
    return FINE if steps < CHEAP else DENSE


class Sums(NamedTuple):
    """Of an iteration: requests that decode, their contexts in all, the two longest of these; new tokens of prompts,
    pairs of tokens that attend to one another, whether a prompt ends."""

    b: int
    total: int
    longest: int
    second: int
    rows: int
    pairs: int
    ends: int


def sums(pieces: Sequence[Piece]) -> Sums:
    """What costs are read at."""
    b = total = rows = pairs = ends = longest = second = 0
    for new, cached, logits, *_ in pieces:
        if new == 1 and cached:
            b, total, second = b + 1, total + cached + 1, max(second, min(longest, cached + 1))
            longest = max(longest, cached + 1)
        else:
            rows, pairs, ends = rows + new, pairs + new * cached + new * (new + 1) // 2, ends | logits
    return Sums(b, total, longest, second, rows, pairs, ends)


def around(value: float, points: Sequence[int]) -> tuple[int, int]:
    """The points below and above, which rise.

    >>> around(5, [1, 4, 8]), around(8, [1, 4, 8]), around(0.5, [1, 4, 8])
    ((4, 8), (8, 8), (1, 1))
    """
    at = bisect_left(points, value)
    high = points[at]
    return (high, high) if high == value or not at else (points[at - 1], high)


def prompts_of(rows: int, attended: int, ends: int, positions: int) -> list[Piece]:
    """Equal prompts with so many new tokens in all, each of which attends to so many; or one behind a cached part.

    >>> [[piece[:3] for piece in prompts_of(8, *some, 100)] for some in ((2, 1), (10, 0))]
    [[(3, 0, 1), (3, 0, 1), (2, 0, 1)], [(8, 6, 0)]]
    """
    each = min(2 * attended - 1, positions)
    if each >= rows:
        return [Piece(rows, max(min(attended - (rows + 1) // 2, positions - rows), 0), ends)]
    whole = [Piece(each, 0, ends)] * (rows // each)
    return [*whole, *([Piece(rows % each, 0, ends)] if rows % each else [])]


def corners(n: float, low_n: int, high_n: int, context: float, low_c: int, high_c: int) -> list[tuple[float, int, int]]:
    """Of a cell, with their weights, those that have any."""
    at_n, at_c = between(n, low_n, high_n), between(context, low_c, high_c)
    found = [((1 - at_n) * (1 - at_c), low_n, low_c), (at_n * (1 - at_c), high_n, low_c)]
    found += [((1 - at_n) * at_c, low_n, high_c), (at_n * at_c, high_n, high_c)]
    return [one for one in found if one[0]]


def pair_of(context: int) -> list[Piece]:
    """Two requests, one with this context and one that has just begun."""
    return [Piece(1, max(context, 2) - 1, 1), Piece(1, 1, 1)]


def two_of(context: int) -> list[Piece]:
    """Two requests with this context."""
    return [Piece(1, context - 1, 1)] * 2


def between(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.0
