"""Values of an objective made comparable between workloads: where each stands among those of its own."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass

from pimloom.sweeping.search.space import Place, Space


@dataclass(frozen=True)
class Outcome:
    """What a design point came to: a value per objective, a violation per constraint (<= 0 is met)."""

    values: tuple[float, ...]
    violations: tuple[float, ...] = ()


class Shares:
    """All values known so far, by workload and objective."""

    def __init__(self, space: Space) -> None:
        self._axes = [i for i, axis in enumerate(space.axes) if axis.is_work]
        self._values: dict[tuple[tuple[int | float, ...], int], list[float]] = {}

    def learn(self, known: Iterable[tuple[Place, Outcome]]) -> None:
        """Take in more values."""
        for place, outcome in known:
            for objective, value in enumerate(outcome.values):
                insort(self._values.setdefault((self._work(place), objective), []), value)

    def of(self, place: Place, outcome: Outcome) -> Outcome:
        """The same with each value as the share, 0 to 1, of the known ones of its workload that are lower, and half
        of those that are equal: what was better, equal or worse within a workload stays so."""
        work = self._work(place)
        shares = (_share(value, self._values[work, nth]) for nth, value in enumerate(outcome.values))
        return Outcome(tuple(shares), outcome.violations)

    def _work(self, place: Place) -> tuple[int | float, ...]:
        return tuple(place[i] for i in self._axes)


def _share(value: float, ascending: list[float]) -> float:
    return (bisect_left(ascending, value) + bisect_right(ascending, value)) / (2 * len(ascending))
