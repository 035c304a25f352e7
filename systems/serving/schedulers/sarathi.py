"""Sarathi-Serve: decode is never stalled; what it leaves of a budget of tokens goes to prompts, in chunks."""

from collections import deque

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, by_arrival, by_time
from pimloom.systems.serving.schedulers.paged import Paged


class Sarathi(Paged):
    """chunk: tokens of an iteration. As Sarathi-Serve has it, those that run are served by arrival."""

    def __init__(self, blocks: Blocks, watermark: int, cap: int, chunk: int, stages: int = 1) -> None:
        super().__init__(blocks, watermark, cap, stages)
        self.chunk = chunk

    def usable(self, request: LiveRequest) -> int:
        """Without a free block when it decodes it restarts and comes back at once, a token further."""
        return super().usable(request) if request.decoding is not None else self.blocks.of_one - self.watermark

    def order(self) -> list[LiveRequest]:
        """Those that run, in the order in which they are served."""
        return by_arrival(self.idle)

    def behind(self, requests: list[LiveRequest]) -> list[LiveRequest]:
        """Those that had no turn, in their order."""
        return by_arrival(requests)

    def form(self, now: int) -> Iteration | None:
        """Decode first, then prompts that are half done, then those that wait."""
        batch, new = list[LiveRequest](), list[int]()
        left, half_done, skipped = deque(self.order()), list[LiveRequest](), list[LiveRequest]()
        while left and len(batch) < self.most:
            request = left.popleft()
            if request.cached < request.prefill:
                half_done.append(request)
            elif self.make_room(request, left):
                batch.append(request)
        new = [request.step for request in batch]
        used = sum(new)
        for request in half_done:
            if (n := min(request.prefill - request.cached, self.chunk - used)) > 0:
                batch.append(request)
                new.append(n)
                used += n
            else:
                skipped.append(request)
        self.idle = self.behind([*skipped, *left])
        while self.waiting and not self.full(batch) and self.admissible(self.waiting[0]):
            if (n := min(self.waiting[0].prefill, self.chunk - used)) <= 0:
                break
            batch.append(self.admit(now))
            new.append(n)
            used += n
        return Iteration(batch, new) if batch else None


class VidurSarathi(Sarathi):
    """As Vidur has it: by the order in which they came back, and a restart cuts a prompt that is half done."""

    def order(self) -> list[LiveRequest]:
        """As they came back."""
        return self.idle

    def behind(self, requests: list[LiveRequest]) -> list[LiveRequest]:
        """By arrival, equal ones as they stood."""
        return by_time(requests)

    def restart(self, victim: LiveRequest) -> None:
        """What of its prompt is not cached is forgotten: it follows token by token behind its first one."""
        if victim.cached < victim.prefill:
            victim.known = victim.cached
        super().restart(victim)
