"""Static batching of a request-level server: prompts are padded to the longest, and nobody leaves before the last."""

from collections import deque

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NEVER, Iteration, LiveRequest
from pimloom.systems.serving.schedulers.orca import Orca


class Static(Orca):
    """Padding is computed, and so are rows of requests that have ended. Memory is reserved for the worst case.
    positions: of the model; padded rows of a batch have at most so many tokens."""

    def __init__(self, blocks: Blocks, reserved: int, most: int, positions: int = NEVER) -> None:
        super().__init__(blocks, reserved, most)
        self.positions = positions
        self.unfinished = deque[tuple[list[LiveRequest], int]]()  # rows of a batch, and what each has in the cache

    def form(self, now: int) -> Iteration | None:
        """The batch that waits to go on, every row of it; a new one only if there is none."""
        if self.unfinished:
            return padded_batch(1, *self.unfinished.popleft())
        rows, new = list[LiveRequest](), list[int]()
        self.join(rows, new, now)
        return padded_batch(max(new), rows, 0) if rows else None

    def joins(self, request: LiveRequest, batch: list[LiveRequest]) -> bool:
        """The longest prompt and the longest output of a batch are those of each of its rows."""
        rows = [*batch, request]
        longest = max(one.prompt for one in rows) + max(one.last - one.prompt for one in rows) - 1
        return not batch or longest <= self.positions

    def ran(self, iteration: Iteration, now: int) -> None:
        """A token of each that has not ended; all leave together."""
        rows = iteration.requests
        alive = [request for request in rows if request.completion < 0]
        goes_on, _ = self.sampled(Iteration(alive, [request.known - request.cached for request in alive]), now)
        if goes_on:
            self.unfinished.append((rows, iteration.cached[0] + iteration.new[0]))
        else:
            for request in rows:
                self.blocks.release(request)


def padded_batch(new: int, rows: list[LiveRequest], cached: int) -> Iteration:
    """As many tokens of every row."""
    made = Iteration(rows, [new] * len(rows))
    made.cached = [cached] * len(rows)
    return made
