"""Heads of one channel of an AttAcc stack on numbers: its requests, one by one, on keys and values where they lie.

Token t of a head lies in unit t mod units, so that a longer context moves nothing; where a group's banks share the
width of a head, each has a part of it [design]. A GEMV unit multiplies 16 lanes in FP16 and sums them in a tree, or
adds them to 16 accumulators [secondary N]; its adders have 16 bits, or 32 where `accumulator` says so, and sums over
banks and units, softmax included, are float32 on the buffer die [design]. A request that comes before what it needs is
an error of the mapper: ValueError.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from pimloom.arch.part import Organization
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.cycle_sim.asic_math import Array, softmax
from pimloom.mappers.attacc.groups import layouts, requests
from pimloom.mappers.attacc.layout import ACCUMULATORS, Layout, Placement, Work
from pimloom.mappers.attacc.stream import BANK, MAC, MVGB, MVSB, OP, ROW, SFM, WRGB

FP16 = np.float16
Accumulator: TypeAlias = Literal["float16", "float32"]


class Group(NamedTuple):
    """FP16 numbers of query heads that share keys: keys and values [context, width], queries [sharers, width], scaled
    already."""

    keys: Array
    values: Array
    queries: Array


def attend(
    org: Organization, placement: Placement, groups: Sequence[Group],
    accumulator: Accumulator = "float16",
) -> Array:  # fmt: skip
    """Run a channel's requests; float16[groups, sharers, width]. All groups have as many sharers. Raises ValueError."""
    work = Work(1, 1, groups[0].keys.shape[1], FP16(0).nbytes)
    each = layouts(org, placement, work, [len(group.keys) for group in groups])
    sharers = len(groups[0].queries)
    channel, first = _Channel(org, placement, np.dtype(accumulator)), 0
    for layout, group in zip(each, groups, strict=True):
        channel.store(layout, first, group)
        channel.heads += [_Head(channel, layout, first, len(group.keys), query) for query in group.queries]
        first += layout.rows
    channel.run(requests(org, each, sharers))
    return np.array([head.result() for head in channel.heads]).reshape(len(groups), sharers, -1)


