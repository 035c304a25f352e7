"""Events in time; at one tick in the order in which they were scheduled."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from pimloom.systems.serving.schedulers.live import NEVER

Action = Callable[[int], object]  # told the tick


class Events:
    """What is to happen, and when."""

    def __init__(self) -> None:
        self.heap = list[tuple[int, int, Action]]()
        self.order = count()

    def at(self, tick: int, action: Action) -> None:
        """Do it then, after whatever was scheduled before for that tick."""
        heappush(self.heap, (tick, next(self.order), action))

    @property
    def due(self) -> int:
        """When something is to happen next, NEVER if nothing is."""
        return self.heap[0][0] if self.heap else NEVER

    def run(self, until: int = NEVER) -> None:
        """All that is to happen before a tick."""
        while self.due < until:
            tick, _, action = heappop(self.heap)
            action(tick)
