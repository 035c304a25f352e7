"""vLLM v0 with chunked prefill: who runs goes on, what is left of the budget goes to prompts in chunks."""

from collections import deque

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler, last_beside
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0


class VllmV0Chunked(VllmV0):
    """Those that yield lose their cache. At most one prompt is half done, and it stands last, as long as the budget has
    a token for each that may run."""

    def __init__(self, blocks: Blocks, watermark: int, cap: int, budget: int) -> None:
        assert cap <= budget
        super().__init__(blocks, watermark, cap, budget)

    def never(self, request: LiveRequest) -> str | None:
        """Prompts come in chunks."""
        return Scheduler.never(self, request)

    def late(self, request: LiveRequest) -> int:
        """So does what is computed once more."""
        return 0

    def form(self, now: int) -> Iteration | None:
        """Batch order: prompts that come in, prompts that are half done, decode."""
        decodes, chunks, victims, used = self._running()
        halves, parts = [r for r, _ in chunks], [n for _, n in chunks]
        ends = [r for r, n in chunks if r.cached + n == r.known]
        self.running = [*decodes, *ends, *(r for r in halves if r not in ends)]
        joined, new = self._join(now, self.budget - used)
        self.waiting.extendleft(victims)  # only now: neither do they block others, nor come back at once
        batch = [*joined, *halves, *decodes]
        return Iteration(batch, [*new, *parts, *[1] * len(decodes)]) if batch else None

    def _running(self) -> tuple[list[LiveRequest], list[tuple[LiveRequest, int]], list[LiveRequest], int]:
        """Those that decode, the chunks of prompts that are half done, victims in their order, and the tokens used."""
        left, used = deque(self.running), 0
        decodes, chunks, victims = list[LiveRequest](), list[tuple[LiveRequest, int]](), list[LiveRequest]()
        while left:
            request = left.popleft()
            half_done = request.cached < request.prefill
            while self._lacks_room(request):
                victim = last_beside(self.blocks, left, request)
                self.blocks.release(victim)
                victim.restart()
                victims.append(victim)
                if victim is request:
                    break
            else:
                n = min(request.known - request.cached, self.budget - used)
                used += n
                if half_done:
                    chunks.append((request, n))
                else:
                    self.grow(request)
                    decodes.append(request)
        return decodes, chunks, victims, used

    def _lacks_room(self, request: LiveRequest) -> bool:
        """Nothing is free, and it needs a block, or is a half-done prompt whose last block is not full, of which vLLM
        counts that block once more."""
        half_done = request.cached < request.prefill
        return not self.blocks.room(request) and (not half_done or request.known % self.blocks.size > 0)

    def _join(self, now: int, left: int) -> tuple[list[LiveRequest], list[int]]:
        """Prompts that come in, of which the last may be a chunk."""
        joined, new = list[LiveRequest](), list[int]()
        while self.waiting and left and len(self.running) < self.cap and self.admissible(self.waiting[0]):
            n = min(self.waiting[0].known, left)
            joined.append(self.admit(now))
            new.append(n)
            left -= n
        return joined, new
