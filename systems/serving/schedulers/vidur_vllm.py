"""vLLM v0 as Vidur has it: prompts first, and never together with decode.

It differs from vLLM's own scheduler (`vllm_v0`): the budget is that of prompts padded to the longest, and requests
that run are sorted by arrival, equal ones as they came back.
"""

from collections import deque

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, by_time, uncut
from pimloom.systems.serving.schedulers.paged import Paged


class VidurVllm(Paged):
    """most_tokens: of the prompts of an iteration, padded to the longest."""

    def __init__(self, blocks: Blocks, watermark: int, cap: int, most_tokens: int, stages: int = 1) -> None:
        super().__init__(blocks, watermark, cap, stages)
        self.most_tokens = most_tokens

    def never(self, request: LiveRequest) -> str | None:
        """A prompt is never cut in chunks."""
        return uncut(request, self.most_tokens) or super().never(request)

    def late(self, request: LiveRequest) -> int:
        """All that is known of it."""
        return request.longest if request.longest > self.most_tokens else 0

    def form(self, now: int) -> Iteration | None:
        """Prompts if one can come in, else a token of each that runs."""
        return self._prompts(now) or self._decodes()

    def _prompts(self, now: int) -> Iteration | None:
        batch, new, longest = list[LiveRequest](), list[int](), 0
        while self.waiting and not self.full(batch):
            first = self.waiting[0]
            padded = max(longest, first.prefill)
            if not self.admissible(first) or (len(batch) + 1) * padded > self.most_tokens:
                break
            batch.append(self.admit(now))
            new.append(first.prefill)
            longest = padded
        return Iteration(batch, new) if batch else None

    def _decodes(self) -> Iteration | None:
        left, batch = deque(by_time(self.idle)), list[LiveRequest]()
        while left and len(batch) < self.most:
            request = left.popleft()
            if self.make_room(request, left):
                batch.append(request)
        self.idle = list(left)
        return Iteration(batch, [1] * len(batch)) if batch else None
