"""Predicts the sample points of a run by a run with guessed prices, so that they are simulated in parallel.

A run needs sample points one after the other. Guesses never become prices: they only decide which points are simulated
ahead. Points that they miss are simulated when the run needs them.
"""

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from pimloom.systems.serving.pricing.costs import Cost, Exact, Piece, Progress
from pimloom.systems.serving.pricing.interpolated import ManyError
from pimloom.systems.serving.pricing.points import around, sums

if TYPE_CHECKING:
    from pimloom.systems.serving.pricing.grid import Grid

FEW, MORE = 2, 8  # requests of the first points: two are divided into sub-batches
SHORT = 64  # tokens that rows of prompts attend to


class Guessed(Exact):
    """Costs in the place of an exact device's: those that it knows, else times on a plane through these. many: how many
    that are not known there may be, 0: any number; asked: these."""

    def __init__(self, exact: Exact, many: int = 0) -> None:
        super().__init__(exact.device)
        self.many = many
        self.exact, self.asked = exact, dict[tuple[Piece, ...], None]()
        known = [(_read_at(pieces), cost[0]) for pieces, cost in exact.known.items()]
        table, ps = np.array([at for at, _ in known]), np.array([time for _, time in known])
        self.plane = np.linalg.lstsq(table / ps[:, None], np.ones(len(ps)), rcond=None)[0]  # each as well as it can be
        self.least = float(ps.min())

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """Time alone [ps]. Raises ManyError."""
        key = tuple(sorted(pieces))
        if (found := self.exact.known.get(key)) is not None:
            return found[:1]
        self.asked[key] = None
        if self.many and len(self.asked) > self.many:
            raise ManyError
        return [max(float(self.plane @ _read_at(key)), self.least)]

    def know(self, many: Sequence[Sequence[Piece]], progress: Progress = lambda done, total: None) -> None:
        """Nothing is simulated."""


def _read_at(pieces: Sequence[Piece]) -> list[float]:
    at = sums(pieces)
    return [1.0, at.b > 1, log2(max(at.b, 1)), at.total / max(at.b, 1), at.rows]


def first_points(grid: "Grid", mean: float, prompts: int) -> list[list[Piece]]:
    """Iterations that guesses begin with: most runs come to them. mean: context of requests that decode; prompts:
    tokens of all of them."""
    low, high = around(mean, grid.axes.contexts)
    low = min(low, grid.longest)
    decodes = [(1, low), (FEW, low), (MORE, low), (MORE, min(high, grid.longest))]
    low_n, high_n = around(min(prompts, 16 * grid.tile, grid.budget), grid.axes.rows)
    rows = sorted({min(grid.tile, low_n), min(high_n, grid.budget)})
    return [*(grid.point(b, c) for b, c in decodes), *(grid.prompt_point(n, SHORT, 0) for n in rows)]
