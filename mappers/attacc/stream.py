"""The requests of each channel of a stack, in order: what `counts` counts.

Two iterations go together, i and j: query of i; scores of i, beside them the query of j; scores of j, beside them
softmax and probabilities of i; context of i, beside it softmax and probabilities of j; context of j. What an iteration
moves to the softmax buffer follows a chunk later, and a BARRIER ends each chunk [secondary A]. The last of an odd
number goes alone. K of all heads lies in the lower rows of a bank, V in the upper ones.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.part import Organization
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.mappers.attacc.layout import ACCUMULATORS, CHANNELS, KINDS, LONGEST, Layout, Work, valid_channels

OP, BANK, ROW, N_REQUEST = range(4)
MAC, WRGB, MVSB, MVGB, SFM, BARRIER = range(len(KINDS))
Piece = np.ndarray  # int32[requests, N_REQUEST]
Chunk = tuple[int, int]  # first entry of a list, and the one behind the last


class Channels(NamedTuple):
    """Channels that all get the same requests, int32[n, N_REQUEST] of kind, bank and row."""

    channels: int
    requests: np.ndarray


def streams(org: Organization, layout: Layout, work: Work, *, as_released: bool = False) -> list[Channels]:
    """The requests of all channels of a stack, equal ones once. Raises UserError if K and V do not fit."""
    found: dict[str, list[int]] = {}
    plans = [_Plan(org, layout, work, channel, as_released) for channel in range(CHANNELS)]
    for plan in plans:
        found.setdefault(repr(plan.signature()), []).append(plan.channel)
    nothing = np.zeros((0, N_REQUEST), np.int32)
    return [Channels(len(same), np.concatenate([nothing, *plans[same[0]].pieces()])) for same in found.values()]


def check_rows(org: Organization, layout: Layout, work: Work, *, as_released: bool = False) -> int:
    """Columns of a bank from one head to the next. Raises UserError if K and V do not fit."""
    stride, half = layout.rows * org.columns, org.rows // 2
    if as_released:
        stride = -(-LONGEST * work.head_dim // org.banks) // (org.access_bits // BITS_PER_BYTE)
    columns = stride * (len(valid_channels(work.heads)) - 1) + layout.rows * org.columns
    if (rows := -(-columns // org.columns)) > half:
        said = f"heads: expected K of them in {half} rows of a bank, got {rows} rows for {work.heads} heads"
        raise UserError(f"{said} of context {work.context}; take fewer heads or a shorter context")
    return stride


class _Plan:
    """What one channel does."""

    def __init__(self, org: Organization, layout: Layout, work: Work, channel: int, as_released: bool) -> None:
        self.layout, self.channel, self.as_released = layout, channel, as_released
        self.valid = valid_channels(work.heads)
        self.half = org.rows // 2
        self.stride = check_rows(org, layout, work, as_released=as_released)
        self.barrier = piece(BARRIER, [0])
        self.softmax = piece(SFM, [0])
        order = np.arange(layout.macs)
        turn, within = np.divmod(order, layout.run)
        self.mac_bank = np.array(layout.spread)[turn % len(layout.spread)]
        self.mac_column = turn // len(layout.spread) * layout.run + within

    def signature(self) -> tuple[object, ...]:
        """What tells its requests from those of other channels."""
        last = self.valid[-1]
        kinds = [self._query(v) + self._early(v) + self._late(v) for v in (CHANNELS, last)]
        return self.channel < last, self.channel < self.valid[0], kinds

    def pieces(self) -> Iterator[Piece]:
        for i in range(0, len(self.valid) - 1, 2):
            yield from self._pair(i)
        if len(self.valid) % 2:
            yield from self._alone(len(self.valid) - 1)

    def _pair(self, i: int) -> Iterator[Piece]:
        works, valid = self.channel < self.valid[i + 1], self.valid[i + 1]
        yield self._wrgb()
        if i == 0 and self.as_released:
            yield self._scores(i)[0][:1]
        yield self.barrier
        query, early, late = self._query(valid), self._early(CHANNELS), self._late(valid)
        yield from self._beside(self._scores(i), self._moved(self.layout.flushes), [self._wrgb(*c) for c in query])
        scores = self._scores(i + 1) if works else []
        moved = self._moved(self.layout.flushes) if works else []
        beside = [self._mvgb(*c) for c in early]
        beside[0] = np.concatenate([self.softmax, beside[0]])
        yield from self._beside(scores, moved, beside)
        beside = [self._mvgb(*c) for c in late]
        beside[0] = np.concatenate([self.softmax, beside[0]]) if works else beside[0]
        moved = self._moved(self.layout.groups, self.layout.places_context)
        yield from self._beside(self._contexts(i), moved, beside)
        if self.as_released:
            yield from self._beside(self._contexts(i), moved, [])
        elif works:
            yield from self._beside(self._contexts(i + 1), moved, [])

    def _alone(self, i: int) -> Iterator[Piece]:
        if self.channel >= self.valid[i]:
            return
        yield self._wrgb()
        yield self.barrier
        yield from self._beside(self._scores(i), self._moved(self.layout.flushes), [])
        yield self.softmax
        yield self._mvgb()
        yield self.barrier
        moved = self._moved(self.layout.groups, self.layout.places_context)
        yield from self._beside(self._contexts(i), moved, [])

    def _beside(self, macs: list[Piece], moved: list[Piece], beside: list[Piece]) -> Iterator[Piece]:
        """Chunks of MACs, each followed by the moves of the chunk before and by what goes beside them."""
        chunks = max(len(macs), len(beside))
        for k in range(chunks + 1):
            yield from macs[k : k + 1]
            yield from moved[k - 1 : k] if k else ()
            if k < chunks:
                yield from beside[k : k + 1]
                yield self.barrier

    def _scores(self, i: int) -> list[Piece]:
        macs, each = self._macs(i, 0), ACCUMULATORS * self.layout.groups
        return [macs[k : k + each] for k in range(0, len(macs), each)]

    def _contexts(self, i: int) -> list[Piece]:
        macs, each = self._macs(i, self.half), self.layout.positions
        return [macs[k : k + each] for k in range(0, len(macs), each)]

    def _macs(self, i: int, first_row: int) -> Piece:
        return piece(MAC, self.mac_bank, first_row + (i * self.stride + self.mac_column) // self.layout.columns)

    def _moved(self, chunks: int, places: tuple[int, ...] = ()) -> list[Piece]:
        return [piece(MVSB, list(places or self.layout.places_score))] * chunks

    def _wrgb(self, start: int = 0, stop: int | None = None) -> Piece:
        return piece(WRGB, list(self.layout.places_wrgb[start:stop]))

    def _mvgb(self, start: int = 0, stop: int | None = None) -> Piece:
        return piece(MVGB, list(self.layout.places_mvgb[start:stop]))

    def _query(self, valid: int) -> list[Chunk]:
        """Of the query of the second iteration, beside each chunk of the scores of the first."""
        return self._chunks(len(self.layout.places_wrgb), self.layout.flushes, valid)

    def _early(self, valid: int) -> list[Chunk]:
        """Of the probabilities of the first, beside the second half of the scores of the second."""
        return self._second_half(self.layout.flushes, valid)

    def _late(self, valid: int) -> list[Chunk]:
        """Of the probabilities of the second, beside the second half of the context of the first."""
        return self._second_half(self.layout.groups, valid)

    def _second_half(self, chunks: int, valid: int) -> list[Chunk]:
        return [(0, 0)] * (chunks // 2) + self._chunks(len(self.layout.places_mvgb), -(-chunks // 2), valid)

    def _chunks(self, entries: int, chunks: int, valid: int) -> list[Chunk]:
        """The entries of this channel. As released, chunks of a list in which the channels at work take turns."""
        if self.channel >= valid:
            return [(0, 0)] * chunks
        if not self.as_released:
            return [(entries * k // chunks, entries * (k + 1) // chunks) for k in range(chunks)]
        each = entries * valid // chunks
        ends = [-(-(k * each - self.channel) // valid) for k in range(chunks + 1)]
        return [(max(start, 0), max(stop, 0)) for start, stop in zip(ends, ends[1:], strict=False)]


def piece(kind: int, banks: list[int] | np.ndarray, rows: int | np.ndarray = 0) -> Piece:
    """Requests of one kind, in order."""
    found = np.zeros((len(banks), N_REQUEST), np.int32)
    found[:, OP], found[:, BANK], found[:, ROW] = kind, banks, rows
    return found
