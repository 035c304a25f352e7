"""Heads of different lengths, and query heads that share keys: which channel has which, and what it is asked for.

K and V of a group of query heads are kept once, so that a channel has the group; a GEMV unit holds one query, so that
the heads of a group multiply with them one after another [design]. Groups go, the longest first, to the channel of all
stacks that has the fewest keys. Within a channel heads go in pairs as `stream` has them, each with a length of its own;
an odd one goes alone. Where all heads are equal and share nothing, a channel asks for the same as there.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.part import Organization
from pimloom.mappers.attacc.layout import ACCUMULATORS, Layout, Placement, Work, lay_out
from pimloom.mappers.attacc.stream import BARRIER, MAC, MVGB, MVSB, SFM, WRGB, Piece, piece


def deal(contexts: Sequence[int], channels: int) -> list[tuple[int, ...]]:
    """Contexts of the groups of each channel, the longest first.

    >>> deal([5, 9, 5, 7], 3)
    [(9,), (7,), (5, 5)]
    """
    found: list[list[int]] = [[] for _ in range(channels)]
    least = [(0, channel) for channel in range(channels)]
    for context in sorted(contexts, reverse=True):
        has, channel = heapq.heappop(least)
        found[channel].append(context)
        heapq.heappush(least, (has + context, channel))
    return [tuple(each) for each in found]


def layouts(org: Organization, placement: Placement, work: Work, contexts: Sequence[int]) -> tuple[Layout, ...]:
    """Of heads with these contexts; of `work` the width. Raises UserError."""
    return tuple(lay_out(org, placement, work._replace(context=context)) for context in contexts)


def count_groups(each: Sequence[Layout], sharers: int) -> dict[str, int]:
    """Commands of groups of so many query heads."""
    found = Counter[str]()
    for layout in each:
        found.update({kind: sharers * n for kind, n in layout.alone().items()})
    return dict(found)


def requests(org: Organization, each: Sequence[Layout], sharers: int) -> np.ndarray:
    """What a channel with these groups is asked for, int32[n, N_REQUEST]. Raises UserError if K and V do not fit."""
    if not each:
        return piece(MAC, [])
    half, rows = org.rows // 2, sum(layout.rows for layout in each)
    if rows > half:
        said = f"heads: expected K of them in {half} rows of a bank, got {rows} rows for {len(each)} in a channel"
        raise UserError(f"{said}; take fewer requests or shorter ones")
    starts = np.cumsum([0, *(layout.rows for layout in each)])[:-1].tolist()
    heads = [_Head(layout, at, half) for layout, at in zip(each, starts, strict=True) for _ in range(sharers)]
    found = [p for i in range(0, len(heads) - 1, 2) for p in _pair(heads[i], heads[i + 1])]
    return np.concatenate([*found, *(_alone(heads[-1]) if len(heads) % 2 else ())])


class _Head:
    """What one query head asks for. row: first one of its keys."""

    def __init__(self, layout: Layout, row: int, half: int) -> None:
        self.layout, self._row, self._half = layout, row, half

    @cached_property
    def _macs(self) -> Piece:
        layout = self.layout
        turn, within = np.divmod(np.arange(layout.macs), layout.run)
        bank = np.array(layout.spread)[turn % len(layout.spread)]
        column = turn // len(layout.spread) * layout.run + within
        return piece(MAC, bank, self._row + column // layout.columns)

    @property
    def scores(self) -> list[Piece]:
        """By flush."""
        each = ACCUMULATORS * self.layout.groups
        return [self._macs[k : k + each] for k in range(0, len(self._macs), each)]

    @property
    def contexts(self) -> list[Piece]:
        """By group."""
        macs = self._macs + piece(0, [0], self._half)
        return [macs[k : k + self.layout.positions] for k in range(0, len(macs), self.layout.positions)]

    @property
    def scores_moved(self) -> list[Piece]:
        return [piece(MVSB, list(self.layout.places_score))] * self.layout.flushes

    @property
    def contexts_moved(self) -> list[Piece]:
        return [piece(MVSB, list(self.layout.places_context))] * self.layout.groups

    def query(self, chunks: int = 1) -> list[Piece]:
        """In so many chunks."""
        return _chunked(piece(WRGB, list(self.layout.places_wrgb)), chunks)

    def softmax(self, chunks: int) -> list[Piece]:
        """Softmax, then probabilities in the second half of so many chunks."""
        empty, probabilities = piece(MVGB, []), piece(MVGB, list(self.layout.places_mvgb))
        found = [empty] * (chunks // 2) + _chunked(probabilities, -(-chunks // 2))
        return [np.concatenate([piece(SFM, [0]), found[0]]), *found[1:]]


def _pair(a: _Head, b: _Head) -> Iterator[Piece]:
    yield from a.query()
    yield piece(BARRIER, [0])
    yield from _beside(a.scores, a.scores_moved, b.query(a.layout.flushes))
    yield from _beside(b.scores, b.scores_moved, a.softmax(b.layout.flushes))
    yield from _beside(a.contexts, a.contexts_moved, b.softmax(a.layout.groups))
    yield from _beside(b.contexts, b.contexts_moved, [])


def _alone(head: _Head) -> Iterator[Piece]:
    yield from head.query()
    yield piece(BARRIER, [0])
    yield from _beside(head.scores, head.scores_moved, [])
    yield from head.softmax(1)
    yield piece(BARRIER, [0])
    yield from _beside(head.contexts, head.contexts_moved, [])


def _beside(macs: list[Piece], moved: list[Piece], beside: list[Piece]) -> Iterator[Piece]:
    """Chunks of MACs, each followed by the moves of the chunk before and by what goes beside them."""
    for k in range(len(macs) + 1):
        yield from macs[k : k + 1]
        yield from moved[k - 1 : k] if k else ()
        if k < len(macs):
            yield from beside[k : k + 1]
            yield piece(BARRIER, [0])


def _chunked(entries: Piece, chunks: int) -> list[Piece]:
    n = len(entries)
    return [entries[n * k // chunks : n * (k + 1) // chunks] for k in range(chunks)]
