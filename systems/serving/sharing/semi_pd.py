"""semi-PD: prompts and decode as two processes on one copy of weights, keys and values, each first come first served.

A prompt goes whole; who has a first token decodes from the next iteration of decode on, without any transfer. When
blocks run out, the last that came to decode loses its cache, and is the first that waits for its prompt again.
"""

from collections import deque

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest, Scheduler


class SharedDecodes(Scheduler):
    """A token of each that runs, in the order in which they came. waiting: is that of prompts."""

    blocks: Blocks

    def __init__(self, blocks: Blocks, cap: int) -> None:
        super().__init__()
        self.blocks, self.cap = blocks, cap
        self.running = list[LiveRequest]()

    def form(self, now: int) -> Iteration | None:
        """All that run and have a block for their next token."""
        left, self.running = deque(self.running), []
        while left:
            request = left.popleft()
            more = self.blocks.of(request.cached + 1) - request.blocks
            while more > self.blocks.room(request):
                victim = left.pop() if left else request
                self.blocks.release(victim)
                victim.restart()
                self.waiting.appendleft(victim)
                if victim is request:
                    break
            else:
                if more > 0:
                    self.blocks.take(request, more)
                self.running.append(request)
        return Iteration(list(self.running), [1] * len(self.running)) if self.running else None

    def ran(self, iteration: Iteration, now: int) -> None:
        """Who has ended is gone; others may have come meanwhile."""
        _, ended = self.sampled(iteration, now)
        for request in ended:
            self.blocks.release(request)
        self.running = [request for request in self.running if request.completion == NOT_YET]


class SharedPrompts(Scheduler):
    """budget: tokens of an iteration, but for a prompt that is alone; who ends here goes to `decodes`, whose queue of
    those that wait is this one's, too."""

    blocks: Blocks

    def __init__(self, decodes: SharedDecodes, budget: int) -> None:
        super().__init__()
        self.blocks, self.decodes, self.budget, self.waiting = decodes.blocks, decodes, budget, decodes.waiting

    def form(self, now: int) -> Iteration | None:
        """The head of the queue, as long as there is room for its prompt."""
        batch, left = list[LiveRequest](), self.budget
        while self.waiting and self.blocks.holders < self.decodes.cap:
            request = self.waiting[0]
            if (batch and request.known > left) or self.blocks.of(request.known) > self.blocks.room(request):
                break
            self.blocks.take(request, self.blocks.of(request.known))
            if request.first_scheduled == NOT_YET:
                request.first_scheduled = now
            left -= request.known
            batch.append(self.waiting.popleft())
        return Iteration(batch, [request.known for request in batch]) if batch else None

    def ran(self, iteration: Iteration, now: int) -> None:
        """All have a token."""
        goes_on, ended = self.sampled(iteration, now)
        self.decodes.running += goes_on
        for request in ended:
            self.blocks.release(request)
