"""Orca: iterations of requests that decode beside whole prompts; each reserves the memory of its worst case."""

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest, Scheduler


class Orca(Scheduler):
    """reserved: blocks of each request, from its admission to its end; most: requests of an iteration, of which each
    stage may have one."""

    blocks: Blocks

    def __init__(self, blocks: Blocks, reserved: int, most: int) -> None:
        super().__init__()
        self.blocks, self.reserved, self.most = blocks, reserved, most
        self.idle: list[LiveRequest] = []

    def never(self, request: LiveRequest) -> str | None:
        """What it caches, all but its last token, must not be longer than what each reserves."""
        most = self.reserved * self.blocks.size
        if request.longest > most:
            return f"caches {request.longest:,} tokens, and each request reserves memory for {most:,}"
        if self.reserved > self.blocks.of_one:
            return f"needs {self.reserved:,} blocks in the worst case, and there are {self.blocks.of_one:,} for it"
        return None

    def form(self, now: int) -> Iteration | None:
        """A token of each that runs, and the whole prompts of those whose worst case fits."""
        batch = self.idle[: self.most]
        self.idle = self.idle[self.most :]
        new = [request.step for request in batch]
        self.join(batch, new, now)
        return Iteration(batch, new) if batch else None

    def join(self, batch: list[LiveRequest], new: list[int], now: int) -> None:
        """Those that wait, first come first served, while a reservation fits."""
        while self.waiting and len(batch) < self.most and self.reserved <= self.blocks.room(self.waiting[0]):
            if not self.joins(self.waiting[0], batch):
                return
            request = self.waiting.popleft()
            self.blocks.take(request, self.reserved)
            if request.first_scheduled == NOT_YET:
                request.first_scheduled = now
            batch.append(request)
            new.append(request.prompt)

    def joins(self, request: LiveRequest, batch: list[LiveRequest]) -> bool:
        """Whether it may be in this batch, as far as the others are concerned."""
        return True

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that have ended give their reservation back."""
        goes_on, ended = self.sampled(iteration, now)
        self.idle += goes_on
        for request in ended:
            self.blocks.release(request)
