"""Requests in the order in which they arrive, and what their beginnings share."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from pimloom.arch.error import UserError

LONGEST = 1 << 32  # blocks that no request has


class Prefix(Protocol):
    """Which blocks of prompts are equal, with all that stands before them."""

    def block(self, request: int, k: int, size: int) -> Hashable:
        """Identity of block k, of `size` tokens, of a request's prompt. Blocks of equal identity have the same tokens
        and the same prefix; None: no other request has this block."""
        ...

    def numbered(self, requests: Sequence[int], counts: Sequence[int], size: int) -> list[np.ndarray]:
        """The same as numbers: for each request an array of int64, (count,), of its first blocks; -1: no other request
        has this block."""
        ...


class Groups(NamedTuple):
    """Requests of a group share their first tokens, and nothing else."""

    group: Sequence[str]
    shared: Sequence[int]  # tokens

    def block(self, request: int, k: int, size: int) -> Hashable:
        """The group's as far as all of it is shared."""
        return (self.group[request], k) if (k + 1) * size <= self.shared[request] else None

    def numbered(self, requests: Sequence[int], counts: Sequence[int], size: int) -> list[np.ndarray]:
        """The number of the group in its high bits, and k; -1 from the first block that is not all shared."""
        found, group = list[np.ndarray](), dict[str, int]()
        for request, count in zip(requests, counts, strict=True):
            n = min(self.shared[request] // size, count)
            first = group.setdefault(self.group[request], len(group)) * LONGEST
            found.append(_padded(first + np.arange(n), count))
        return found


class Identities(NamedTuple):
    """Prompts as lists of blocks of `tokens`; equal numbers are equal beginnings, as in the traces of Mooncake."""

    blocks: Sequence[Sequence[int]]
    tokens: int

    def block(self, request: int, k: int, size: int) -> Hashable:
        """The block of the trace that contains this block, and the position in it."""
        if self.tokens % size:
            raise UserError(
                f"--block-size {size}: expected a divisor of {self.tokens}, the tokens of a block of the trace"
            )
        at, ids = k * size, self.blocks[request]
        return (ids[at // self.tokens], at % self.tokens) if at // self.tokens < len(ids) else None

    def numbered(self, requests: Sequence[int], counts: Sequence[int], size: int) -> list[np.ndarray]:
        """The number of what it is a part of, and which part."""
        found, number, parts = list[np.ndarray](), dict[int, int](), self.tokens // size
        for request, count in zip(requests, counts, strict=True):
            ids = [number.setdefault(one, len(number)) for one in self.blocks[request]]
            k = np.arange(min(len(ids) * parts, count))
            found.append(_padded(np.array(ids, np.int64)[k // parts] * parts + k % parts, count))
        return found


class Tokens:
    """Prompts as their tokens, in the numbers of a vocabulary."""

    def __init__(self, tokens: Sequence[Sequence[int]]) -> None:
        self.tokens = tokens
        self.numbers: dict[Hashable, int] = {}  # of a block with the number of the one before it
        self.chains: dict[tuple[int, int], list[int]] = {}  # of a request and a size

    def block(self, request: int, k: int, size: int) -> Hashable:
        """The number of a block with these tokens after its prefix; None if the prompt ends within the block."""
        mine = self.tokens[request]
        if (k + 1) * size > len(mine):
            return None
        chain = self.chains.setdefault((request, size), [])
        while len(chain) <= k:
            at = len(chain) * size
            key = (chain[-1] if chain else -1, tuple(mine[at : at + size]))
            chain.append(self.numbers.setdefault(key, len(self.numbers)))
        return chain[k]

    def numbered(self, requests: Sequence[int], counts: Sequence[int], size: int) -> list[np.ndarray]:
        """The identities of `block`, which are numbers; -1 after the end of the prompt."""
        found = list[np.ndarray]()
        for request, count in zip(requests, counts, strict=True):
            n = min(len(self.tokens[request]) // size, count)
            found.append(_padded(np.array([self.block(request, k, size) for k in range(n)], np.int64), count))
        return found


class Repeated(NamedTuple):
    """The prefixes of repeated requests. Requests of one repetition share what they share in the first one; different
    repetitions share nothing. requests: number in one repetition."""

    prefix: Prefix
    requests: int

    def block(self, request: int, k: int, size: int) -> Hashable:
        """The block of the first repetition, with the number of the repetition."""
        number, place = divmod(request, self.requests)
        mine = self.prefix.block(place, k, size)
        return mine if mine is None or not number else (number, mine)

    def numbered(self, requests: Sequence[int], counts: Sequence[int], size: int) -> list[np.ndarray]:
        """The numbers of the first repetition plus an offset for each repetition."""
        found = self.prefix.numbered([request % self.requests for request in requests], counts, size)
        apart = 1 + max((int(one.max(initial=0)) for one in found), default=0)
        each = zip(requests, found, strict=True)
        return [np.where(one < 0, one, one + request // self.requests * apart) for request, one in each]


class Answered(NamedTuple):
    """Prefixes of prompts and their answers, which later prompts may begin with. whole: prefixes of these texts;
    prompts, outputs: tokens of each request."""

    whole: Groups | Tokens
    prompts: Sequence[int]
    outputs: Sequence[int]

    def block(self, request: int, k: int, size: int) -> Hashable:
        """Identity of a block of the whole text, prompt and output."""
        return self.whole.block(request, k, size)

    def numbered(self, requests: Sequence[int], counts: Sequence[int], size: int) -> list[np.ndarray]:
        """Numbers of the first blocks of the whole texts, prompts and outputs."""
        return self.whole.numbered(requests, counts, size)


def named_tokens(prefix: Prefix, request: int, prompt: int) -> int:
    """Tokens of a request whose blocks may be shared: its prompt, and its answer unless the prompt was cut."""
    if isinstance(prefix, Repeated):
        return named_tokens(prefix.prefix, request % prefix.requests, prompt)
    if isinstance(prefix, Answered) and prefix.prompts[request] == prompt:
        return prompt + prefix.outputs[request]
    return prompt


def content(prefix: Prefix | None) -> Any:
    """Everything that decides which blocks are equal, as values for a digest."""
    if isinstance(prefix, Repeated):
        return content(prefix.prefix)
    if isinstance(prefix, Answered):
        return {"whole": content(prefix.whole), "prompts": list(prefix.prompts), "outputs": list(prefix.outputs)}
    return {"tokens": list(prefix.tokens)} if isinstance(prefix, Tokens) else msgspec.to_builtins(prefix)


def _padded(numbers: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([numbers, np.full(count - len(numbers), -1)]).astype(np.int64)


class Requests(NamedTuple):
    """arrival_ps: from the first on, never falling; prompt, output: tokens, at least 1; prefix: None if nothing is
    known of it; note: where arrivals and lengths come from, for a person; clients: as of `Arrivals`, whose next
    requests come when those before have ended, 0: requests come at their times."""

    name: str
    arrival_ps: list[int]
    prompt: list[int]
    output: list[int]
    note: str
    prefix: Prefix | None = None
    clients: int = 0


def first(requests: Requests, count: int | None) -> Requests:
    """The first of them, with what their own beginnings share, or all."""
    if count is None:
        return requests
    return requests._replace(
        arrival_ps=requests.arrival_ps[:count],
        prompt=requests.prompt[:count],
        output=requests.output[:count],
        prefix=_of_first(requests.prefix, count),
    )


def _of_first(prefix: Any, count: int) -> Any:
    match prefix:
        case Groups():
            return Groups(prefix.group[:count], prefix.shared[:count])
        case Identities():
            return Identities(prefix.blocks[:count], prefix.tokens)
        case Tokens():
            return Tokens(prefix.tokens[:count])
        case Answered():
            return Answered(_of_first(prefix.whole, count), prefix.prompts[:count], prefix.outputs[:count])
    return prefix


def repeated(requests: Requests, times: int) -> Requests:
    """The same requests repeated `times` times. Repetitions are separated by the mean gap of arrivals; shared prefixes
    are those of `Repeated`."""
    count, last = len(requests.prompt), requests.arrival_ps[-1]
    period = last + round(last / max(count - 1, 1))
    return requests._replace(
        arrival_ps=[at + i * period for i in range(times) for at in requests.arrival_ps],
        prompt=list(requests.prompt) * times,
        output=list(requests.output) * times,
        prefix=requests.prefix and Repeated(requests.prefix, count),
    )


def hit_share(requests: Requests, size: int) -> float | None:
    """Share of the full blocks of all prompts that a prefix cache without end would have, request by request up to the
    first that it has not; None without a prefix."""
    if requests.prefix is None:
        return None
    known, hits, blocks = set[Hashable](), 0, 0
    for i, (prompt, output) in enumerate(zip(requests.prompt, requests.output, strict=True)):
        there = min(named_tokens(requests.prefix, i, prompt), prompt + output - 1)
        mine = [requests.prefix.block(i, k, size) for k in range(there // size)]
        blocks += prompt // size
        for one in mine[: prompt // size]:
            if one not in known:
                break
            hits += 1
        known.update(one for one in mine if one is not None)
    return hits / blocks if blocks else None
