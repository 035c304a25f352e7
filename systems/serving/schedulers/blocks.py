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

    @property
    def of_one(self) -> int:
        """Most that one request may have."""
        return self.total

    def room(self, request: LiveRequest) -> int:
        """Free blocks that a request may have."""
        return self.free

    def beside(self, request: LiveRequest, other: LiveRequest) -> bool:
        """Whether what one gives back is room for the other."""
        return True

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
