"""Splitwise: a machine's batch is made anew at its boundaries, by classes; prompts and tokens may stand side by side.

The rules of `clock.splitwise`, which is its simulator's clock, with memory, and with the price of each iteration for
itself. A boundary is where a prompt or a request ends, or where one comes that may join.
"""

from bisect import insort
from collections import deque
from itertools import takewhile

from pimloom.systems.serving.pools.sides import Keeping, Roomy
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, NOWHERE, Iteration, LiveRequest, by_arrival

PATIENCE = 4  # how often a token task is passed over before it comes first [recalled: Splitwise's max_preemptions]


class Splitwise(Keeping, Roomy):
    """cap: most requests of a batch; budget: its most tokens, but for a prompt that is alone. tokens: requests with
    their cache, in the order in which they came; passed: how often each was not in a new batch; pending: those that
    are in none, by how often that was when they came there."""

    blocks: Blocks

    def __init__(self, blocks: Blocks, cap: int, budget: int, patience: int = PATIENCE) -> None:
        super().__init__()
        self.blocks, self.cap, self.budget, self.patience = blocks, cap, budget, patience
        self.tokens, self.preempted, self.last, self.batch, self.fresh = (list[LiveRequest]() for _ in range(5))
        self.pending = list[LiveRequest]()
        self.passed: dict[int, int] = {}
        self.boundary, self.looked = True, 0

    @property
    def load(self) -> int:
        """Requests in its pool."""
        return len(self.waiting) + len(self.tokens)

    def has_room(self, request: LiveRequest) -> bool:
        """Blocks, unless somebody waits to be computed once more; its pool has no bound."""
        again = any(each.restarts for each in self.waiting)
        return not again and self.blocks.of(request.known) <= self.blocks.room(request)

    def takes(self, prompt: int) -> bool:
        """Whether a prompt and those that wait here go into one batch."""
        there = sum(each.known for each in self.waiting)
        return not there or there + prompt <= self.budget

    def enter(self, request: LiveRequest) -> None:
        """A token task comes."""
        self._come(request)
        self.fresh.append(request)

    def _come(self, request: LiveRequest) -> None:
        self.tokens.append(request)
        self.passed.setdefault(request.number, 0)
        self._waits(request)

    def _waits(self, request: LiveRequest) -> None:
        insort(self.pending, request, key=lambda each: (self.passed[each.number], each.arrival))

    def stay(self, prompt: LiveRequest, then: LiveRequest) -> None:
        """The prompt of a request ended here, and its tokens follow here, too."""
        then.blocks, prompt.blocks = prompt.blocks, 0
        then.channel, prompt.channel = prompt.channel, NOWHERE
        self.enter(then)

    def form(self, now: int) -> Iteration | None:
        """The same batch once more, up to its boundary."""
        fresh = [*list(self.waiting)[self.looked :], *self.fresh]
        if self.boundary or not self.batch or any(map(self._may_join, fresh)):
            self.batch = self._made_anew(now)
        self.fresh, self.boundary = [], False
        batch = self._with_blocks(self.batch)
        self.looked = len(self.waiting)
        return Iteration(batch, [request.known - request.cached for request in batch]) if batch else None

    def _may_join(self, request: LiveRequest) -> bool:
        """A prompt ends a full batch of tokens, too."""
        new = request.known - request.cached
        return new <= self.budget if not request.cached else len(self.batch) < min(self.cap, self.budget)

    def _made_anew(self, now: int) -> list[LiveRequest]:
        """By classes: who was passed over too often, prompts, who was preempted, who ran, all others. The first of a
        class that does not fit ends it."""
        ran = [request for request in self.last if request in self.tokens]
        classes = (
            [*takewhile(lambda request: self.passed[request.number] >= self.patience, self.pending)],
            list(self.waiting), self.preempted, ran, by_arrival(self.tokens),
        )  # fmt: skip
        batch, tokens = list[LiveRequest](), 0
        for some in classes:
            for request in [each for each in some if each not in batch]:
                new = request.known - request.cached
                if batch and (len(batch) == self.cap or tokens + new > self.budget):
                    break
                if not request.cached and not self._begins(request, now):
                    break
                batch.append(request)
                tokens += new
        for request in (request for request in ran if request not in batch):
            self._waits(request)
            self.preempted.append(request)
        for waiting in (self.pending, self.preempted):
            waiting[:] = [request for request in waiting if request not in batch]
        for request in self.tokens:
            self.passed[request.number] += request not in batch
        return [*(request for request in ran if request in batch), *(each for each in batch if each not in ran)]

    def _begins(self, request: LiveRequest, now: int) -> bool:
        """A prompt, or one that is computed once more, with its blocks; False if they are not free."""
        if self.blocks.of(request.known) > self.blocks.room(request):
            return False
        self.waiting.remove(request)
        self.blocks.take(request, self.blocks.of(request.known))
        if request.first_scheduled == NOT_YET:
            request.first_scheduled = now
        return True

    def _with_blocks(self, batch: list[LiveRequest]) -> list[LiveRequest]:
        """Those whose next token has a block; tokens outside of the batch yield first, the last that came before."""
        prompts = [request for request in batch if not request.cached]
        left = deque([request for request in batch if request.cached])
        left += [request for request in self.tokens if request not in batch]
        found = list[LiveRequest]()
        while left:
            request = left.popleft()
            if request in batch and self.grown(request, left):
                found.append(request)
        for request in [each for each in self.tokens if not each.cached]:  # they had to yield
            self.tokens.remove(request)
            for waiting in (self.pending, self.preempted):
                waiting[:] = [each for each in waiting if each is not request]
            self.boundary = True
        self.batch = [*prompts, *found]
        return self.batch

    def ran(self, iteration: Iteration, now: int) -> None:
        """Prompts leave, or are token tasks from now on if they were computed once more; who has ended is gone."""
        prompts = [r for r, p in zip(iteration.requests, iteration.cached, strict=True) if not p]
        self.last = [request for request in iteration.requests if request not in prompts]
        _, ended = self.sampled(iteration, now)
        for request in prompts:
            if request in ended and request.output == 1:
                self.leaving.append(request)
            elif request not in ended:
                self._come(request)
        for request in ended:
            if request.output > 1:
                self.blocks.release(request)
                self.tokens = [each for each in self.tokens if each is not request]
        self.boundary |= bool(prompts or ended)
