"""Interpolated prices of iterations, between simulated sample points.

Sample points of decode are (requests, mean context); their contexts are spread as those of the workload. Sample points
of prompts are (new tokens, mean number of tokens that each attends to). Between points a cost is linear in both and in
their product, which holds for weights, matrix products and attention. Prompts beside decode add the cost of their rows.
The LM head of a prompt that ends adds the same as with the smallest prompt. A context longer than the longest one of a
point adds the same as in a batch of new requests, because the others wait for its channel. A second such context adds
as much again if sub-batches take turns. `interpolated` measures the error.
"""

from collections.abc import Sequence
from heapq import nlargest
from math import ceil

import numpy as np

from pimloom.arch.error import UserError
from pimloom.systems.serving.pricing.costs import JOULES, Cost, Exact, Piece, added
from pimloom.systems.serving.pricing.points import (
    MOST,
    SHORT,
    around,
    axes_of,
    between,
    corners,
    pair_of,
    prompts_of,
    sums,
    two_of,
)

BESIDE = 64  # [design] new tokens of a prompt beside which decode has sample points of its own
FEW = 4  # requests, of which a line goes on to more than fit side by side


class Grid:
    """exact: the device; spread: contexts as shares of their mean, rising, of a sample of the workload; positions: the
    longest context of the model; budget: most new tokens of an iteration, as far as there is such a limit; longest:
    context of the workload, if it is known; shared: whether requests share caches, so that more of them decode side by
    side than a device has room for; by_token: whether the device takes prompts one token after the other; rows: of each
    request that decodes."""

    rows = 1

    def __init__(
        self,
        exact: Exact,
        spread: Sequence[float],
        positions: int,
        budget: int = MOST,
        longest: int = MOST,
        *,
        shared: bool = False,
    ) -> None:
        self.shared = shared
        self.exact, self.spread, self.positions = exact, np.asarray(spread, float), positions
        self.budget, self.longest = budget, min(longest, positions)
        self.tokens, self.by_token = exact.device.capacity().tokens, exact.device.in_order
        self.most = exact.device.most_requests
        self.decodes: dict[tuple[int, int], Cost | None] = {}
        self.corners: dict[tuple[int, int], Cost] = {}
        self.prompts: dict[tuple[int, int, int], Cost] = {}
        self.apart: dict[int, Cost] = {}
        self.of_second: float | None = None
        self.axes = axes_of(exact.device.exact_steps)
        self.tops = dict[int, float]()
        self.mixed_points, self.besides = False, dict[tuple[int, int], Cost]()
        self.known: dict[tuple[int, ...], Cost] = {}

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration. Raises UserError."""
        key = sums(pieces)
        if (found := self.known.get(key)) is None:
            try:
                found = self._by_token(pieces) if self.by_token and key.rows else self._between(*key)
            except UserError:  # of a point, which does not fit or is too long; the iteration itself may run
                found = self.instead(pieces)
            self.known[key] = found = [max(value, 0.0) for value in found]
        return found

    def decode_of(self, cached: list[int]) -> Cost:
        """The same of a token of each request behind those cached. Raises UserError."""
        b, (longest, *second) = len(cached), nlargest(2, cached)
        found = self.known.get((b, sum(cached) + b, longest + 1, second[0] + 1 if second else 0, 0, 0, 0))
        return self.of([Piece(1, before, 1) for before in cached]) if found is None else found

    def know(self, pieces: Sequence[Piece]) -> None:
        """Simulate side by side what an iteration is read between, as far as it can be, and is not known yet."""
        at = sums(pieces)
        if self.by_token and at.rows:
            return
        wanted, prompts = list[list[Piece]](), list[tuple[int, int, int]]()
        wide, decodes, pairs = at.b * self.rows, list[tuple[float, int, int]](), set[int]()
        if at.b:
            rest, usual, long = self._long(*at[:4], beside=at.rows > 0)
            decodes += self._around(at.b, at.total / at.b)
            decodes += self._around(at.b, rest) if long else []
            pairs = {n for c in (*long, usual) for n in self._around_pair(c)} if long else pairs
            if long[1:] and self.of_second is None:
                pairs |= {*self._ends()}
                wanted.append(two_of(self._ends()[1]))
        wanted += [pair_of(n) for n in sorted(pairs) if n not in self.apart]
        if at.rows:
            together = at.rows + wide
            prompts += [(n, q, 0) for _, n, q in self._around_prompt(together, (at.pairs + wide) / together)]
            prompts += [(n, q, 0) for _, n, q in self._around_prompt(wide, 1.0)] if wide else []
            prompts += [(1, 1, 0), (1, 1, 1)] if at.ends and not wide else []
        wanted += [self.point(n, mean) for _, n, mean in decodes if (n, mean) not in self.decodes]
        self.exact.know([*wanted, *(self.prompt_point(*key) for key in prompts if key not in self.prompts)])

    def instead(self, pieces: Sequence[Piece]) -> Cost:
        """Of an iteration that lies between no points. Raises UserError."""
        return self.exact.of(pieces)

    def _between(self, b: int, total: int, longest: int, second: int, rows: int, pairs: int, ends: int) -> Cost:
        if not b:
            ending = [(1.0, self._prompt(1, 1, 1)), (-1.0, self._prompt(1, 1, 0))] if ends else []
            return added([(1.0, self.prompt(rows, pairs / rows)), *ending])
        if not rows:
            return self._decoding(b, total, longest, second)
        wide = b * self.rows
        if self.mixed_points:
            points = self._around(b, total / b)
            beside = [(weight, self._beside(n, mean)) for weight, n, mean in points]
            return added([(1.0, self.prompt(rows + wide, (pairs + wide) / (rows + wide))), *beside])
        alone = self._decoding(b, total, longest, second, beside=True)
        more = self.prompt(rows + wide, (pairs + wide) / (rows + wide))
        return added([(1.0, alone), (1.0, more), (-1.0, self.prompt(wide, 1.0))])

    def mix_apart(self) -> bool:
        """Give decode beside prompts sample points of its own: units that decode alone uses may be others. False if it
        has them, or none are possible."""
        if self.mixed_points or self.by_token or self.rows > 1:
            return False
        self.mixed_points = True
        self.known = {key: cost for key, cost in self.known.items() if not (key[0] and key[4])}
        return True

    def _beside(self, requests: int, mean: int) -> Cost:
        """What decode at a point adds to a prompt beside it."""
        if (found := self.besides.get((requests, mean))) is None:
            new = min(BESIDE, self.budget, self.positions)
            whole = self.exact.of([*self.point(requests, mean), Piece(new, 0, 0)])
            attended = (new * (new + 1) / 2 + requests) / (new + requests)
            found = added([(1.0, whole), (-1.0, self.prompt(new + requests, attended))])
            self.besides[requests, mean] = found
        return found

    def _decoding(self, b: int, total: int, longest: int, second: int, *, beside: bool = False) -> Cost:
        """Decode; contexts longer than the rest would have them may make it last longer. beside: prompts, for which the
        arrays work while the other sub-batch waits."""
        found = self.decode(b, total / b)
        rest, usual, long = self._long(b, total, longest, second, beside=beside)
        if not long:
            return found
        later = self.decode(b, rest)[0] + (self.pair(longest) - self.pair(usual))
        if long[1:]:
            later += self.turns() * (self.pair(second) - self.pair(usual))
        if (more := later - found[0]) <= 0.0:
            return found
        added_j = (j + more * watts for j, watts in zip(found[JOULES:], self._waiting(longest), strict=True))
        return [later, *found[1:JOULES], *added_j]

    def _waiting(self, context: int) -> list[float]:
        """Energies of a ps [J] while a context is waited for: the least power at the points around it."""
        low, high = (self._pair(n) for n in self._around_pair(context))
        return [min(a / low[0], b / high[0]) for a, b in zip(low[JOULES:], high[JOULES:], strict=True)]

    def _long(self, b: int, total: int, longest: int, second: int, *, beside: bool) -> tuple[float, float, list[int]]:
        """The mean of the contexts of b requests without those, of the two longest (beside prompts: the longest), that
        are longer than the longest which the others would have; that one; and those, if there are any."""
        for long in [[longest, second]] * (b > 2 and not beside) + [[longest]] * (b > 1):
            rest = (total - sum(long)) / (b - len(long))
            usual = self.top(b) * rest
            if long[-1] > usual:
                return rest, usual, long
        return total / b, 0.0, []

    def top(self, b: int) -> float:
        """The longest of b contexts that are spread as those of the workload, as a share of their mean."""
        if (found := self.tops.get(b)) is None:
            shares = self._shares(b)
            found = self.tops[b] = float(shares.max() / shares.mean())
        return found

    def pair(self, context: float) -> float:
        """Time of a token of two requests, one with this context and one that has just begun."""
        low, high = self._around_pair(context)
        at = between(context, low, high)
        return (1 - at) * self._pair(low)[0] + (at * self._pair(high)[0] if at else 0.0)

    def turns(self) -> float:
        """How much of what a long context adds a second one adds, too: all of it where sub-batches take turns, nothing
        where all wait for the longest."""
        if self.of_second is None:
            low, high = (self._pair(n)[0] for n in self._ends())
            two = self.exact.of(two_of(self._ends()[1]))[0]
            self.of_second = min(max((two - high) / (high - low), 0.0), 1.0) if high > low else 0.0
        return self.of_second

    def _ends(self) -> tuple[int, int]:
        high = max(min(self.longest, self.tokens // 2), 2)
        return min(SHORT, high), high

    def _around_pair(self, context: float) -> tuple[int, int]:
        low, high = around(context, self.axes.contexts)
        return low, max(min(high, self.longest, self.tokens - 2), ceil(context))

    def _pair(self, context: int) -> Cost:
        if (found := self.apart.get(context)) is None:
            found = self.apart[context] = self.exact.of(pair_of(context))
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
        """Points around it, each with its weight."""
        low_b, high_b = around(b, self.axes.requests)
        low_c, high_c = around(context, self.axes.contexts)
        room_b = MOST if self.shared else self.tokens // low_c
        room_c = self.tokens // (min(low_b, FEW) if self.shared else low_b)
        high_b = max(min(high_b, self.most or high_b, room_b), b)
        high_c = max(min(high_c, self.longest, room_c), ceil(context))
        return corners(b, low_b, high_b, context, low_c, high_c)

    def _corner(self, requests: int, mean: int) -> Cost:
        """A point; one whose contexts do not fit side by side lies on a line through two with fewer requests: caches
        that are shared, or shorter in part, do fit."""
        if (known := self.corners.get((requests, mean))) is not None:
            return known
        found, fits = self._decode(requests, mean), requests
        while found is None and fits > 2:
            fits //= 2
            found = self._decode(fits, mean)
        half = self._decode(fits // 2, mean) if 1 < fits < requests else None
        if found is None or (fits < requests and half is None):
            raise UserError(f"{requests} requests with contexts of {mean} tokens do not fit")
        if half is not None:
            more = (requests - fits) / (fits - fits // 2)
            found = added([(1 + more, found), (-more, half)])
        self.corners[requests, mean] = found
        return found

    def _decode(self, requests: int, mean: int) -> Cost | None:
        key = (requests, mean)
        if key not in self.decodes:
            try:
                self.decodes[key] = self.exact.of(self.point(requests, mean))
            except UserError:
                self.decodes[key] = None
        return self.decodes[key]

    def point(self, requests: int, mean: int) -> list[Piece]:
        """What decodes there."""
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
        return added([(weight, self._prompt(n, q, 0)) for weight, n, q in self._around_prompt(rows, attended)])

    def _around_prompt(self, rows: int, attended: float) -> list[tuple[float, int, int]]:
        low_n, high_n = around(rows, self.axes.rows)
        low_q, high_q = around(attended, self.axes.attended)
        high_n = self.budget if rows <= self.budget < high_n else high_n
        high_q = self.positions if max(attended, low_q) <= self.positions < high_q else high_q
        return corners(rows, low_n, high_n, attended, low_q, high_q)

    def prompt_point(self, rows: int, attended: int, ends: int) -> list[Piece]:
        """Prompts there, of which none ends, or one."""
        return prompts_of(rows, attended, ends, self.positions)

    def _prompt(self, rows: int, attended: int, ends: int) -> Cost:
        key = (rows, attended, ends)
        if key not in self.prompts:
            self.prompts[key] = self.exact.of(self.prompt_point(*key))
        return self.prompts[key]
