"""Two processes on one machine: each runs at the rate of its share, and of what the other leaves of it.

An iteration keeps the share with which it began. At one tick requests arrive first, then iterations end, that of
prompts before that of decode, then new ones form in the same order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from pimloom.systems.serving.schedulers.live import NEVER, Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.sharing.controller import WHOLE

FINE = 1000  # parts of memory's time that are told apart

Progress = Callable[[int, int], None]


class Work(NamedTuple):
    """Of an iteration: ticks at the rate that `share` [%] counts against, and which part of them memory is busy."""

    ticks: int
    share: Fraction
    memory: float = 0.0


class Process:
    """A scheduler; price: work of an iteration with a share [%]; seen: told of an iteration that has ended."""

    def __init__(
        self,
        scheduler: Scheduler,
        price: Callable[[Iteration, Fraction], Work],
        seen: Callable[[Iteration], object],
        share: Fraction,
    ) -> None:
        self.scheduler, self.price, self.seen, self.share = scheduler, price, seen, share
        self.made: Iteration | None = None
        self.work = Work(0, share)
        self.left, self.rate, self.end, self.count = Fraction(0), Fraction(0), NEVER, 0

    def start(self, now: int) -> None:
        """The next iteration, if there is one."""
        if self.made is None and (made := self.scheduler.form(now)) is not None:
            self.made, made.start, self.work = made, now, self.price(made, self.share)
            self.left, self.count = Fraction(self.work.ticks), self.count + 1

    def ended(self, now: int) -> bool:
        """Whether an iteration has; then its tokens are there."""
        if self.made is None or self.left > 0:
            return False
        made, self.made = self.made, None
        made.end, made.ticks = now, now - made.start
        self.scheduler.ran(made, now)
        self.seen(made)
        return True


class Shared:
    """full: whether a share slows all of an iteration down (its law is 1 / share); else its price is that of the share.
    window: told of the tick after each iteration that has ended. rested: ticks of the whole machine that nobody has
    used since the first request: a part of the machine that waits for memory does not use it."""

    def __init__(self, prompts: Process, decodes: Process, full: bool, window: Callable[[int], object]) -> None:
        self.prompts, self.decodes, self.full, self.window = prompts, decodes, full, window
        self.rested = 0.0

    def serve(self, requests: Sequence[LiveRequest], progress: Progress) -> None:
        """Until nothing happens any more."""
        both, coming = (self.prompts, self.decodes), deque(requests)
        now = coming[0].arrival if coming else 0
        while True:
            after = min(coming[0].arrival if coming else NEVER, *(one.end for one in both))
            if after == NEVER:
                return
            self._work(after - now)
            now = after
            while coming and coming[0].arrival == now:
                progress(len(requests) - len(coming), len(requests))
                self.prompts.scheduler.waiting.append(coming.popleft())
            for one in both:
                if one.ended(now):
                    self.window(now)
            for one in both:
                one.start(now)
            self._rates(now)

    def _work(self, ticks: int) -> None:
        """So many at the rates of now; of a machine of arrays an iteration uses those that it has."""
        used = Fraction(0)
        for one in (self.prompts, self.decodes):
            if one.made:
                done = min(one.rate * ticks, one.left)
                one.left -= done
                used += done if self.full else done * one.work.share / WHOLE
        self.rested += max(float(ticks - used), 0.0)  # an iteration may still have arrays that were given to the other

    def _rates(self, now: int) -> None:
        """Shares that overlap give way alike, and so does who wants more of memory than there is."""
        busy = [one for one in (self.prompts, self.decodes) if one.made]
        shares = sum((one.work.share for one in busy), Fraction(0))
        for one in busy:
            one.rate = one.work.share / max(Fraction(WHOLE), shares) if self.full else Fraction(1)
        wanted = sum((Fraction(one.work.memory).limit_denominator(FINE) * one.rate for one in busy), Fraction(0))
        for one in (self.prompts, self.decodes):
            if one.made:
                one.rate = one.rate / max(Fraction(1), wanted)
                if one.left.denominator > FINE**3:  # what is left is rounded up, so that its digits do not grow
                    one.left = Fraction(-(-one.left * FINE**2 // 1), FINE**2)
                one.end = now + -(-one.left // one.rate)
            else:
                one.end = NEVER