class _Channel:
    """Banks, and the heads in the order in which they come."""

    def __init__(self, org: Organization, placement: Placement, dtype: np.dtype) -> None:
        self.org, self.placement, self.dtype = org, placement, dtype
        self.lanes = org.access_bits // BITS_PER_BYTE // FP16(0).nbytes
        self.parts = org.banks_per_group if placement is Placement.BANK else 1
        at_buffer = placement is Placement.BUFFER
        self.units = org.pseudo_channels * (1 if at_buffer else org.ranks * org.bank_groups)
        self.banks, self.half = org.banks // self.units // self.parts, org.rows // 2
        self.rows: dict[int, Array] = {}
        self.heads: list[_Head] = []

    def row(self, row: int) -> Array:
        """float16[units, parts, banks of each, columns, lanes]."""
        shape = self.units, self.parts, self.banks, self.org.columns, self.lanes
        return self.rows.setdefault(row, np.zeros(shape, FP16))

    def store(self, layout: Layout, first: int, group: Group) -> None:
        """Keys and values, access by access as MACs come to them."""
        shape = layout.positions * self.units, self.parts * layout.groups * self.lanes
        for matrix, start, by_token in ((group.keys, first, True), (group.values, first + self.half, False)):
            whole = np.zeros(shape, FP16)
            whole[: matrix.shape[0], : matrix.shape[1]] = matrix
            cells = whole.reshape(layout.positions, self.units, self.parts, layout.groups, self.lanes)
            cells = cells.transpose(1, 2, 0, 3, 4) if by_token else cells.transpose(1, 2, 3, 0, 4)
            for n, access in enumerate(np.moveaxis(cells.reshape(self.units, self.parts, -1, self.lanes), 2, 0)):
                turn, within = divmod(n, layout.run)
                column = turn // len(layout.spread) * layout.run + within
                bank = self.bank(layout.spread[turn % len(layout.spread)])
                self.row(start + column // layout.columns)[:, :, bank, column % layout.columns] = access

    def bank(self, named: int) -> int:
        """Of those that a unit reads one at a time, the one that a request names."""
        return 0 if self.placement is Placement.BANK else named

    def run(self, asked: Array) -> None:
        """Every request finds what it needs, and all heads end."""
        heads = self.heads
        pairs = [heads[k : k + 2] for k in range(0, len(heads), 2)]
        lists = [(head, of) for pair in pairs for of in ("scores", "context") for head in pair]
        queries = iter([(head, n) for head in heads for n in range(len(head.layout.places_wrgb))])
        shares = iter([(head, n) for head in heads for n in range(len(head.layout.places_mvgb))])
        softmaxes = iter(heads)
        macs = iter((head, of, n) for head, of in lists for n in range(head.layout.macs))
        moves = iter((head, of, n) for head, of in lists for n in range(head.moves(of)))
        for request in asked.tolist():
            kind = request[OP]
            if kind == WRGB:
                head, n = next(queries)
                head.load(n)
            elif kind == MAC:
                head, of, n = next(macs)
                head.multiply(of, n, request[BANK], request[ROW])
            elif kind == MVSB:
                head, of, n = next(moves)
                head.move(of, n)
            elif kind == SFM:
                next(softmaxes).normalise()
            elif kind == MVGB:
                head, n = next(shares)
                head.take(n)
        if any(next(left, None) for left in (queries, shares, softmaxes, macs, moves)):
            raise ValueError("requests: some are missing")


class _Head:
    """A query head on its way: what is loaded, multiplied, moved."""

    def __init__(self, channel: _Channel, layout: Layout, first: int, tokens: int, query: Array) -> None:
        self.channel, self.layout, self._first, self._tokens = channel, layout, first, tokens
        units, parts, lanes, groups = channel.units, channel.parts, channel.lanes, layout.groups
        whole = np.zeros(parts * groups * lanes, FP16)
        whole[: len(query)] = query
        self._query, self._width = whole.reshape(parts, groups, lanes), len(query)
        self._loaded, self._taken, self._normalised = 0, 0, False
        self._sums = np.zeros((units, parts, layout.positions), channel.dtype)
        self._made = np.zeros((units, parts, groups, lanes), channel.dtype)
        self._shares = np.zeros((units, layout.positions), FP16)
        self._done = {"scores": 0, "context": 0}
        self._moved = {"scores": 0, "context": 0}

    def moves(self, of: str) -> int:
        """MVSBs of its scores, or of its context."""
        layout = self.layout
        scores = of == "scores"
        return len(layout.places_score) * layout.flushes if scores else len(layout.places_context) * layout.groups

    def load(self, n: int) -> None:
        """An entry of the query."""
        self._loaded = n + 1

    def multiply(self, of: str, n: int, bank: int, row: int) -> None:
        """A MAC of all units."""
        channel, layout = self.channel, self.layout
        turn, within = divmod(n, layout.run)
        column = turn // len(layout.spread) * layout.run + within
        here = self._first + column // layout.columns + (channel.half if of == "context" else 0)
        _need((bank, row) == (layout.spread[turn % len(layout.spread)], here), "a MAC names another bank or row")
        cells = channel.row(row)[:, :, channel.bank(bank), column % layout.columns].astype(channel.dtype)
        self._done[of] = n + 1
        if of == "scores":
            position, group = divmod(n, layout.groups)
            _need(self._loaded == len(layout.places_wrgb), "scores before their query")
            product = cells * self._query[:, group].astype(channel.dtype)
            while product.shape[-1] > 1:
                product = product[..., 0::2] + product[..., 1::2]
            self._sums[:, :, position] += product[..., 0]
        else:
            group, position = divmod(n, layout.positions)
            _need(self._taken == len(layout.places_mvgb), "a context before its probabilities")
            share = self._shares[:, position].astype(channel.dtype)[:, None, None]
            self._made[:, :, group] += cells * share

    def move(self, of: str, n: int) -> None:
        """An MVSB, of what is complete."""
        layout = self.layout
        if of == "scores":
            flush = n // len(layout.places_score)
            needed = min((flush + 1) * ACCUMULATORS, layout.positions) * layout.groups
        else:
            needed = (n // len(layout.places_context) + 1) * layout.positions
        _need(self._done[of] >= needed, "a move before its MACs")
        self._moved[of] = n + 1

    def normalise(self) -> None:
        """SFM of all scores."""
        _need(self._moved["scores"] == self.moves("scores"), "a softmax before its scores")
        scores = self._sums.astype(np.float32).sum(axis=1).T.reshape(-1)[: self._tokens]
        whole = np.zeros(self.layout.positions * self.channel.units, FP16)
        whole[: self._tokens] = softmax(scores).astype(FP16)
        self._shares = whole.reshape(self.layout.positions, self.channel.units).T
        self._normalised = True

    def take(self, n: int) -> None:
        """An MVGB of probabilities."""
        _need(self._normalised, "probabilities before their softmax")
        self._taken = n + 1

    def result(self) -> Array:
        """float16[width]."""
        _need(self._moved["context"] == self.moves("context"), "a context that has not moved")
        return self._made.astype(np.float32).sum(axis=0).reshape(-1)[: self._width].astype(FP16)


def _need(there: bool, said: str) -> None:
    if not there:
        raise ValueError(said)
