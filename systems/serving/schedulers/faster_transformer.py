"""FasterTransformer: a batch comes together once and runs until its longest request has ended."""

from collections import deque

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest
from pimloom.systems.serving.schedulers.orca import Orca


class FasterTransformer(Orca):
    """leak: as in Vidur, only those that are in the last iteration of their batch give their blocks back."""

    def __init__(self, blocks: Blocks, reserved: int, most: int, *, leak: bool = False) -> None:
        super().__init__(blocks, reserved, most)
        self.leak, self.unfinished = leak, deque[list[LiveRequest]]()

    def form(self, now: int) -> Iteration | None:
        """The batch that waits to go on; a new one only if there is none."""
        if self.unfinished:
            batch = self.unfinished.popleft()
            return Iteration(batch, [request.step for request in batch])
        batch, new = list[LiveRequest](), list[int]()
        self.join(batch, new, now)
        return Iteration(batch, new) if batch else None

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that have ended drop out."""
        goes_on, ended = self.sampled(iteration, now)
        if goes_on:
            self.unfinished.append(goes_on)
        if not (self.leak and goes_on):
            for request in ended:
                self.blocks.release(request)
