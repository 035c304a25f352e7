"""Interpolated prices of a machine: how far they are off, by kind of phase, and what is done where that is too far."""

from collections.abc import Callable, Sequence
from typing import Any

from pimloom.arch.error import UserError
from pimloom.systems.serving.pricing.costs import JOULES, Cost, Costs, Exact, Piece
from pimloom.systems.serving.pricing.grid import Grid
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

OF_MANY = 8  # [design] iterations that are drawn at random for each that is simulated of them
MENDED = 8  # [design] of steps that a device simulates one by one, so many less mend a kind, and twice these all
NEAR = 0.25  # [design] squared distance, in doublings, below which points count nearly alike
Point = tuple[Sequence[Piece], Cost]  # an iteration that was simulated


class ManyError(Exception):
    """There are more different iterations than a device simulates one by one."""


class Phase:
    """Iterations of a kind. size: of its sample; simulated: each of them is; errors: of the sample; settled: they hold
    for prices as they are; met: the device runs such; own: they have sample points of their own; scale: times count so
    much, to see what an error would do; seen, time_ps: of the last run; points, weights: simulated iterations that
    correct prices near them, and how many each stands for; near: these."""

    def __init__(self, size: int) -> None:
        self.size, self.simulated, self.settled, self.scale = size, False, False, 1.0
        self.met = self.own = False
        self.errors = Errors([], [], 0.0, [])
        self.points, self.weights = list[Point](), list[float]()
        self.near: Residuals | None = None
        self.seen, self.time_ps = 0, 0.0

    @property
    def plain(self) -> bool:
        """Whether prices are as they are interpolated."""
        return not self.simulated and not self.own and self.near is None

    def estimates(self) -> tuple[Estimate, Estimate]:
        """Of time and of energy."""
        times, joules, _, weights = self.errors
        return estimate(times, weights, self.seen), estimate(joules, weights[: len(joules)], self.seen)


