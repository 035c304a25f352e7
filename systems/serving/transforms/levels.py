"""Costs of iterations of which decode is transformed, read between those of two levels, each a grid of its own.

Decode of rows that are checked lies between whole numbers of rows; that of branches between sharing nothing and all.
"""

from collections.abc import Sequence
from math import floor

from pimloom.arch.error import UserError
from pimloom.systems.serving.pricing.costs import Cost, Exact, Piece, added
from pimloom.systems.serving.pricing.grid import Grid


class Level(Grid):
    """Decode of requests with so many `rows` each, as `pairs` attends, in groups of `branches` that share all that is
    cached, or nothing."""

    pairs, branches = 0, 0

    def instead(self, pieces: Sequence[Piece]) -> Cost:
        """It knows no more than how many pieces there are."""
        raise UserError(f"{len(pieces)} pieces lie between no iterations that fit")

    def _decoding(self, b: int, total: int, longest: int, second: int, *, beside: bool = False) -> Cost:
        """No less time than the longest context would take by itself, on which one channel may work."""
        found = self.decode(b, total / b)
        return found if b == 1 else [max(found[0], self.decode(1, longest)[0]), *found[1:]]

    def _decode(self, requests: int, mean: int) -> Cost | None:
        key = (requests, mean)
        if key not in self.decodes:
            contexts = [max(n, self.rows + 1) for n in self.contexts(requests, mean)]
            if self.branches:
                contexts = [contexts[i // self.branches * self.branches] for i in range(requests)]
            try:
                self.decodes[key] = self.exact.of([self._piece(i, n) for i, n in enumerate(contexts)])
            except UserError:
                self.decodes[key] = None
        return self.decodes[key]

    def _piece(self, i: int, context: int) -> Piece:
        old, group = context - self.rows, 1 + i // self.branches if self.branches else 0
        return Piece(self.rows, old, self.rows, self.rows > 1, self.pairs, old if group else 0, group)


class Transformed:
    """Costs of iterations, as `Grid` has them. tree: rows and pairs of one, whole or not at all, or None; branches: of
    a request that share its prompt."""

    def __init__(
        self, exact: Exact, spread: Sequence[float], positions: int, tree: tuple[int, int] | None, branches: int
    ) -> None:
        self.exact, self.spread, self.positions = exact, spread, positions
        self.tree, self.branches, self.levels = tree, branches, dict[tuple[int, bool], Level]()

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration. Raises UserError."""
        plain, decodes, rows, shared, cached = list[Piece](), 0, 0, 0, 0
        for one in pieces:
            if one.verify or (one.new == 1 and one.cached):
                decodes, rows = decodes + 1, rows + one.new
                shared, cached = shared + one.shared, cached + one.cached
                one = Piece(1, one.cached + one.new - 1, 1)
            plain.append(one)
        if not decodes:
            two = [(1.0, self._level(1, False))]
        elif shared:
            part = shared / cached
            two = [(1 - part, self._level(1, False)), (part, self._level(1, True))]
        else:
            two = self._by_rows(rows / decodes)
        try:
            return added([(weight, level.of(plain)) for weight, level in two if weight])
        except UserError:  # as in `Grid`
            return self.exact.of(pieces)

    def _by_rows(self, mean: float) -> list[tuple[float, Level]]:
        low, high = (floor(mean), floor(mean) + 1) if self.tree is None else (1, self.tree[0])
        if mean in (low, high):
            return [(1.0, self._level(int(mean), False))]
        part = (mean - low) / (high - low)
        return [(1 - part, self._level(low, False)), (part, self._level(high, False))]

    def _level(self, rows: int, shared: bool) -> Level:
        if (found := self.levels.get((rows, shared))) is None:
            found = self.levels[rows, shared] = Level(self.exact, self.spread, self.positions)
            found.rows, found.branches = rows, self.branches if shared else 0
            found.pairs = self.tree[1] if self.tree is not None and rows == self.tree[0] else 0
        return found
