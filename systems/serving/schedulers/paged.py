"""Paged memory in the style of Vidur: a watermark for those that come in, one free block for each that decodes."""

from collections import deque
from collections.abc import Sequence

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest, Scheduler, last_beside, spare


class Paged(Scheduler):
    """Blocks, those that run and are in no iteration (`idle`, in the order in which they came back), most requests
    that hold blocks (`cap`) and that are in one iteration (`most`)."""

    blocks: Blocks

    def __init__(self, blocks: Blocks, watermark: int, cap: int, stages: int = 1) -> None:
        super().__init__()
        self.blocks, self.watermark, self.cap, self.most = blocks, watermark, cap, cap // stages
        self.idle: list[LiveRequest] = []

    def usable(self, request: LiveRequest) -> int:
        """What it restarts with must leave the watermark free, and a block must be free when it decodes."""
        return self.blocks.of_one - max(self.watermark, spare(request, self.blocks.size))

    def full(self, batch: Sequence[LiveRequest]) -> bool:
        """Whether no request more may come in."""
        return self.blocks.holders == self.cap or len(batch) == self.most

    def admissible(self, request: LiveRequest) -> bool:
        """Whether the blocks of its prompt leave the watermark free."""
        return self.blocks.room(request) - self.blocks.of(request.prefill) >= self.watermark

    def admit(self, now: int) -> LiveRequest:
        """The first that waits, with the blocks of its prompt."""
        request = self.waiting.popleft()
        self.blocks.take(request, self.blocks.of(request.prefill))
        if request.first_scheduled == NOT_YET:
            request.first_scheduled = now
        return request

    def make_room(self, request: LiveRequest, left: deque[LiveRequest]) -> bool:
        """A free block for one that decodes, or as many as its next step needs: the last of those `left` where it lies
        restart until there are, in the end it itself; then False. It takes those that it needs."""
        blocks = self.blocks
        more = -(-(request.cached + request.step) // blocks.size) - request.blocks
        while (room := blocks.room(request)) < more or not room:
            victim = last_beside(blocks, left, request)
            self.restart(victim)
            if victim is request:
                return False
        if more > 0:
            blocks.take(request, more)
        return True

    def restart(self, victim: LiveRequest) -> None:
        """Its blocks are free, and it is the first that waits."""
        self.blocks.release(victim)
        victim.restart()
        self.waiting.appendleft(victim)

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that go on are idle; those that have ended give their blocks back."""
        goes_on, ended = self.sampled(iteration, now)
        self.idle += goes_on
        for request in ended:
            self.blocks.release(request)
