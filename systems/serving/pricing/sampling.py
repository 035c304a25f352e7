"""How far costs read between others are off: some of those iterations, drawn at random, simulated after all."""

from collections.abc import Sequence
from contextlib import suppress
from math import log, log1p, sqrt
from random import Random

import msgspec

from pimloom.arch.error import UserError
from pimloom.systems.serving.pricing.costs import Costs, Exact, Piece
from pimloom.systems.serving.schedulers.live import NEVER


class Pricing(msgspec.Struct, frozen=True):
    """exact: whether every different iteration was simulated; simulated: how many were, sampled ones included; sampled:
    how many were drawn of those that were not; error: of the time of all iterations, as the sample tells; error_bound:
    its size and what 95 % of such samples are off at most, by Student; largest_error: of one of the sample. Shares,
    None if nothing was sampled."""

    exact: bool
    simulated: int
    sampled: int
    error: float | None
    error_bound: float | None
    largest_error: float | None


class Stratum:
    """Iterations of a kind: `size` of them, each as likely [Li, Reservoir-sampling algorithms, ACM TOMS 1994], and the
    time of all [ps]. following: number of the next one that is kept, of those that are shown."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random, self.shown, self.time_ps = size, Random(seed), 0, 0.0
        self.kept = list[tuple[Piece, ...]]()
        self.following, self._least = 1 if size else NEVER, 1.0

    def takes(self, ps: float) -> bool:
        """One more, of so much time: whether it is to be kept."""
        self.shown += 1
        self.time_ps += ps
        return self.shown == self.following

    def keep(self, pieces: Sequence[Piece]) -> None:
        """In place of one that is there, if there is no room."""
        if len(self.kept) < self.size:
            self.kept.append(tuple(pieces))
        else:
            self.kept[self.random.randrange(self.size)] = tuple(pieces)
        self.following = self.shown + 1
        if len(self.kept) == self.size:
            self._least *= (1.0 - self.random.random()) ** (1 / self.size)
            if self._least < 1.0:
                self.following += int(log(1.0 - self.random.random()) / log1p(-self._least))

    def errors(self, grid: Costs, exact: Exact) -> list[float]:
        """What was read by what is true, less one, of those kept that can be simulated: a device has a cache for each
        request, so that those which share blocks may be too many for it."""
        found = list[float]()
        for pieces in self.kept:
            with suppress(UserError):
                found.append(grid.of(pieces)[0] / exact.of(pieces)[0] - 1)
        return found


class Sample:
    """`size` iterations of decode alone, and half as many with prompts in them, which are seldom and long."""

    def __init__(self, size: int, seed: int) -> None:
        self.decode, self.prompts = Stratum(size, seed), Stratum((size + 1) // 2, seed + 1)

    def of(self, pieces: Sequence[Piece]) -> Stratum:
        """Its kind."""
        decode = all(one.verify or (one.new == 1 and one.cached) for one in pieces)
        return self.decode if decode else self.prompts


def measured(grid: Costs, exact: Exact, sample: Sample) -> Pricing:
    """Simulate the sample; each kind counts by its time. Raises UserError."""
    exact.know([*sample.decode.kept, *sample.prompts.kept])
    kinds = [(kind, off) for kind in (sample.decode, sample.prompts) if (off := kind.errors(grid, exact))]
    if not kinds:
        return Pricing(False, exact.steps, 0, None, None, None)
    error = variance = largest = 0.0
    for kind, off in kinds:
        share, mean, n = kind.time_ps / sum(one.time_ps for one, _ in kinds), sum(off) / len(off), len(off)
        error += share * mean
        if n < kind.shown:
            spread = sum((one - mean) ** 2 for one in off) / (n - 1) if n > 1 else mean**2
            variance += (share * t95(max(n - 1, 1))) ** 2 * spread / n
        largest = max(largest, *map(abs, off))
    drawn = sum(len(off) for _, off in kinds)
    return Pricing(False, exact.steps, drawn, error, abs(error) + sqrt(variance), largest)


def t95(freedom: int) -> float:
    """Student's quantile that 95 % lie within on both sides: a sample of few may have missed those that are far off.

    >>> [round(t95(n), 2) for n in (1, 2, 7, 1000)]
    [12.71, 4.3, 2.36, 1.96]
    """
    from scipy.special import stdtrit  # scipy is slow to import

    return float(stdtrit(freedom, 0.975))


def worst(pricing: Sequence[Pricing]) -> Pricing:
    """All counted, and the largest error."""
    worst = max(pricing, key=lambda one: one.error_bound or 0.0)
    return Pricing(
        worst.exact, sum(one.simulated for one in pricing), sum(one.sampled for one in pricing), worst.error,
        worst.error_bound, max((one.largest_error for one in pricing if one.largest_error is not None), default=None),
    )  # fmt: skip
