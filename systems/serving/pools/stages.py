"""Stages of a pipeline as DistServe's simulator has them: each works on one batch at a time, and forms its own.

The rules of `clock.distserve`, over schedulers that know memory: prompts pass all stages as the batches that the first
stage has formed; tokens are grouped anew at each stage, of all that the one before has left by then.
"""

from collections import deque
from functools import partial

from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.clock.replica import Price, Replica, Seen
from pimloom.systems.serving.pools.distserve import DistServeDecodes
from pimloom.systems.serving.schedulers.live import NEVER, Iteration, LiveRequest


class Line(Replica):
    """Of prompts: the first stage forms a batch as soon as it is free, however many are behind it."""

    def wake(self, now: int) -> None:
        """It may form an iteration, if its first stage is free."""
        self.due = min(self.due, now)

    def run_until(self, until: int) -> None:
        """All that happens before a tick."""
        while (now := self.due) < until:
            if self.under_way and self.under_way[0].end == now:
                self._ran(self.under_way.popleft(), now)
            if self.free[0] <= now and (made := self.scheduler.form(now)) is not None:
                self._start(made, now)
            ends = self.under_way[0].end if self.under_way else NEVER
            self.due = min(ends, self.free[0]) if self.free[0] > now else ends


class Ring(Replica):
    """Of decode: a trip through all stages is a token. One that has to be computed once more passes as a prompt does.
    stage: that which has formed an iteration last; `seen` is told of each stage's."""

    def __init__(self, scheduler: DistServeDecodes, price: Price, stages: int = 1, seen: Seen | None = None) -> None:
        super().__init__(scheduler, price, stages, seen)
        self.decodes, self.events, self.stage = scheduler, Events(), 0
        self.awake = [False] * stages
        self.again = [deque[Iteration]() for _ in range(stages)]
        self.passed = [deque[LiveRequest]() for _ in range(stages)]

    def wake(self, now: int) -> None:
        """Its first stage may form an iteration, behind all that was to happen at this tick before."""
        self._wake(0, now)
        self.due = self.events.due

    def run_until(self, until: int) -> None:
        """All that happens before a tick."""
        self.events.run(until)
        self.due = self.events.due

    def _wake(self, stage: int, now: int) -> None:
        if not self.awake[stage]:
            self.awake[stage] = True
            self.events.at(now, partial(self._go_on, stage))

    def _go_on(self, stage: int, now: int) -> None:
        made = self._next(stage, now)
        self.awake[stage] = made is not None
        if made is None:
            return
        made.start, made.ticks = now, -(-self.price(made) // len(self.free))
        made.end = now + made.ticks
        self.stage = stage
        if self.seen is not None:
            self.seen(made)
        self.events.at(made.end, partial(self._left, stage, made))

    def _next(self, stage: int, now: int) -> Iteration | None:
        if stage == 0:
            return self.scheduler.form(now)
        if self.again[stage]:
            made = self.again[stage].popleft()
            return Iteration(made.requests, made.new)
        batch = self.decodes.together(self.passed[stage])
        return Iteration(batch, [1] * len(batch)) if batch else None

    def _left(self, stage: int, made: Iteration, now: int) -> None:
        """A batch has left a stage."""
        if stage + 1 == len(self.free):
            self._ran(made, now)
            self._wake(0, now)
        else:
            if min(made.cached):
                self.passed[stage + 1] += made.requests
            else:
                self.again[stage + 1].append(made)
            self._wake(stage + 1, now)
        self._go_on(stage, now)
