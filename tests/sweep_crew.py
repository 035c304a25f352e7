"""Crews and a store that simulate nothing, for tests of what is sent to them."""

from collections import Counter
from random import Random
from typing import Any

from pimloom.sweeping.crew.chunk import Chunk, SchedulerLost
from pimloom.sweeping.crew.simulator import Answer
from pimloom.sweeping.crew.worker import Finished


class Moody:
    """A cluster whose workers come and go, which gives points back, and whose scheduler is lost now and then."""

    scheduler = "here"

    def __init__(self, chance: Random) -> None:
        self._chance, self._workers = chance, 1
        self._running, self._left = list[Chunk](), list[Chunk]()
        self.submitted, self.taken_back = Counter[str](), Counter[str]()

    def _may_be_lost(self) -> None:
        if self._chance.random() < 0.02:
            raise SchedulerLost

    def threads(self) -> int:
        """Workers, other ones now and then."""
        self._may_be_lost()
        if self._chance.random() < 0.3:
            self._workers = self._chance.choice([0, 1, 2, 5, 40])
        return self._workers

    @property
    def wants(self) -> int:
        """Chunks to be sent."""
        return max(2 * self.threads(), 1) - len(self._running)

    def submit(self, chunk: Chunk) -> None:
        """Take a chunk."""
        self._may_be_lost()
        assert chunk.points
        self.submitted.update(chunk.points.keys())
        self._running.append(chunk)

    def finished(self, wait_s: float) -> list[Finished]:
        """Any chunk, or a part of it."""
        self._may_be_lost()
        if not self._running or self._chance.random() < 0.2:
            return []
        points = dict(self._running.pop(self._chance.randrange(len(self._running))).points)
        ended = list(points)[: self._chance.choice([len(points), self._chance.randint(0, len(points))])]
        if rest := {key: point for key, point in points.items() if key not in ended}:
            self._left.append(Chunk(rest))
        return [finished(key, self._chance.choice([1e-5, 0.02, 3.0])) for key in ended]

    def left_over(self) -> list[Chunk]:
        """What was given back."""
        left, self._left = self._left, []
        for chunk in left:
            self.taken_back.update(chunk.points.keys())
        return left

    def take_back(self) -> list[Chunk]:
        """All that runs."""
        lost, self._running = self._running, []
        for chunk in lost:
            self.taken_back.update(chunk.points.keys())
        return lost + self.left_over()

    def connect(self, within_s: float) -> None:
        """Find it again."""

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


def finished(key: str, point_s: float) -> Finished:
    """A simulated point."""
    return Finished(key, Answer({"error": None, "key": key}, b"", 0, ""), "", point_s, "")


class Store:
    """Keys of the rows that were kept; `elsewhere`: of those that others have put there."""

    def __init__(self) -> None:
        self.kept, self.elsewhere = list[str](), set[str]()

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Keep rows."""
        self.kept += [row["key"] for row in rows]

    def append_steps(self, steps: list[bytes]) -> None:
        """There are none."""
        raise AssertionError

    def others(self) -> set[str]:
        """What others have put there."""
        return self.elsewhere
