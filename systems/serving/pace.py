"""How long iterations take: each simulated, or only some of them and the others read between these."""

from collections.abc import Callable

import numpy as np

CHANGE = 0.1  # of the batch size, beyond which an iteration is simulated in any case


class Pace:
    """Seconds of an iteration from `step`, asked at every `every`-th one.

    It is asked also at the first one and whenever the batch has changed by more than a tenth since it was last asked.
    In between, an approximation: straight lines in the total of tokens between those iterations simulated so far whose
    batch lies within a tenth of this one's; beyond the least and the largest total the time of that one holds.
    """

    def __init__(self, step: Callable[[np.ndarray, np.ndarray], float], every: int) -> None:
        self._step, self._every = step, every
        self._asked: list[tuple[int, int, float]] = []  # batch, tokens, seconds
        self._since = 0
        self.simulated: list[bool] = []

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
            return self._asked[-1][2]
        alike = {t: s for b, t, s in self._asked if abs(batch - b) <= CHANGE * b}
        totals = sorted(alike)
        return float(np.interp(total, totals, [alike[t] for t in totals]))


class Each:
    """Seconds of an iteration from `step`, asked at every one."""

    def __init__(self, step: Callable[..., float]) -> None:
        self._step = step
        self.simulated: list[bool] = []

    def __call__(self, *batch: object) -> float:
        """Seconds of an iteration."""
        self.simulated.append(True)
        return self._step(*batch)
