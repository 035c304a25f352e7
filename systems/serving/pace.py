"""How long iterations take: each simulated, or only some of them and the others read between these."""

from bisect import bisect, insort
from collections.abc import Callable
from math import fsum, hypot, sqrt
from typing import NamedTuple

import numpy as np

from pimloom.systems.interpolation import LEAST

CHANGE = 0.1  # of the batch size, beyond which an iteration is simulated in any case


class Pace:
    """Seconds of an iteration from `step`, asked at every `every`-th one.

    It is asked also at the first one and whenever the batch has changed by more than a tenth since it was last asked;
    after that at distances of 1, 2, 4 iterations and so on up to `every`. In between, an approximation: straight lines
    in the total of tokens between those iterations simulated so far whose batch lies within a tenth of this one's.
    Beyond the least and the largest total a line goes on, at most as far as its two points are apart: times that are
    linear in the total of tokens are exact while it grows.
    weights: how often each simulated iteration counts, so that what else they take can be read between them alike.
    """

    def __init__(self, step: Callable[[np.ndarray, np.ndarray], float], every: int) -> None:
        self._step, self._every = step, every
        self._asked: list[tuple[int, int, float]] = []  # batch, tokens, seconds
        self._known: dict[int, _Known] = {}  # of each batch size
        self._read, self._stretch = 0, 1  # since one was simulated; iterations to the next one that is
        self._off: list[tuple[int, float]] = []  # iterations read before one was simulated; what that was off [s]
        self._total_s = 0.0
        self.simulated: list[bool] = []
        self.weights: list[float] = []

    def __call__(self, tokens: np.ndarray, channel: np.ndarray) -> float:
        """Seconds of an iteration."""
        batch, total = len(tokens), int(tokens.sum())
        near = bool(self._asked) and abs(batch - self._asked[-1][0]) <= CHANGE * self._asked[-1][0]
        asks = not near or self._read + 1 >= self._stretch
        self.simulated.append(asks)
        if asks:
            seconds = self._step(tokens, channel)
            if near and self._read:
                self._off.append((self._read, self._line(batch, total).seconds - seconds))
            self._stretch = min(2 * self._stretch, self._every) if near else 1
            self._read = 0
            self._known.setdefault(batch, _Known([], {})).learn(total, len(self._asked))
            self._asked.append((batch, total, seconds))
            self.weights.append(1.0)
        else:
            line = self._line(batch, total)
            seconds = line.seconds
            self._read += 1
            for place, share in line.shares.items():
                self.weights[place] += share
        self._total_s += seconds
        return seconds

    @property
    def error(self) -> float | None:
        """Standard error of the time of all iterations, as a share of it: estimated from how far those simulated came
        out off what would have been read for them, each for those read before it, off by half of that on average where
        times drift. 0 where all are simulated, None where fewer than three tell.
        """
        if all(self.simulated) or not self._total_s:
            return 0.0
        if len(self._off) < LEAST:
            return None
        often, off = np.array(self._off).T
        drift = float(often @ off) / 2
        spread = sqrt(float((often**2 * (off - 2 * drift / often.sum()) ** 2).sum() * len(off) / (len(off) - 1)))
        return hypot(drift, spread) * self.simulated.count(False) / float(often.sum()) / self._total_s

    def _line(self, batch: int, total: int) -> "_Line":
        """What is read for an iteration; one like it was simulated."""
        alike = [known for b, known in self._known.items() if abs(batch - b) <= CHANGE * b]
        nearest = [known.beside(total) for known in alike]
        lows = [low for low, _ in nearest if low is not None]
        highs = [high for _, high in nearest if high is not None]
        ends = (max(lows), min(highs)) if lows and highs else _beyond(alike, total, max(lows, default=0) or min(highs))
        places = [max(known.last[end] for known in alike if end in known.last) for end in ends]
        if ends[0] == ends[1]:
            return _Line(self._asked[places[0]][2], {places[0]: 1.0})
        share = min((total - ends[0]) / (ends[1] - ends[0]), 2.0)
        shares = 1 - share, share
        seconds = fsum(part * self._asked[place][2] for part, place in zip(shares, places, strict=True))
        return _Line(max(seconds, 0.0), dict(zip(places, shares, strict=True)))


def _beyond(alike: list["_Known"], total: int, end: int) -> tuple[int, int]:
    """Two simulated totals for the extrapolation to `total`, beyond `end`: the end, and the nearest simulated total
    that is at least as far from it as `total`, or else the other end."""
    mirror = 2 * end - total
    sides = [known.beside(mirror)[total < end] for known in alike]
    there = [side for side in sides if side is not None]
    if total > end:
        return max(there, default=min(known.totals[0] for known in alike)), end
    return min(there, default=max(known.totals[-1] for known in alike)), end


class _Known(NamedTuple):
    """Totals of tokens that were simulated, in order; of each the last iteration."""

    totals: list[int]
    last: dict[int, int]

    def learn(self, total: int, place: int) -> None:
        """One more iteration."""
        if total not in self.last:
            insort(self.totals, total)
        self.last[total] = place

    def beside(self, total: int) -> tuple[int | None, int | None]:
        """The next total up to this one, and the next above it; None beyond an end."""
        behind = bisect(self.totals, total)
        low, high = self.totals[max(behind - 1, 0) : behind], self.totals[behind : behind + 1]
        return low[0] if low else None, high[0] if high else None


class _Line(NamedTuple):
    """Seconds, and how much of them each simulated iteration has."""

    seconds: float
    shares: dict[int, float]


class Each:
    """Seconds of an iteration from `step`, asked at every one."""

    def __init__(self, step: Callable[..., float]) -> None:
        self._step = step
        self.simulated: list[bool] = []

    @property
    def weights(self) -> list[float]:
        """How often each simulated iteration counts."""
        return [1.0] * len(self.simulated)

    @property
    def error(self) -> float:
        """Of none that is not simulated."""
        return 0.0

    def __call__(self, *batch: object) -> float:
        """Seconds of an iteration."""
        self.simulated.append(True)
        return self._step(*batch)
