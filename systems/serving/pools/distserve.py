"""DistServe: whole prompts, first come first served, on one pool; a token of each in queue order on the other.

The rules of `clock.distserve`, which is its simulator's clock, with memory: caches that wait for room keep their blocks
where their prompt ran, so that prompts wait behind them.
"""

from collections import deque

from pimloom.systems.serving.pools.sides import Keeping, Roomy
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NEVER, NOT_YET, Iteration, LiveRequest, uncut


class DistServePrompts(Keeping):
    """budget: tokens of the prompts of an iteration; cap: most requests in it. under_way: requests on the first
    stage."""

    blocks: Blocks

    def __init__(self, blocks: Blocks, cap: int, budget: int) -> None:
        super().__init__()
        self.blocks, self.cap, self.budget, self.under_way = blocks, cap, budget, 0

    @property
    def load(self) -> int:
        """Requests under way, and those that wait."""
        return self.under_way + len(self.waiting)

    def never(self, request: LiveRequest) -> str | None:
        """A prompt is never cut in chunks."""
        return uncut(request, self.budget) or super().never(request)

    def form(self, now: int) -> Iteration | None:
        """The head of the queue, as long as tokens and blocks are left."""
        batch, left = list[LiveRequest](), self.budget
        while self.waiting and len(batch) < self.cap:
            request = self.waiting[0]
            if request.prompt > left or self.blocks.of(request.prompt) > self.blocks.room(request):
                break
            self.blocks.take(request, self.blocks.of(request.prompt))
            request.first_scheduled = now
            left -= request.prompt
            batch.append(self.waiting.popleft())
        self.under_way = len(batch)
        return Iteration(batch, [request.prompt for request in batch]) if batch else None

    def ran(self, iteration: Iteration, now: int) -> None:
        """All have their first token."""
        self.leaving += self.sampled(iteration, now)[1]


class DistServeDecodes(Roomy):
    """cap: most requests; most_cached: tokens of the contexts of an iteration."""

    def __init__(self, blocks: Blocks, cap: int, most_cached: int = NEVER) -> None:
        super().__init__()
        self.blocks, self.cap, self.most_cached = blocks, cap, most_cached
        self.queue = deque[LiveRequest]()

    @property
    def load(self) -> int:
        """Its queue, with those on their way to it; its running batch does not count."""
        return len(self.queue) + self.coming

    def enter(self, request: LiveRequest) -> None:
        """At the end of the queue."""
        self.queue.append(request)

    def form(self, now: int) -> Iteration | None:
        """Those that must be computed once more, if their blocks are free; else a token of each, in queue order."""
        return self._again() or self._tokens() or self._again()  # of those that had to yield just now

    def _again(self) -> Iteration | None:
        batch = list[LiveRequest]()
        while self.waiting and self.blocks.of(self.waiting[0].known) <= self.blocks.room(self.waiting[0]):
            request = self.waiting.popleft()
            self.blocks.take(request, self.blocks.of(request.known))
            batch.append(request)
        return Iteration(batch, [request.known for request in batch]) if batch else None

    def _tokens(self) -> Iteration | None:
        batch, left = list[LiveRequest](), self.most_cached
        while self.queue and self.queue[0].cached + 1 <= left:
            request = self.queue.popleft()
            if self.grown(request, self.queue):
                batch.append(request)
                left -= request.cached + 1
        return Iteration(batch, [1] * len(batch)) if batch else None

    def together(self, passed: deque[LiveRequest]) -> list[LiveRequest]:
        """Those of all that passed a stage which the next one takes at once, with a token of each."""
        batch, left = list[LiveRequest](), self.most_cached
        while passed and passed[0].cached + 1 <= left:
            left -= passed[0].cached + 1
            batch.append(passed.popleft())
        return batch

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that go on stand at the end of the queue."""
        goes_on, _ = self.sampled(iteration, now)
        self.queue += goes_on
        for request in iteration.requests:
            if request.completion != NOT_YET:
                self.blocks.release(request)
