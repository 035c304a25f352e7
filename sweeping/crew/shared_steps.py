"""Sub-problems that simulators have solved, packed, for others on the same worker."""

import threading

from pimloom.arch.units import MIB

MOST_BYTES = 16 * MIB  # some 230,000 runs of command streams; more are solved again where they are needed


class SharedSteps:
    """A list that only grows, for many threads."""

    def __init__(self, steps: list[bytes]) -> None:
        self._lock, self._bytes = threading.Lock(), 0
        self._steps: list[tuple[object, bytes]] = []
        for step in steps:
            self.add(step)

    def add(self, steps: bytes, by: object = None) -> None:
        """Take what somebody solved."""
        with self._lock:
            if steps and self._bytes + len(steps) <= MOST_BYTES:
                self._steps.append((by, steps))
                self._bytes += len(steps)

    def since(self, heard: int, by: object) -> tuple[list[bytes], int]:
        """What others have solved behind the first `heard` of the list, and how long it is now."""
        with self._lock:
            news = self._steps[heard:]
        return [steps for source, steps in news if source is not by], heard + len(news)
