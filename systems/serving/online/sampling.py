"""How far costs read between others are off: some of those iterations, drawn at random, simulated after all."""

from collections.abc import Sequence
from math import sqrt
from random import Random

import msgspec

from pimloom.systems.serving.online.costs import Costs, Exact, Piece


class Pricing(msgspec.Struct, frozen=True):
    """exact: whether every different iteration was simulated; simulated: how many were, sampled ones included; sampled:
    how many were drawn of those that were not; error: of the time of all iterations, as the sample tells; error_bound:
    its size and two standard errors; largest_error: of one of the sample. Shares, None if nothing was sampled."""

    exact: bool
    simulated: int
    sampled: int
    error: float | None
    error_bound: float | None
    largest_error: float | None


class Stratum:
    """Iterations of a kind: `size` of them, each as likely, and the time of all [ps]."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random, self.shown, self.time_ps = size, Random(seed), 0, 0.0
        self.kept = list[tuple[Piece, ...]]()

    def show(self, pieces: Sequence[Piece], ps: float) -> None:
        """One more."""
        self.shown += 1
        self.time_ps += ps
        if len(self.kept) < self.size:
            self.kept.append(tuple(pieces))
        elif (place := int(self.random.random() * self.shown)) < self.size:
            self.kept[place] = tuple(pieces)

    def errors(self, grid: Costs, exact: Exact) -> list[float]:
        """What was read by what is true, less one, of those kept. Raises UserError."""
        return [grid.of(pieces)[0] / exact.of(pieces)[0] - 1 for pieces in self.kept]


class Sample:
    """`size` iterations of decode alone, and as many with prompts in them."""

    def __init__(self, size: int, seed: int) -> None:
        self.decode, self.prompts = Stratum(size, seed), Stratum(size, seed + 1)

    def show(self, pieces: Sequence[Piece], ps: float) -> None:
        """One more."""
        decode = all(one.verify or (one.new == 1 and one.cached) for one in pieces)
        (self.decode if decode else self.prompts).show(pieces, ps)


def measured(grid: Costs, exact: Exact, sample: Sample) -> Pricing:
    """Simulate the sample; each kind counts by its time. Raises UserError."""
    kinds = [kind for kind in (sample.decode, sample.prompts) if kind.kept]
    if not kinds:
        return Pricing(False, exact.steps, 0, None, None, None)
    error = variance = largest = 0.0
    for kind in kinds:
        off = kind.errors(grid, exact)
        share, mean, n = kind.time_ps / sum(one.time_ps for one in kinds), sum(off) / len(off), len(off)
        spread = sum((one - mean) ** 2 for one in off) / (n - 1) if n > 1 else mean**2
        error += share * mean
        variance += share**2 * spread / n if n < kind.shown else 0.0
        largest = max(largest, *map(abs, off))
    drawn = sum(len(kind.kept) for kind in kinds)
    return Pricing(False, exact.steps, drawn, error, abs(error) + 2 * sqrt(variance), largest)
