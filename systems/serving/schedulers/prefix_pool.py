"""Blocks of KV cache with identities: full blocks of equal beginnings are shared, and found again as long as they are
not handed out.
"""

from collections.abc import Callable, Hashable

from pimloom.systems.serving.schedulers.live import LiveRequest

Identity = Callable[[LiveRequest, int], Hashable]  # of block k of a request, and of all that stands before it


class PrefixPool:
    """Blocks by number. free: in the order in which they are handed out; those that were given back stand at its end,
    the last block of a request first, and keep their identity until they are handed out again."""

    def __init__(self, total: int, size: int, identity: Identity) -> None:
        self.total, self.size, self.identity = total, size, identity
        self.order = dict.fromkeys(range(total))
        self.users, self.name = [0] * total, list[Hashable]([None] * total)
        self.held: dict[int, list[int]] = {}  # request: its blocks
        self.named: dict[int, int] = {}  # request: how many of them have their identity
        self.index: dict[Hashable, dict[int, None]] = {}  # identity: blocks, the oldest first

    @property
    def used(self) -> int:
        """Blocks that at least one request holds [1]."""
        return self.total - self.free

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self.order)

    @property
    def of_one(self) -> int:
        """Most that one request may have."""
        return self.total

    def room(self, request: LiveRequest) -> int:
        """Free blocks that a request may have."""
        return len(self.order)

    def beside(self, request: LiveRequest, other: LiveRequest) -> bool:
        """Whether what one gives back is room for the other."""
        return True

    def of(self, tokens: int) -> int:
        """Blocks that so many tokens need."""
        return -(-tokens // self.size)

    def found(self, request: LiveRequest) -> list[int]:
        """The leading blocks of a request that are there; a token at least remains to be computed."""
        found = list[int]()
        for k in range((request.known - 1) // self.size):
            blocks = self.index.get(self.identity(request, k))
            if not blocks:
                break
            found.append(next(iter(blocks)))
        return found

    def idle(self, blocks: list[int]) -> int:
        """How many of these nobody holds."""
        return sum(block in self.order for block in blocks)

    def share(self, request: LiveRequest, blocks: list[int]) -> None:
        """Blocks that a request has found are its own, too."""
        for block in blocks:
            self.order.pop(block, None)
            self.users[block] += 1
        self.held[request.number] = list(blocks)
        self.named[request.number] = request.blocks = len(blocks)

    def take(self, request: LiveRequest, number: int) -> None:
        """Hand out so many, which lose their identity."""
        held = self.held.setdefault(request.number, [])
        self.named.setdefault(request.number, 0)
        for _ in range(number):
            block = next(iter(self.order))
            del self.order[block]
            if self.name[block] is not None:
                self._forget(block)
            self.users[block] = 1
            held.append(block)
        request.blocks += number

    def fill(self, request: LiveRequest, tokens: int) -> None:
        """So many tokens of a request are there: its full blocks have their identity."""
        held, first = self.held[request.number], self.named[request.number]
        full = tokens // self.size
        for k in range(first, full):
            self.name[held[k]] = identity = self.identity(request, k)
            self.index.setdefault(identity, {})[held[k]] = None
        self.named[request.number] = max(first, full)

    def release(self, request: LiveRequest) -> None:
        """Give all back, the last one first."""
        for block in reversed(self.held.pop(request.number, [])):
            self.users[block] -= 1
            if not self.users[block]:
                self.order[block] = None
        self.named.pop(request.number, None)
        request.blocks = 0

    def _forget(self, block: int) -> None:
        blocks = self.index[self.name[block]]
        del blocks[block]
        if not blocks:
            del self.index[self.name[block]]
        self.name[block] = None
