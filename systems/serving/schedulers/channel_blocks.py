"""Blocks of KV cache in channels, as PIM needs them: what computes on a channel reads no other one, so all keys and
values of a request lie in one, from its first block until it gives them back. A scheduler sees but the room there.
"""

from collections.abc import Callable, Sequence

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOWHERE, LiveRequest
from pimloom.workload.need import Windowed

Policy = Callable[["ChannelBlocks", Sequence[int]], int]  # of channels that have room: the one for a request


class ChannelBlocks(Blocks):
    """left: free units of each channel; spare: blocks that stay free where a request comes in; turn: the channel
    that round robin looks at first; most: that each has held."""

    __slots__ = ("each", "left", "most", "policy", "spare", "turn")

    def __init__(
        self, left: Sequence[int], size: int, policy: str, spare: int = 0, window: Windowed | None = None
    ) -> None:
        super().__init__(sum(left), size, window)
        self.left = [self.units_of(blocks) for blocks in left]
        self.units = self.free = sum(self.left)
        self.each, self.spare, self.turn = tuple(self.left), spare, 0
        self.policy, self.most = POLICIES[policy], [0] * len(left)

    @property
    def of_one(self) -> int:
        """Of the largest channel."""
        return self.more(0, max(self.each))

    def room(self, request: LiveRequest) -> int:
        """Free where it lies, or at most where it might."""
        if request.channel != NOWHERE:
            return self.beyond(request.channel, request.blocks)
        return max(self.beyond(channel, 0) for channel in self._large(request))

    def beyond(self, channel: int, held: int) -> int:
        """Blocks that a request may have there beyond those that it holds."""
        return self.more(held, self.left[channel])

    def _large(self, request: LiveRequest) -> list[int]:
        """Channels in which it can be as long as it will be."""
        need = self.cost(self.of(request.longest))
        return [channel for channel, each in enumerate(self.each) if each >= need]

    def beside(self, request: LiveRequest, other: LiveRequest) -> bool:
        """Whether they lie in one channel."""
        return request.channel == other.channel

    def take(self, request: LiveRequest, number: int) -> None:
        """A request that lies nowhere yet is put where the policy says, among the channels with room."""
        if request.channel == NOWHERE:
            fits = [c for c in self._large(request) if self.beyond(c, 0) >= number + self.spare]
            request.channel = self.policy(self, fits)
        assert number <= self.beyond(request.channel, request.blocks)
        self.left[request.channel] -= self.cost(request.blocks + number) - self.cost(request.blocks)
        held = self.each[request.channel] - self.left[request.channel]
        self.most[request.channel] = max(self.most[request.channel], held)
        super().take(request, number)

    def release(self, request: LiveRequest) -> None:
        """It lies nowhere then."""
        if request.channel != NOWHERE:
            self.left[request.channel] += self.cost(request.blocks)
            request.channel = NOWHERE
        super().release(request)


def min_load(pool: ChannelBlocks, fits: Sequence[int]) -> int:
    """Where the fewest blocks are held; of equal ones the first."""
    return min(fits, key=lambda channel: pool.each[channel] - pool.left[channel])


def round_robin(pool: ChannelBlocks, fits: Sequence[int]) -> int:
    """The next one with room, from behind the one before."""
    found = min(fits, key=lambda channel: (channel - pool.turn) % len(pool.left))
    pool.turn = (found + 1) % len(pool.left)
    return found


POLICIES: dict[str, Policy] = {"min-load": min_load, "round-robin": round_robin}
