"""vLLM v0's own scheduler: prompts first, then decode; when blocks run out, the latest of those that run yields.

It yields by recomputation (its cache is lost) or by swap (its blocks move to the host's memory and come back).
"""

from collections import deque

from pimloom.arch.error import UserError
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import (
    NOT_YET,
    Iteration,
    LiveRequest,
    Scheduler,
    last_beside,
    spare,
    uncut,
)


class VllmV0(Scheduler):
    """cap: most requests that run (max_num_seqs); budget: tokens of an iteration (max_num_batched_tokens); host:
    blocks of the host's memory that those which yield move to, None: they lose their cache."""

    blocks: Blocks

    def __init__(self, blocks: Blocks, watermark: int, cap: int, budget: int, host: Blocks | None = None) -> None:
        super().__init__()
        self.blocks, self.watermark, self.cap, self.budget, self.host = blocks, watermark, cap, budget, host
        self.running, self.swapped = list[LiveRequest](), deque[LiveRequest]()

    def never(self, request: LiveRequest) -> str | None:
        """A prompt is never cut in chunks."""
        return uncut(request, self.budget) or super().never(request)

    def usable(self, request: LiveRequest) -> int:
        """What it comes back with must leave the watermark free, and a block must be free when it decodes."""
        return self.blocks.of_one - max(self.watermark, spare(request, self.blocks.size))

    def late(self, request: LiveRequest) -> int:
        """All that is known of it, if it does not come back from the host."""
        return request.longest if self.host is None and request.longest > self.budget else 0

    def form(self, now: int) -> Iteration | None:
        """Prompts, unless some are swapped out; if none can come in, a token of each that runs."""
        return (self._prompts(now) if self.waiting and not self.swapped else None) or self._decodes()

    def _prompts(self, now: int) -> Iteration | None:
        batch, new, left = list[LiveRequest](), list[int](), self.budget
        while self.waiting and len(self.running) < self.cap:
            n = self.waiting[0].known
            if n > left or not self.admissible(self.waiting[0]):
                break
            batch.append(self.admit(now))
            new.append(n)
            left -= n
        return Iteration(batch, new) if batch else None

    def _decodes(self) -> Iteration | None:
        left, self.running, new, used = deque(self.running), [], list[int](), 0
        back, blocks_in, blocks_out, preempted = list[LiveRequest](), 0, 0, False
        blocks, size, budget = self.blocks, self.blocks.size, self.budget
        while left and used + (n := left[0].step) <= budget:
            request = left.popleft()
            more = -(-(request.cached + n) // size) - request.blocks
            while (room := blocks.room(request)) < more or not room:
                victim, preempted = last_beside(blocks, left, request), True
                blocks_out += self.preempt(victim)
                if victim is request:
                    break
            else:
                if more > 0:
                    blocks.take(request, more)
                self.running.append(request)
                new.append(n)
                used += n
        if not preempted:
            back, blocks_in = self._swap_in()
        batch = [*self.running, *back]
        self.running = [*self.running, *left, *back]
        made = Iteration(batch, [*new, *(request.step for request in back)])
        made.blocks_in, made.blocks_out = blocks_in, blocks_out
        return made if batch else None

    def _swap_in(self) -> tuple[list[LiveRequest], int]:
        """Those that come back, first come first served, and how many blocks they bring."""
        back, moved = list[LiveRequest](), 0
        while self.swapped and len(self.running) + len(back) < min(self.cap, self.budget):
            request = self.swapped[0]
            room = self.blocks.more(0, self.blocks.free)
            if room - self.blocks.of(request.cached + request.step) < self.watermark:
                break
            back.append(self.swapped.popleft())
            moved += self._move(request, self.host, self.blocks)
            self.grow(request)
        return back, moved

    def admissible(self, request: LiveRequest) -> bool:
        """Whether blocks for all that is known of it leave the watermark free."""
        return self.blocks.room(request) - self.blocks.of(request.known) >= self.watermark

    def admit(self, now: int) -> LiveRequest:
        """The first that waits runs, with the blocks of its prompt."""
        request = self.waiting.popleft()
        self.blocks.take(request, self.blocks.of(request.known))
        self.running.append(request)
        if request.first_scheduled == NOT_YET:
            request.first_scheduled = now
        return request

    def grow(self, request: LiveRequest) -> None:
        """The blocks of its next tokens that it does not have."""
        if more := self.more(request):
            self.blocks.take(request, more)

    def more(self, request: LiveRequest) -> int:
        """Blocks that its next step needs beyond those that it has."""
        return max(self.blocks.of(request.cached + request.step) - request.blocks, 0)

    def preempt(self, victim: LiveRequest) -> int:
        """It is the first that waits, or the last that is swapped out; how many blocks moved."""
        if self.host is not None:
            self.swapped.append(victim)
            victim.swaps += 1
            victim.restarts += 1
            return self._move(victim, self.blocks, self.host)
        self.blocks.release(victim)
        victim.restart()
        self.waiting.appendleft(victim)
        return 0

    def _move(self, request: LiveRequest, there: Blocks | None, here: Blocks | None) -> int:
        assert there is not None and here is not None
        number = request.blocks
        if number > (room := here.more(0, here.free)):
            raise UserError(
                f"request {request.number}: {number} blocks to swap out, and {room} of the host's {here.total} "
                f"are free; take --swap {here.total - room + number} or more, or leave it out"
            )
        there.release(request)
        here.take(request, number)
        return number

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that have ended leave."""
        _, ended = self.sampled(iteration, now)
        if ended:
            self.running = [request for request in self.running if request.completion == NOT_YET]
        for request in ended:
            self.blocks.release(request)
