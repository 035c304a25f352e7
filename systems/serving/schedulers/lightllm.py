"""LightLLM: memory token by token; a prompt comes in if the peak of all who run then fits.

It knows how many tokens each request will generate: an oracle.
"""

from collections.abc import Sequence

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest, Scheduler, lacking, uncut

Growing = tuple[int, int]  # tokens that a request still generates, and those that it has


class LightLlm(Scheduler):
    """tokens: blocks of one token; most_tokens: of the prompts of an iteration; patience: iterations of decode between
    two attempts to take prompts in. It has one stage: those under way elsewhere would not be in the peak."""

    blocks: Blocks

    def __init__(self, tokens: Blocks, cap: int, most_tokens: int, patience: int) -> None:
        super().__init__()
        self.blocks, self.cap, self.most_tokens = tokens, cap, most_tokens
        self.patience, self.waited, self.running = patience, 0, 0
        self.idle: list[LiveRequest] = []

    def never(self, request: LiveRequest) -> str | None:
        """A prompt is never cut in chunks; its peak must leave a token free."""
        return uncut(request, self.most_tokens) or lacking(self.peak([_coming(request)]), self.blocks.units - 1)

    def peak(self, growing: Sequence[Growing]) -> int:
        """Most units that requests hold at once while they end."""
        if self.blocks.window is None:
            return peak(growing)
        ending = sorted(growing, reverse=True)
        return max(
            sum(self.blocks.cost(known + left) for _, known in ending[:k]) for k, (left, _) in enumerate(ending, 1)
        )

    def form(self, now: int) -> Iteration | None:
        """Prompts, if none runs or their turn has come; else a token of each that runs."""
        if not self.running or self.waited >= self.patience:
            self.waited = 0
            if batch := self._prompts(now):
                return Iteration(batch, [r.prompt for r in batch])
        batch, self.idle = self.idle, []
        if not batch:
            return None
        self.waited += 1
        for request in batch:
            self.blocks.take(request, 1)
        return Iteration(batch, [1] * len(batch))

    def _prompts(self, now: int) -> list[LiveRequest]:
        growing = [(max(r.last - 1 - r.known, 0), r.known) for r in self.idle]
        batch, tokens = list[LiveRequest](), 0
        while self.waiting and self.running < self.cap:
            first = self.waiting[0]
            growing.append(_coming(first))
            if tokens + first.prompt > self.most_tokens or self.peak(growing) >= self.blocks.units:
                break
            batch.append(self.waiting.popleft())
            self.blocks.take(first, first.prompt)
            tokens, self.running = tokens + first.prompt, self.running + 1
            if first.first_scheduled == NOT_YET:
                first.first_scheduled = now
        return batch

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that have ended give their tokens back."""
        goes_on, ended = self.sampled(iteration, now)
        self.idle += goes_on
        self.running -= len(ended)
        for request in ended:
            self.blocks.release(request)


def _coming(request: LiveRequest) -> Growing:
    """One that is not there yet: behind its prompt it has a token."""
    return max(request.output - 2, 0), request.prompt + 1


def peak(growing: Sequence[Growing]) -> int:
    """Most tokens that requests hold at once while they end, the longest last.

    >>> peak([(2, 10), (5, 4)])  # the first ends with 12, the second has 6 then
    18
    """
    most = held = 0
    for k, (left, known) in enumerate(sorted(growing, reverse=True), 1):
        held += known
        most = max(most, left * k + held)
    return most
