"""Events in time; at one tick in the order in which they were scheduled."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[int], object]  # told the tick


class Events:
    """What is to happen, and when."""

    def __init__(self) -> None:
        self.heap = list[tuple[int, int, Action]]()
        self.order = count()

    def at(self, tick: int, action: Action) -> None:
        """Do it then, after whatever was scheduled before for that tick."""
        heappush(self.heap, (tick, next(self.order), action))

    def run(self) -> None:
        """Until nothing is to happen any more."""
        while self.heap:
            tick, _, action = heappop(self.heap)
            action(tick)
