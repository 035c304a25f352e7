"""A request on its way, an iteration, and what every scheduler does when one has run."""

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

NEVER = 1 << 62  # a tick that does not come
NOT_YET = -1
NOWHERE = -1  # a channel that is none


class Decoding(Protocol):
    """How a request goes on behind its prompt, if not token by token. most: tokens ahead of those that are known in a
    step; trims: whether it can have fewer."""

    most: int
    trims: bool

    def ahead(self, request: "LiveRequest") -> int:
        """Tokens behind those that are known which the next step computes, too."""
        ...

    def ran(self, request: "LiveRequest") -> int:
        """A step that computed all that was known has ended: how many tokens are known more. It sets both."""
        ...

    def pieces(self, request: "LiveRequest", new: int, cached: int) -> list[Any]:
        """What a machine computes of it in a step."""
        ...


class LiveRequest:
    """A request with what a scheduler knows of it.

    cached: tokens whose keys and values are in memory; known: tokens of its prompt and those that it has generated;
    prefill: tokens that it must have cached before it decodes: its prompt, after a restart all that were known then;
    last: tokens known at which it ends; blocks: that it holds; hit: tokens that it found in the prefix cache when it
    was admitted first; decoding: None, token by token; beside: tokens known that are copies of its prompt; channel:
    where its blocks lie, if that matters; lost: most tokens of a cache that it lost; again: tokens that it has computed
    once more since. Ticks are NOT_YET until they have come.
    """

    __slots__ = (
        "again", "arrival", "beside", "blocks", "cached", "channel", "completion", "decoding", "first_scheduled",
        "first_token", "hit", "known", "last", "last_token", "lost", "number", "output", "prefill", "prompt",
        "restarts", "swaps",
    )  # fmt: skip

    def __init__(self, number: int, arrival: int, prompt: int, output: int) -> None:
        self.number, self.arrival, self.prompt, self.output = number, arrival, prompt, output
        self.cached = self.blocks = self.hit = self.restarts = self.swaps = self.lost = self.again = 0
        self.known, self.prefill, self.channel = prompt, prompt, NOWHERE
        self.last, self.beside = prompt + output, 0
        self.decoding: Decoding | None = None
        self.first_scheduled = self.first_token = self.last_token = self.completion = NOT_YET

    @property
    def longest(self) -> int:
        """Most tokens that it has in the cache: the last one is sampled, and not put in again."""
        return self.last - 1 + (0 if self.decoding is None else self.decoding.most)

    @property
    def step(self) -> int:
        """Tokens of its next step while it decodes: a new one, and drafts."""
        return self.known - self.cached + (0 if self.decoding is None else self.decoding.ahead(self))

    def restart(self) -> None:
        """Lose the cache; all tokens known are its prompt now."""
        self.lost = max(self.lost, self.cached)
        self.cached, self.prefill = 0, self.known
        self.restarts += 1


class Iteration:
    """Requests in the order of the batch, with their new tokens and those cached before.

    start, ticks, end: when it forms, how long a stage works on it, when the last stage has done so; blocks_in,
    blocks_out: moved from and to the host.
    """

    __slots__ = ("blocks_in", "blocks_out", "cached", "end", "new", "requests", "start", "ticks")

    def __init__(self, requests: list[LiveRequest], new: list[int]) -> None:
        self.requests, self.new = requests, new
        self.cached = [r.cached for r in requests]
        self.start = self.ticks = self.end = self.blocks_in = self.blocks_out = 0


class Pool(Protocol):
    """Blocks of KV cache: `total`, of them `free`, of `size` tokens each."""

    total: int
    size: int

    @property
    def free(self) -> int:
        """Blocks that no request holds [1]."""
        ...

    @property
    def used(self) -> int:
        """Blocks that requests hold at present [1]."""
        ...

    @property
    def of_one(self) -> int:
        """Most that one request may have."""
        ...


class Scheduler:
    """Who waits, who runs, and who is in the next iteration. gaps: ticks between two tokens of a request, of all; came:
    tokens that came of each iteration that has ended, in their order."""

    blocks: Pool

    def __init__(self) -> None:
        self.waiting, self.gaps, self.came = deque[LiveRequest](), array("q"), array("q")

    def never(self, request: LiveRequest) -> str | None:
        """Why a request could never run, None if it can."""
        return lacking(-(-request.longest // self.blocks.size), self.usable(request))

    def usable(self, request: LiveRequest) -> int:
        """Blocks that a request may have if it is alone."""
        return self.blocks.of_one

    def late(self, request: LiveRequest) -> int:
        """Tokens of which an iteration takes too few to compute all of a request once more, at most; 0: it could
        always come back."""
        return 0

    def sampled(self, iteration: Iteration, now: int) -> tuple[list[LiveRequest], list[LiveRequest]]:
        """Add the tokens of an iteration to its requests; those that go on, and those that have ended.

        A request whose known tokens are all cached has its next one, or as many as its decoding makes.
        """
        goes_on, ended, gaps, came = [], [], self.gaps, 0
        for r, n in zip(iteration.requests, iteration.new, strict=True):
            r.cached = cached = r.cached + n
            if cached >= r.known:
                if r.decoding is None:
                    r.known = cached = cached + 1
                    came += 1
                else:
                    made = r.decoding.ran(r)
                    came += made
                    gaps.extend([0] * (made - 1))
                    cached = r.known
                if r.first_token < 0:
                    r.first_token = now
                else:
                    gaps.append(now - r.last_token)
                r.last_token = now
                if cached == r.last:
                    r.completion = now
                    ended.append(r)
                    continue
            goes_on.append(r)
        self.came.append(came)
        return goes_on, ended

    def form(self, now: int) -> Iteration | None:
        """The next iteration; None if nobody can run."""
        raise NotImplementedError  # each scheduler has its own rule

    def ran(self, iteration: Iteration, now: int) -> None:
        """An iteration has ended: its tokens are there."""
        raise NotImplementedError  # each scheduler has its own rule


def by_arrival(requests: Sequence[LiveRequest]) -> list[LiveRequest]:
    """First come first, and of equal arrivals the lower number."""
    return sorted(requests, key=_arrival)


def by_time(requests: Sequence[LiveRequest]) -> list[LiveRequest]:
    """First come first, equal arrivals in the order that they have."""
    return sorted(requests, key=lambda request: request.arrival)


def _arrival(request: LiveRequest) -> Any:
    return request.arrival, request.number


def lacking(need: int, there: int) -> str | None:
    """Why a request has too few blocks; None if it has enough."""
    return None if need <= there else f"needs {need:,} blocks of KV cache, and there are {there:,} for it"


def spare(request: LiveRequest, size: int) -> int:
    """Blocks that must be free beside those of its longest cache, where each step of decode wants a free one: one, if
    its last step needs none for itself."""
    longest = request.longest
    if request.decoding is not None:
        return 1
    return int(request.output > 1 and -(-longest // size) == -(-(longest - 1) // size))


def last_beside(pool: Any, left: Any, request: LiveRequest) -> LiveRequest:
    """The last of those left whose blocks would be room for a request, taken out; itself if there is none."""
    for at in range(len(left) - 1, -1, -1):
        if pool.beside(left[at], request):
            victim: LiveRequest = left[at]
            del left[at]
            return victim
    return request


def uncut(request: LiveRequest, most: int) -> str | None:
    """Why a prompt that comes whole does not fit an iteration; None if it does."""
    if request.prompt <= most:
        return None
    return f"has a prompt of {request.prompt:,} tokens, and an iteration takes {most:,} and no part of a prompt"
