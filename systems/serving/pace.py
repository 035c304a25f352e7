"""How long iterations take: each simulated, or only some of them and the others read between these."""

from bisect import bisect
from collections.abc import Callable

import numpy as np

CHANGE = 0.1  # of the batch size, beyond which an iteration is simulated in any case


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
        self.simulated: list[bool] = []
        self.weights: list[float] = []

    def __call__(self, tokens: np.ndarray, channel: np.ndarray) -> float:
        """Seconds of an iteration."""
        self._since += 1
        batch, total = len(tokens), int(tokens.sum())
        asks = not self._asked or self._since >= self._every
        asks = asks or abs(batch - self._asked[-1][0]) > CHANGE * self._asked[-1][0]
        self.simulated.append(asks)
        if asks:
            self._since = 0
            self._asked.append((batch, total, self._step(tokens, channel)))
            self.weights.append(1.0)
            return self._asked[-1][2]
        alike = {t: n for n, (b, t, _) in enumerate(self._asked) if abs(batch - b) <= CHANGE * b}
        totals = sorted(alike)
        self._count(total, totals, [alike[t] for t in totals])
        return float(np.interp(total, totals, [self._asked[alike[t]][2] for t in totals]))

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

    def __call__(self, *batch: object) -> float:
        """Seconds of an iteration."""
        self.simulated.append(True)
        return self._step(*batch)
