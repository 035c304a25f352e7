"""What a scheduler of a pool does besides: it keeps a cache until it has left, and has room for one before it comes."""

from collections import deque
from typing import Protocol

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest, Scheduler, last_beside
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1


class Sending(Protocol):
    """leaving: requests whose prompt has ended, and which the clock has not looked at yet."""

    leaving: list[LiveRequest]

    def let_go(self, request: LiveRequest) -> None:
        """Its cache has left."""
        ...


class Receiving(Protocol):
    """Where caches come to; coming: requests that are sent here, and whose cache is not there yet."""

    coming: int

    def has_room(self, request: LiveRequest) -> bool:
        """For its cache and its next token."""
        ...

    def reserve(self, request: LiveRequest) -> None:
        """Take the blocks, before its cache comes."""
        ...

    def enter(self, request: LiveRequest) -> None:
        """Its cache is there."""
        ...


class Keeping(Scheduler):
    """Blocks of requests whose prompt has ended stay until their cache has left."""

    blocks: Blocks | PrefixPool

    def __init__(self) -> None:
        super().__init__()
        self.leaving = list[LiveRequest]()

    def let_go(self, request: LiveRequest) -> None:
        """Its cache has left."""
        self.blocks.release(request)


class Roomy(Scheduler):
    """cap: most requests that hold blocks. While somebody waits to be computed once more, none has room. coming:
    requests that are sent here, and whose cache is not there yet."""

    blocks: Blocks
    cap: int
    coming = 0

    def has_room(self, request: LiveRequest) -> bool:
        """For its cache and its next token."""
        if self.waiting or self.blocks.holders >= self.cap:
            return False
        return self.blocks.of(request.known) <= self.blocks.room(request)

    def reserve(self, request: LiveRequest) -> None:
        """Before its cache comes."""
        self.blocks.take(request, self.blocks.of(request.known))

    def grown(self, request: LiveRequest, left: deque[LiveRequest]) -> bool:
        """A block for its next token if it needs one: the last of those `left` that can make room lose their cache
        until there is, in the end it itself; then False. They wait to be computed once more."""
        more = self.blocks.of(request.cached + 1) - request.blocks
        while more > self.blocks.room(request):
            victim = last_beside(self.blocks, left, request)
            self.blocks.release(victim)
            victim.restart()
            self.waiting.appendleft(victim)
            if victim is request:
                return False
        if more > 0:
            self.blocks.take(request, more)
        return True


class VllmV1Prompts(VllmV1, Keeping):
    """vLLM v1 over requests that end with their first token."""

    def __init__(self, pool: Blocks | PrefixPool, cap: int, budget: int, longest: int, threshold: int = 0) -> None:
        super().__init__(pool, cap, budget, longest, threshold)
        self.leaving = []

    def ran(self, iteration: Iteration, now: int) -> None:
        """Who has a first token runs no longer."""
        _, ended = self.sampled(iteration, now)
        self.running = [request for request in self.running if request.completion == NOT_YET]
        self.leaving += ended


class VllmV1Decodes(VllmV1, Roomy):
    """vLLM v1 over requests that come with their cache; one that has to yield is computed once more here."""

    blocks: Blocks

    def enter(self, request: LiveRequest) -> None:
        """It runs at once: it has its blocks."""
        self.running.append(request)
