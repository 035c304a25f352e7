"""Interpolated prices of a machine, their errors by kind of phase, and corrections where an error is too large."""

from collections.abc import Callable, Sequence
from typing import Any

from pimloom.arch.error import UserError
from pimloom.systems.serving.pricing.costs import JOULES, Cost, Costs, Exact, Piece, Progress
from pimloom.systems.serving.pricing.fitted import Fitted
from pimloom.systems.serving.pricing.grid import Grid
from pimloom.systems.serving.pricing.points import CHEAP
from pimloom.systems.serving.pricing.sampling import (
    DECODE,
    KINDS,
    MIXED,
    VERIFY,
    Errors,
    Estimate,
    Sample,
    errors_of,
    estimate,
    kind_of,
    spread_out,
    squared,
    where,
)

OF_MANY = 8  # [design] random iterations for each one that is chosen and simulated
MENDED = 8  # [design] a kind with at most 1 / 8 of `few` iterations is simulated whole
SAMPLES = 2  # [design] at most 1 / 2 of `few` iterations are simulated to correct prices
MOST_OF_ALL = 2  # [design] times as many iterations of decode, which has most of the time, in samples of a fit
NEAR = 0.25  # [design] squared distance, in doublings, below which points count nearly alike
Point = tuple[Sequence[Piece], Cost]  # an iteration that was simulated


class ManyError(Exception):
    """A run has more different iterations than may be simulated."""


class PhaseErrors:
    """Prices of one kind of phase. size: of its sample; simulated: all its iterations are simulated; errors: of the
    sample; settled: `errors` are those of the present prices; met: the device runs this kind; own: it has its own
    sample points; scale: factor on times, to try the effect of an error; seen, time_ps: iterations of the last run and
    their time; points, weights: simulated iterations, and how many each stands for; near: the correction from `points`.
    """

    def __init__(self, size: int) -> None:
        self.size, self.simulated, self.settled, self.scale = size, False, False, 1.0
        self.met = self.own = False
        self.errors = Errors([], [], 0.0, [])
        self.points, self.weights = list[Point](), list[float]()
        self.near: Residuals | None = None
        self.seen, self.time_ps = 0, 0.0

    @property
    def plain(self) -> bool:
        """Whether prices are interpolated without correction."""
        return not self.simulated and not self.own and self.near is None

    def estimates(self) -> tuple[Estimate, Estimate]:
        """Estimates of the errors of time and of energy."""
        times, joules, _, weights = self.errors
        return estimate(times, weights, self.seen), estimate(joules, weights[: len(joules)], self.seen)


