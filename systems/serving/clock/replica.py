"""One copy of a model: its scheduler, its pipeline of stages, and the ticks at which something happens there."""

from collections import deque
from collections.abc import Callable

from pimloom.systems.serving.schedulers.live import NEVER, Iteration, LiveRequest, Scheduler

Price = Callable[[Iteration], int]  # ticks of an iteration over all stages
Seen = Callable[[Iteration], object]


class Replica:
    """A scheduler over `stages` of a pipeline, each of which takes its part of the ticks of an iteration.

    At one tick requests arrive first, then the iteration that ends is processed, then new ones form while fewer than
    `stages` are under way. An iteration may form before the first stage is free. due: the next tick at which something
    happens. seen: told of every iteration when it forms; ended: of the tick when one has ended, and
    of how many requests have.
    """

    def __init__(self, scheduler: Scheduler, price: Price, stages: int = 1, seen: Seen | None = None) -> None:
        self.scheduler, self.price, self.seen, self.due = scheduler, price, seen, NEVER
        self.ended: Callable[[int, int], object] | None = None
        self.under_way, self.free = deque[Iteration](), [0] * stages

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self.scheduler.waiting)

    def arrive(self, request: LiveRequest, now: int) -> None:
        """A request joins those that wait."""
        self.scheduler.waiting.append(request)
        self.wake(now)

    def wake(self, now: int) -> None:
        """It may form an iteration."""
        if len(self.under_way) < len(self.free):
            self.due = min(self.due, now)

    def run_until(self, until: int) -> None:
        """All that happens before a tick."""
        scheduler, under_way, stages = self.scheduler, self.under_way, len(self.free)
        while self.due < until:
            now = self.due
            if under_way and under_way[0].end == now:
                self._ran(under_way.popleft(), now)
            while len(under_way) < stages and (made := scheduler.form(now)) is not None:
                self._start(made, now)
            self.due = under_way[0].end if under_way else NEVER

    def _ran(self, ended: Iteration, now: int) -> None:
        self.scheduler.ran(ended, now)
        if self.ended:
            self.ended(now, sum(request.completion == now for request in ended.requests))

    def _start(self, made: Iteration, now: int) -> None:
        """Stages take iterations in the order in which they form; so when it ends is known."""
        free, at = self.free, now
        made.start, made.ticks = now, -(-self.price(made) // len(free))
        for stage, until in enumerate(free):
            free[stage] = at = max(at, until) + made.ticks
        made.end = at
        self.under_way.append(made)
        if self.seen is not None:
            self.seen(made)