class Interpolated:
    """Prices near those of `exact`, which simulates each iteration on `device`. prices: interpolated between sample
    points; few: different iterations that are simulated one by one before prices are interpolated at all; size: of a
    sample of each kind. whole: all are simulated, up to `few`; many: a run has had more than these."""

    def __init__(self, prices: Costs, exact: Costs, device: Exact, few: int, size: int, seed: int) -> None:
        self.prices, self.exact, self.device, self.few, self.seed = prices, exact, device, few, seed
        self.whole, self._first, self._runs, self._sampled = False, 0, 0, True
        self.many = False
        self.phases = {kind: Phase(size) for kind in KINDS}
        self.samples = list[Sample]()
        self._used: Any = prices

    @property
    def last(self) -> Any:
        """Of costs with drafts: what these added last."""
        return self._used.last

    @property
    def decode_of(self) -> Callable[[list[int]], Cost] | None:
        """Prices a token of each request behind so many cached, where no more than that is needed."""
        plain = isinstance(self.prices, Grid) and not self.whole and self.phases[DECODE].plain
        return self._decode if plain else None

    def begin(self, *, whole: bool, sampled: bool) -> None:
        """A run, with interpolated prices or with all iterations simulated."""
        self.whole, self._first, self._sampled = whole, self.device.steps, sampled
        if not whole:
            self._runs += 1
            self.samples.clear()

    def draw(self) -> Sample | None:
        """A sample of the run that begins; None if all is simulated."""
        if self.whole:
            return None
        sizes = {
            kind: 0 if phase.simulated or phase.settled or not self._sampled else OF_MANY * phase.size
            for kind, phase in self.phases.items()
        }
        self.samples.append(Sample(sizes, self.seed + len(KINDS) * (self._runs - 1 + 97 * len(self.samples))))
        return self.samples[-1]

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration. Raises UserError."""
        phase = self.phases[kind := kind_of(pieces)]
        if self.whole or phase.simulated:
            return self._simulate(pieces)
        if not phase.met and kind in (MIXED, VERIFY):  # a price is never made of phases that a device does not mix
            self._possible(pieces)
        phase.met = True
        cost = self._near(phase, pieces)
        return cost if phase.scale == 1.0 else [cost[0] * phase.scale, *cost[1:]]

    def _near(self, phase: Phase, pieces: Sequence[Piece]) -> Cost:
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
        """An iteration, simulated; None if requests that share caches are too many for the device, and are priced all
        the same. Raises UserError for what the device never runs."""
        try:
            return self.exact.of(pieces)
        except UserError:
            if self.device.fits(pieces):
                raise
            return None

    def learn(self, limit: float, *, last: bool) -> bool:
        """Simulate the sample of the run that has ended; whether prices are others now, as some were off by more than
        the limit, and it must run again. last: it will not. Raises UserError."""
        chosen = {
            kind: spread_out([one for each in self.samples for one in each.strata[kind].kept], phase.size)
            for kind, phase in self.phases.items()
        }
        self.device.know([one for some, _ in chosen.values() for one in some])
        changed = False
        for kind, phase in self.phases.items():
            strata = [each.strata[kind] for each in self.samples]
            phase.seen, phase.time_ps = sum(one.seen for one in strata), sum(one.time_ps for one in strata)
            if phase.simulated or phase.settled or not phase.seen:
                continue
            self._measure(phase, *chosen[kind])
            if phase.errors.times and not last and max(one.bound for one in phase.estimates()) > limit:
                self._mend(phase, limit)
                changed = True
        return changed

    def _measure(self, phase: Phase, chosen: Sequence[Sequence[Piece]], weights: Sequence[float]) -> None:
        """Simulate iterations, each of which stands for so many. Raises UserError."""
        points, counts = list[Point](), list[float]()
        for pieces, weight in zip(chosen, weights, strict=True):
            if (cost := self._possible(pieces)) is not None:
                points.append((pieces, cost))
                counts.append(weight)
        priced = [self._near(phase, pieces) for pieces, _ in points]
        phase.errors = errors_of(priced, [cost for _, cost in points], JOULES, counts)
        phase.points += points
        phase.weights += counts

    def _mend(self, phase: Phase, limit: float) -> None:
        """Simulate all of a kind, if they are few; else correct prices near simulated ones. Each of these by the others
        shows what that leaves."""
        if phase.seen <= max(self.few // MENDED, phase.size):
            phase.simulated, phase.errors = True, Errors([], [], phase.errors.watts, [])
            return
        if phase is self.phases[MIXED] and isinstance(self.prices, Grid) and self.prices.mix_apart():
            phase.own, phase.points, phase.weights = True, [], []
            return
        phase.near = Residuals([(where(pieces), self.prices.of(pieces), true) for pieces, true in phase.points])
        if len(phase.points) > 2:
            errors = errors_of(phase.near.left_out(), [true for _, true in phase.points], JOULES, phase.weights)
            phase.errors = errors
            spent = sum(len(one.points) for one in self.phases.values()) + 2 * phase.size > 2 * self.few // MENDED
            phase.settled = spent or max(one.bound for one in phase.estimates()) <= limit
        phase.size *= 2


class Residuals:
    """What interpolated prices lack at simulated iterations, as a share of their time, and between them weighted by the
    inverse of the squared distance. points: where, priced, simulated."""

    def __init__(self, points: Sequence[tuple[list[float], Cost, Cost]]) -> None:
        self.points = points
        self.lacks = [
            [(b - a) / priced[0] for a, b in zip(padded(priced, true), padded(true, priced), strict=True)]
            for _, priced, true in points
        ]

    def corrected(self, at: list[float], cost: Cost, without: int = -1) -> Cost:
        """A price as it would be; without: the number of a point that is left out."""
        weights = [
            0.0 if i == without else 1 / (NEAR + squared(at, there)) for i, (there, *_) in enumerate(self.points)
        ]
        total, found = sum(weights), padded(cost, self.lacks[0])
        for weight, lacks in zip(weights, self.lacks, strict=True):
            for i, lack in enumerate(lacks[: len(found)]):
                found[i] += weight / total * lack * cost[0]
        return [max(value, 0.0) for value in found]

    def left_out(self) -> list[Cost]:
        """The price of each point by all the others."""
        return [self.corrected(at, priced, i) for i, (at, priced, _) in enumerate(self.points)]


def padded(cost: Sequence[float], other: Sequence[float]) -> list[float]:
    """As long as the other, too."""
    return [*cost, *[0.0] * (len(other) - len(cost))]
