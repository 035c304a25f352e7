"""A pool of blocks of KV cache, of which only the number matters."""

from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.workload.need import Windowed

UNBOUNDED = 1 << 40  # blocks: more than any request has


class Blocks:
    """`total` blocks of `size` tokens. free: free units; without windows a unit is a block; holders: requests that hold
    blocks. A request's `blocks` count all its tokens, also those that have left the window."""

    __slots__ = ("free", "holders", "most_windowed", "size", "total", "units", "window")
    free: int

    def __init__(self, total: int, size: int, window: Windowed | None = None) -> None:
        self.total, self.size, self.window, self.holders = total, size, window, 0
        self.units = self.free = self.units_of(total)
        self.most_windowed = window.most(size) if window else 0

    def units_of(self, blocks: int) -> int:
        """Units of so many blocks in all layers."""
        return int(blocks * self.window.of) if self.window else blocks

    def of(self, tokens: int) -> int:
        """Blocks that so many tokens need."""
        return -(-tokens // self.size)

    def cost(self, blocks: int) -> int:
        """Units that a request with so many blocks takes."""
        if self.window is None:
            return blocks
        return self.window.full * blocks + self.window.windowed * min(blocks, self.most_windowed)

    def more(self, held: int, free: int) -> int:
        """Blocks beyond those that a request holds for which `free` units have room."""
        if self.window is None:
            return free
        full, windowed, most = self.window.full, self.window.windowed, self.most_windowed
        growing = max(most - held, 0)
        if free < (full + windowed) * growing:
            return free // (full + windowed)
        return growing + ((free - (full + windowed) * growing) // full if full else UNBOUNDED)

    @property
    def used(self) -> int:
        """Blocks that are held, as blocks in all layers, rounded up."""
        return self.blocks_of(self.units - self.free)

    def blocks_of(self, units: int) -> int:
        """So many units as blocks in all layers, rounded up."""
        return -int(-units // self.window.of) if self.window else units

    @property
    def of_one(self) -> int:
        """Most that one request may have."""
        return self.more(0, self.units)

    def room(self, request: LiveRequest) -> int:
        """Free blocks that a request may have."""
        return self.more(request.blocks, self.free)

    def beside(self, request: LiveRequest, other: LiveRequest) -> bool:
        """Whether what one gives back is room for the other."""
        return True

    def take(self, request: LiveRequest, number: int) -> None:
        """Give a request so many blocks; they must be free."""
        self.free -= self.cost(request.blocks + number) - self.cost(request.blocks)
        assert self.free >= 0
        self.holders += not request.blocks
        request.blocks += number

    def release(self, request: LiveRequest) -> None:
        """Take all back."""
        self.free += self.cost(request.blocks)
        self.holders -= request.blocks > 0
        request.blocks = 0
