"""A pool of blocks of KV cache, of which only the number matters."""

from pimloom.systems.serving.schedulers.live import LiveRequest


class Blocks:
    """`total` blocks of `size` tokens; free: those that nobody holds; holders: requests that hold some."""

    __slots__ = ("free", "holders", "size", "total")
    free: int

    def __init__(self, total: int, size: int) -> None:
        self.total = self.free = total
        self.size, self.holders = size, 0

    def of(self, tokens: int) -> int:
        """Blocks that so many tokens need."""
        return -(-tokens // self.size)

    def take(self, request: LiveRequest, number: int) -> None:
        """Give a request so many blocks; they must be free."""
        assert number <= self.free
        self.free -= number
        self.holders += not request.blocks
        request.blocks += number

    def release(self, request: LiveRequest) -> None:
        """Take all back."""
        self.free += request.blocks
        self.holders -= request.blocks > 0
        request.blocks = 0
