"""How long iterations take: each simulated, or only some of them and the others read between these."""

from bisect import bisect
from collections.abc import Callable
from math import hypot, sqrt
from statistics import fmean, pstdev

import numpy as np

CHANGE = 0.1  # of the batch size, beyond which an iteration is simulated in any case
LEAST = 3  # iterations that tell an error


class Pace:
    """Seconds of an iteration from `step`, asked at every `every`-th one.

    It is asked also at the first one and whenever the batch has changed by more than a tenth since it was last asked.
    In between, an approximation: straight lines in the total of tokens between those iterations simulated so far whose
    batch lies within a tenth of this one's; beyond the least and the largest total the time of that one holds.
    weights: how often each simulated iteration counts, so that what else they take can be read between them alike.
    """

    def __init__(self, step: Callable[[np.ndarray, np.ndarray], float], every: int) -> None:
        self._step, self._every = step, every
        self._asked: list[tuple[int, int, float]] = []  # batch, tokens, seconds
        self._since = 0
        self._off: list[float] = []  # seconds, of those simulated that could have been read between earlier ones
        self._total_s = 0.0
        self.simulated: list[bool] = []
        self.weights: list[float] = []

    def __call__(self, tokens: np.ndarray, channel: np.ndarray) -> float:
        """Seconds of an iteration."""
        self._since += 1
        batch, total = len(tokens), int(tokens.sum())
        asks = not self._asked or self._since >= self._every
        asks = asks or abs(batch - self._asked[-1][0]) > CHANGE * self._asked[-1][0]
        self.simulated.append(asks)
        alike = {t: n for n, (b, t, _) in enumerate(self._asked) if abs(batch - b) <= CHANGE * b}
        totals = sorted(alike)
        seconds = float(np.interp(total, totals, [self._asked[alike[t]][2] for t in totals])) if alike else None
        if asks:
            read, seconds = seconds, self._step(tokens, channel)
            if read is not None:
                self._off.append(read - seconds)
            self._since = 0
            self._asked.append((batch, total, seconds))
            self.weights.append(1.0)
        else:
            self._count(total, totals, [alike[t] for t in totals])
        assert seconds is not None  # nothing alike is asked for
        self._total_s += seconds
        return seconds

    @property
    def error(self) -> float | None:
        """Standard error of the time of all iterations, as a share of it: estimated from how far those simulated came
        out off what would have been read for them. 0 where all are simulated, None where fewer than three could tell.
        """
        if all(self.simulated) or not self._total_s:
            return 0.0
        if len(self._off) < LEAST:
            return None
        one = hypot(fmean(self._off), pstdev(self._off) / sqrt(len(self._off)))
        return one * self.simulated.count(False) / self._total_s

    def _count(self, total: int, totals: list[int], places: list[int]) -> None:
        """This iteration lies between those at `places`."""
        behind = bisect(totals, total)
        if behind in (0, len(totals)):
            self.weights[places[min(behind, len(totals) - 1)]] += 1
            return
        share = (total - totals[behind - 1]) / (totals[behind] - totals[behind - 1])
        self.weights[places[behind - 1]] += 1 - share
        self.weights[places[behind]] += share


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
