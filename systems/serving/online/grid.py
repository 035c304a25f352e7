"""Costs of iterations read between few that are simulated.

Of decode the knots are (requests, mean context), whose contexts spread as those of the workload do; of prompts (new
tokens, tokens that each attends to in the mean). Between knots costs are taken as linear in both and in their product,
which holds for weights, matrix products and attention alike. Prompts beside decode cost what their rows add to those of
decode; a prompt that ends by itself adds what it adds to the smallest one. Arrays take rows in tiles, each as long as a
full one but for what its rows move. A context that is longer than the longest of a knot has a channel of its own to
wait for: it adds what it adds to a request that has just begun. What that is worth is measured on iterations that were
skipped (see `sampled`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.systems.serving.online.costs import Cost, Exact, Piece, added

MOST = 1 << 40  # no knot is above
REQUESTS = [1, 2, *(1 << i for i in range(3, 41))]  # knots of decode; sub-batches begin with two requests
CONTEXTS = [1 << i for i in range(41)]  # of a request, in the mean
ROWS = [1, 4, 16, *(1 << i for i in range(6, 41))]  # of prompts; fewer wait for weights, whatever their number
ATTENDED = [1, *(1 << 6 * i for i in range(1, 7)), MOST]  # by each of them, in the mean


class Sums(NamedTuple):
    """Of an iteration: requests that decode, their contexts in all, the longest of these; new tokens of prompts, pairs
    of tokens that attend to one another, whether a prompt ends."""

    b: int
    total: int
    longest: int
    rows: int
    pairs: int
    ends: int


def sums(pieces: Sequence[Piece]) -> Sums:
    """What costs are read at."""
    b = total = rows = pairs = ends = longest = 0
    for new, cached, logits, *_ in pieces:
        if new == 1 and cached:
            b, total, longest = b + 1, total + cached + 1, max(longest, cached + 1)
        else:
            rows, pairs, ends = rows + new, pairs + new * cached + new * (new + 1) // 2, ends | logits
    return Sums(b, total, longest, rows, pairs, ends)


class Grid:
    """exact: the device; spread: contexts as shares of their mean, rising, of a sample of the workload; positions: the
    longest context; budget: most new tokens of an iteration, as far as there is such a limit; by_token: whether the
    device takes prompts one token after the other; rows: of each request that decodes."""

    rows = 1

    def __init__(self, exact: Exact, spread: Sequence[float], positions: int, budget: int = MOST) -> None:
        self.exact, self.spread, self.positions = exact, np.asarray(spread, float), positions
        self.budget = budget
        self.tokens, self.by_token = exact.device.capacity().tokens, exact.device.in_order
        self.most = exact.device.most_requests
        self.decodes: dict[tuple[int, int], Cost | None] = {}
        self.prompts: dict[tuple[int, int, int], Cost] = {}
        self.apart: dict[int, float] = {}
        self.tile: int = getattr(exact.device, "row_tile", 1)
        self.tops = dict[int, float]()
        self.known: dict[tuple[int, ...], Cost] = {}

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration. Raises UserError."""
        key = sums(pieces)
        if (found := self.known.get(key)) is None:
            try:
                found = self._by_token(pieces) if self.by_token and key.rows else self._between(*key)
            except UserError:  # of a knot, which does not fit or is too long; the iteration itself may run
                found = self.instead(pieces)
            self.known[key] = found = [max(value, 0.0) for value in found]
        return found

    def decode_of(self, cached: list[int]) -> Cost:
        """The same of a token of each request behind those cached. Raises UserError."""
        b = len(cached)
        found = self.known.get((b, sum(cached) + b, max(cached) + 1, 0, 0, 0))
        return self.of([Piece(1, before, 1) for before in cached]) if found is None else found

    def know(self, pieces: Sequence[Piece]) -> None:
        """Simulate side by side what an iteration is read between, as far as it can be, and is not known yet."""
        at = sums(pieces)
        if self.by_token and at.rows:
            return
        wide = at.b * self.rows
        decodes = self._around(at.b, at.total / at.b) if at.b else []
        wanted, prompts = list[list[Piece]](), list[tuple[int, int, int]]()
        if at.b > 1:
            rest = (at.total - at.longest) / (at.b - 1)
            usual = self.top(at.b) * rest
            if at.longest > usual:
                decodes += self._around(at.b, rest)
                wanted += [pair_of(n) for c in (at.longest, usual) for n in self._around_pair(c) if n not in self.apart]
        if at.rows:
            together = at.rows + wide
            prompts += self._prompts_around(together, (at.pairs + wide) / together)
            prompts += self._prompts_around(wide, 1.0) if wide else []
            prompts += [(1, 1, 0), (1, 1, 1)] if at.ends and not wide else []
        wanted += [self._pieces(n, mean) for _, n, mean in decodes if (n, mean) not in self.decodes]
        self.exact.know([*wanted, *(prompts_of(*key, self.positions) for key in prompts if key not in self.prompts)])

    def _prompts_around(self, rows: int, attended: float) -> list[tuple[int, int, int]]:
        full = self._full(rows)
        found = [(n, q, 0) for _, n, q in self._around_prompt(full, attended)]
        return found + ([(n, ATTENDED[1], 0) for n in self._in_a_tile()] if full > rows else [])

    def instead(self, pieces: Sequence[Piece]) -> Cost:
        """Of an iteration that lies between no knots. Raises UserError."""
        return self.exact.of(pieces)

    def _between(self, b: int, total: int, longest: int, rows: int, pairs: int, ends: int) -> Cost:
        if not b:
            ending = [(1.0, self._prompt(1, 1, 1)), (-1.0, self._prompt(1, 1, 0))] if ends else []
            return added([(1.0, self.prompt(rows, pairs / rows)), *ending])
        parts = [(1.0, self._decoding(b, total, longest))]
        if rows:
            wide = b * self.rows
            parts.append((1.0, self.prompt(rows + wide, (pairs + wide) / (rows + wide))))
            parts.append((-1.0, self.prompt(wide, 1.0)))
        return added(parts)

    def _decoding(self, b: int, total: int, longest: int) -> Cost:
        """Decode; a context longer than the rest would have it may make it last longer."""
        found = self.decode(b, total / b)
        if b == 1:
            return found
        rest = (total - longest) / (b - 1)
        usual = self.top(b) * rest
        if longest <= usual:
            return found
        later = self.decode(b, rest)[0] + (self.pair(longest) - self.pair(usual))
        return [max(found[0], later), *found[1:]]

    def top(self, b: int) -> float:
        """The longest of b contexts that are spread as those of the workload, as a share of their mean."""
        if (found := self.tops.get(b)) is None:
            shares = self._shares(b)
            found = self.tops[b] = float(shares.max() / shares.mean())
        return found

    def pair(self, context: float) -> float:
        """Time of a token of two requests, one with this context and one that has just begun."""
        low, high = self._around_pair(context)
        at = _between(context, low, high)
        return (1 - at) * self._pair(low) + at * self._pair(high) if at else self._pair(low)

    def _around_pair(self, context: float) -> tuple[int, int]:
        low, high = around(context, CONTEXTS)
        return low, max(min(high, self.positions, self.tokens - 2), ceil(context))

    def _pair(self, context: int) -> float:
        if (found := self.apart.get(context)) is None:
            found = self.apart[context] = self.exact.of(pair_of(context))[0]
        return found

    def _by_token(self, pieces: Sequence[Piece]) -> Cost:
        """One token after the other, each as decode of one request; all but those that end prompts without LM head."""
        parts = [(1.0, self.decode(1, cached + i + 1)) for new, cached, *_ in pieces for i in range(new)]
        if silent := len(parts) - sum(one.logits for one in pieces):
            parts += [(-silent, self.exact.of([Piece(2, 0, 1)])), (silent, self.exact.of([Piece(2, 0, 0)]))]
        return added(parts)

    def decode(self, b: int, context: float) -> Cost:
        """b requests of this context in the mean."""
        return added([(weight, self._corner(n, mean)) for weight, n, mean in self._around(b, context)])

    def _around(self, b: int, context: float) -> list[tuple[float, int, int]]:
        """Knots around it, each with its weight."""
        low_b, high_b = around(b, REQUESTS)
        low_c, high_c = around(context, CONTEXTS)
        high_b = max(min(high_b, self.most or high_b, self.tokens // low_c), b)
        high_c = max(min(high_c, self.positions, self.tokens // low_b), ceil(context))
        return corners(b, low_b, high_b, context, low_c, high_c)

    def _corner(self, requests: int, mean: int) -> Cost:
        """A knot; one whose contexts do not fit side by side lies on a line through two with fewer requests: caches
        that are shared, or shorter in part, do fit."""
        found, fits = self._decode(requests, mean), requests
        while found is None and fits > 2:
            fits //= 2
            found = self._decode(fits, mean)
        half = self._decode(fits // 2, mean) if fits < requests else None
        if found is None or (fits < requests and half is None):
            raise UserError(f"{requests} requests with contexts of {mean} tokens do not fit")
        if half is None:
            return found
        more = (requests - fits) / (fits - fits // 2)
        return added([(1 + more, found), (-more, half)])

    def _decode(self, requests: int, mean: int) -> Cost | None:
        key = (requests, mean)
        if key not in self.decodes:
            try:
                self.decodes[key] = self.exact.of(self._pieces(requests, mean))
            except UserError:
                self.decodes[key] = None
        return self.decodes[key]

    def _pieces(self, requests: int, mean: int) -> list[Piece]:
        return [Piece(1, n - 1, 1) for n in self.contexts(requests, mean)]

    def contexts(self, requests: int, mean: int) -> list[int]:
        """Of so many requests, spread as those of the workload."""
        shares = self._shares(requests)
        longest = max(self.positions, 2)
        found: list[int] = np.clip(np.rint(shares / shares.mean() * mean), 2, longest).astype(int).tolist()
        return found

    def _shares(self, requests: int) -> np.ndarray:
        at = (np.arange(requests) + 0.5) / requests * (len(self.spread) - 1)
        return np.interp(at, np.arange(len(self.spread)), self.spread)

    def prompt(self, rows: int, attended: float) -> Cost:
        """Prompts of so many new tokens, each of which attends to so many in the mean, and none of which ends."""
        full = self._full(rows)
        parts = [(weight, self._prompt(n, q, 0)) for weight, n, q in self._around_prompt(full, attended)]
        if full > rows:
            two = self._in_a_tile()
            share = (full - rows) / (two[1] - two[0])
            parts += [(share, self._prompt(two[0], ATTENDED[1], 0)), (-share, self._prompt(two[1], ATTENDED[1], 0))]
        return added(parts)

    def _full(self, rows: int) -> int:
        """Rows of tiles that are full; the first one is never taken as such."""
        return rows if rows <= self.tile else -(-rows // self.tile) * self.tile

    def _in_a_tile(self) -> tuple[int, int]:
        """The first row of the fourth tile, and its last one."""
        return 3 * self.tile + 1, 4 * self.tile

    def _around_prompt(self, rows: int, attended: float) -> list[tuple[float, int, int]]:
        low_n, high_n = around(rows, ROWS)
        low_q, high_q = around(attended, ATTENDED)
        high_n = self.budget if rows <= self.budget < high_n else high_n
        high_q = self.positions if attended <= self.positions < high_q else high_q
        return corners(rows, low_n, high_n, attended, low_q, high_q)

    def _prompt(self, rows: int, attended: int, ends: int) -> Cost:
        key = (rows, attended, ends)
        if key not in self.prompts:
            self.prompts[key] = self.exact.of(prompts_of(*key, self.positions))
        return self.prompts[key]


def around(value: float, knots: Sequence[int]) -> tuple[int, int]:
    """The knots below and above, which rise.

    >>> around(5, [1, 4, 8]), around(8, [1, 4, 8]), around(0.5, [1, 4, 8])
    ((4, 8), (8, 8), (1, 1))
    """
    at = bisect_left(knots, value)
    high = knots[at]
    return (high, high) if high == value or not at else (knots[at - 1], high)


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
    at_n, at_c = _between(n, low_n, high_n), _between(context, low_c, high_c)
    found = [((1 - at_n) * (1 - at_c), low_n, low_c), (at_n * (1 - at_c), high_n, low_c)]
    found += [((1 - at_n) * at_c, low_n, high_c), (at_n * at_c, high_n, high_c)]
    return [one for one in found if one[0]]


def pair_of(context: int) -> list[Piece]:
    """Two requests, one with this context and one that has just begun."""
    return [Piece(1, max(context, 2) - 1, 1), Piece(1, 1, 1)]


def _between(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.0
