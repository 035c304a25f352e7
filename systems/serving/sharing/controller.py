"""semi-PD's controller: which share of a machine prompts have, and which decode, by what the last window showed.

TTFT(x) = a / (x - load) + b with load = 100 x rate x time of a prompt on all of it (a queue of one server), TPOT(y) =
a / y + b; a and b by least squares over what was seen at each share [paper]. If one of the two limits fails its share
is raised, up to `most` steps, until the estimate holds it; if both fail or none does, nothing is changed. (The
published listing raises x where both fail and never counts steps, against its text, which is followed here.)
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

WHOLE = 100  # percent
Points = list[tuple[float, float]]  # share [%], time [s]


class Control(NamedTuple):
    """window: iterations between two looks; step [%], at most `most` of them at a look; percentile: of requests that
    must hold the limits [%]; apart: whether shares may not overlap."""

    window: int
    step: Fraction = Fraction(5)
    most: int = 4
    percentile: float = 90.0
    apart: bool = False


class Seen(NamedTuple):
    """In a window: TTFT and TPOT [s] at that percentile, None if no request tells; load of prompts [%]."""

    ttft: float | None
    tpot: float | None
    load: float


class Law(NamedTuple):
    """a / (share - load) + b."""

    a: float
    b: float

    def at(self, share: float, load: float = 0.0) -> float:
        """Infinite where the share is not above the load."""
        return self.a / (share - load) + self.b if share > load else float("inf")


def fitted(points: Points) -> Law:
    """Least squares over (share less load, time); b is 0 where all shares are one.

    >>> fitted([(50, 3.0), (25, 5.0)])
    Law(a=100.0, b=1.0)
    """
    inverse = np.array([1 / share for share, _ in points])
    times = np.array([time for _, time in points])
    spread = inverse - inverse.mean()
    if not (spread**2).sum() > 1e-18:
        return Law(float(times.mean() / inverse.mean()), 0.0)
    a = float((spread * times).sum() / (spread**2).sum())
    return Law(round(a, 12), round(float(times.mean() - a * inverse.mean()), 12))


class Controller:
    """x: share of prompts, y: of decode [%]; limits [s]."""

    def __init__(self, control: Control, x: Fraction, y: Fraction, ttft: float, tpot: float) -> None:
        self.control, self.x, self.y, self.ttft, self.tpot = control, x, y, ttft, tpot
        self.firsts, self.others = Points(), Points()

    def look(self, seen: Seen) -> tuple[Fraction, Fraction]:
        """Both shares from now on."""
        if seen.ttft is not None and self.x > seen.load:
            self.firsts.append((float(self.x) - seen.load, seen.ttft))
        if seen.tpot is not None:
            self.others.append((float(self.y), seen.tpot))
        late = seen.ttft is not None and seen.ttft > self.ttft
        slow = seen.tpot is not None and seen.tpot > self.tpot
        if late and not slow:
            law = fitted(self.firsts) if self.firsts else Law(float("inf"), 0.0)
            self.x, self.y = self._raised(self.x, self.y, lambda x: law.at(float(x), seen.load) <= self.ttft)
        elif slow and not late:
            law = fitted(self.others)
            self.y, self.x = self._raised(self.y, self.x, lambda y: law.at(float(y)) <= self.tpot)
        return self.x, self.y

    def _raised(self, mine: Fraction, other: Fraction, holds: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
        """The one that fails; where it is all there is already, the other gives way."""
        step = self.control.step
        for _ in range(self.control.most):
            if holds(mine):
                break
            there = WHOLE - other if self.control.apart else WHOLE
            if mine + step <= there:
                mine += step
            elif other - step >= step:
                other -= step
                mine += step if self.control.apart else Fraction(0)
            else:
                break
        return mine, other