class Interpolated:
    """Prices that approximate `exact`, which simulates each iteration on `device`. prices: interpolation between sample
    points; few: number of different iterations up to which all are simulated; size: of the sample of each kind. whole:
    all iterations of this run are simulated; many: a run had more than `few` different ones."""

    def __init__(self, prices: Costs, exact: Costs, device: Exact, few: int, size: int, seed: int) -> None:
        self.prices, self.exact, self.device, self.few, self.seed = prices, exact, device, few, seed
        self.whole, self._first, self._runs, self._sampled = False, 0, 0, True
        self.many = False
        many = MOST_OF_ALL if isinstance(prices, Fitted) else 1
        self.phases = {kind: PhaseErrors(size * (many if kind == DECODE else 1)) for kind in KINDS}
        self.samples = list[Sample]()
        self._used: Any = prices

    @property
    def last(self) -> Any:
        """With drafts: the cost that drafts added to the last iteration."""
        return self._used.last

    @property
    def decode_of(self) -> Callable[[list[int]], Cost] | None:
        """A function that prices one decode token per request from the cached tokens of each; None if prices are
        corrected."""
        plain = isinstance(self.prices, Grid) and not self.whole and self.phases[DECODE].plain
        return self._decode if plain else None

    def begin(self, *, whole: bool, sampled: bool) -> None:
        """Begin a run. whole: simulate all iterations; sampled: measure errors."""
        self.whole, self._first, self._sampled = whole, self.device.steps, sampled
        if not whole:
            self._runs += 1
            self.samples.clear()

    def draw(self) -> Sample | None:
        """A sample for the run that begins; None if all iterations are simulated."""
        if self.whole:
            return None
        sizes = {
            kind: 0 if phase.simulated or phase.settled or not self._sampled else OF_MANY * phase.size
            for kind, phase in self.phases.items()
        }
        self.samples.append(Sample(sizes, self.seed + len(KINDS) * (self._runs - 1 + 97 * len(self.samples))))
        return self.samples[-1]

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """The price of an iteration. Raises UserError."""
        phase = self.phases[kind := kind_of(pieces)]
        if self.whole or phase.simulated:
            return self._simulate(pieces)
        if not phase.met and kind in (MIXED, VERIFY):  # no price for phases that a device does not mix
            self._possible(pieces)
        phase.met = True
        cost = self._near(phase, pieces)
        return cost if phase.scale == 1.0 else [cost[0] * phase.scale, *cost[1:]]

    def _near(self, phase: PhaseErrors, pieces: Sequence[Piece]) -> Cost:
        self._used = self.prices
        cost = self.prices.of(pieces)
        return cost if phase.near is None else phase.near.corrected(where(pieces), cost)

    def _decode(self, cached: list[int]) -> Cost:
        assert isinstance(self.prices, Grid)
        cost, scale = self.prices.decode_of(cached), self.phases[DECODE].scale
        return cost if scale == 1.0 else [cost[0] * scale, *cost[1:]]

    def _simulate(self, pieces: Sequence[Piece]) -> Cost:
        self._used = self.exact
        if not self.whole:
            return self.exact.of(pieces)
        if self.device.steps - self._first > self.few:
            raise ManyError
        if (cost := self._possible(pieces)) is None:
            raise ManyError
        return cost

    def _possible(self, pieces: Sequence[Piece]) -> Cost | None:
        """The simulated cost of an iteration; None if requests that share caches do not fit without sharing. Raises
        UserError for an iteration that the device never runs."""
        try:
            return self.exact.of(pieces)
        except UserError:
            if self.device.fits(pieces):
                raise
            return None

    @property
    def quick(self) -> bool:
        """Whether a run needs few simulations before its number of different iterations is known."""
        return self.few >= CHEAP or isinstance(self.prices, Fitted)

    def know(self, progress: Progress) -> None:
        """Simulate the iterations of the last run side by side, if they are known and no more than `few`."""
        if isinstance(self.prices, Fitted) and len(self.prices.asked) <= self.few:
            self.device.know(list(self.prices.asked), progress)

    def learn(self, limit: float, progress: Progress, *, last: bool) -> bool:
        """Simulate the sample of the run that has ended, and correct the prices of kinds whose error may exceed
        `limit`. Returns whether prices changed, so that the run must be repeated. last: change nothing. Raises
        UserError."""
        chosen = {
            kind: spread_out([one for each in self.samples for one in each.strata[kind].kept], phase.size)
            for kind, phase in self.phases.items()
        }
        self.device.know([one for some, _ in chosen.values() for one in some], progress)
        beyond = list[PhaseErrors]()
        for kind, phase in self.phases.items():
            strata = [each.strata[kind] for each in self.samples]
            phase.seen, phase.time_ps = sum(one.seen for one in strata), sum(one.time_ps for one in strata)
            if phase.simulated or phase.settled or not phase.seen:
                continue
            self._measure(phase, *chosen[kind])
            if phase.errors.times and not last and max(one.bound for one in phase.estimates()) > limit:
                beyond.append(phase)
        for phase in beyond:
            self._mend(phase, limit)
        if isinstance(self.prices, Fitted) and any(not phase.simulated for phase in beyond):
            self._refit(self.prices, limit)
        return bool(beyond)

    def _measure(self, phase: PhaseErrors, chosen: Sequence[Sequence[Piece]], weights: Sequence[float]) -> None:
        """Simulate the chosen iterations and set the errors of a kind. Raises UserError."""
        points, counts = list[Point](), list[float]()
        for pieces, weight in zip(chosen, weights, strict=True):
            if (cost := self._possible(pieces)) is not None:
                points.append((pieces, cost))
                counts.append(weight)
        priced = [self._near(phase, pieces) for pieces, _ in points]
        phase.errors = errors_of(priced, [cost for _, cost in points], JOULES, counts)
        phase.points += points
        phase.weights += counts

    def _mend(self, phase: PhaseErrors, limit: float) -> None:
        """Simulate all iterations of a kind, if they are few; else correct prices near simulated ones. The remaining
        error is that of each simulated iteration, corrected by the others."""
        if phase.seen <= self._few(phase):
            phase.simulated, phase.errors = True, Errors([], [], phase.errors.watts, [])
            return
        if isinstance(self.prices, Fitted):
            return
        if phase is self.phases[MIXED] and isinstance(self.prices, Grid) and self.prices.mix_apart():
            phase.own, phase.points, phase.weights = True, [], []
            return
        phase.near = Residuals([(where(pieces), self.prices.of(pieces), true) for pieces, true in phase.points])
        if len(phase.points) > 2:
            errors = errors_of(phase.near.left_out(), [true for _, true in phase.points], JOULES, phase.weights)
            phase.errors = errors
            phase.settled = self._spent(2 * phase.size) or max(one.bound for one in phase.estimates()) <= limit
        phase.size *= 2

    def _few(self, phase: PhaseErrors) -> int:
        """Iterations of a kind up to which all are simulated, once prices are corrected."""
        return max(self.few // MENDED, phase.size)

    def _spent(self, more: int) -> bool:
        """Whether `more` iterations would exceed the number that corrections may simulate."""
        return sum(len(one.points) for one in self.phases.values()) + more > self.few // SAMPLES

    def _refit(self, prices: Fitted, limit: float) -> None:
        """Fit prices to all simulated iterations. The remaining error of a sampled iteration is from a fit to all
        others."""
        prices.learn({tuple(sorted(pieces)): true for one in self.phases.values() for pieces, true in one.points})
        for phase in self.phases.values():
            if 0 < phase.seen <= self._few(phase):
                phase.simulated, phase.errors = True, Errors([], [], phase.errors.watts, [])
            elif phase.points and not phase.simulated:
                left = prices.left_out([tuple(sorted(pieces)) for pieces, _ in phase.points])
                phase.errors = errors_of(left, [true for _, true in phase.points], JOULES, phase.weights)
                phase.settled = self._spent(phase.size) or max(one.bound for one in phase.estimates()) <= limit


class Residuals:
    """Corrections of prices: the residual at each simulated iteration as a share of its time, elsewhere their mean
    weighted by the inverse squared distance. points: place, price, simulated cost."""

    def __init__(self, points: Sequence[tuple[list[float], Cost, Cost]]) -> None:
        self.points = points
        self.lacks = [
            [(b - a) / priced[0] for a, b in zip(padded(priced, true), padded(true, priced), strict=True)]
            for _, priced, true in points
        ]

    def corrected(self, at: list[float], cost: Cost, without: int = -1) -> Cost:
        """A corrected price at a place. without: index of a point that is left out."""
        weights = [
            0.0 if i == without else 1 / (NEAR + squared(at, there)) for i, (there, *_) in enumerate(self.points)
        ]
        total, found = sum(weights), padded(cost, self.lacks[0])
        for weight, lacks in zip(weights, self.lacks, strict=True):
            for i, lack in enumerate(lacks[: len(found)]):
                found[i] += weight / total * lack * cost[0]
        return [max(value, 0.0) for value in found]

    def left_out(self) -> list[Cost]:
        """The price of each point, corrected by all other points."""
        return [self.corrected(at, priced, i) for i, (at, priced, _) in enumerate(self.points)]


def padded(cost: Sequence[float], other: Sequence[float]) -> list[float]:
    """A cost with zeros up to the length of the other."""
    return [*cost, *[0.0] * (len(other) - len(cost))]
