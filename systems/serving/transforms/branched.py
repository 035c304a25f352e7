"""A request that goes on in several branches behind its prompt, each a token in a step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pimloom.systems.serving.pricing.costs import Piece
from pimloom.systems.serving.schedulers.live import LiveRequest


class Branching(NamedTuple):
    """number: of branches; stop: how many must end; spread: of their lengths, sigma of a lognormal about the request's
    own, 0: all alike; shared: the prompt's keys and values are there once, and read once."""

    number: int
    stop: int
    spread: float
    shared: bool


def lengths_of(branching: Branching, output: int, number: int, seed: int) -> list[int]:
    """Tokens of each branch of a request until it ends, or enough others have, rising."""
    if not branching.spread:
        return [output] * branching.number
    drawn = np.random.default_rng([seed, 13, number]).lognormal(0.0, branching.spread, branching.number)
    mean = float(np.exp(branching.spread**2 / 2))
    rising = np.maximum(np.rint(np.sort(drawn) / mean * output), 1).astype(int).tolist()
    return [min(n, rising[branching.stop - 1]) for n in rising]


class Branched:
    """Decoding of a request in branches; see `Decoding`. Tokens of all branches are known in the order in which they
    are made; what ended branches had stays until the last one ends."""

    most, trims = 0, False

    def __init__(self, lengths: Sequence[int], shared: bool) -> None:
        self.lengths, self.shared, self.steps = lengths, shared, 0
        self.copies = 0 if shared else len(lengths) - 1

    def dress(self, request: LiveRequest) -> None:
        """A request that has not come yet."""
        request.decoding, request.beside = self, self.copies * request.prompt
        request.last = request.prompt + request.beside + sum(self.lengths)

    def ahead(self, request: LiveRequest) -> int:
        """Nothing beyond what is known."""
        return 0

    def ran(self, request: LiveRequest) -> int:
        """A token of each branch that has not ended; with the first ones the copies of the prompt are there."""
        if not self.steps:
            request.cached += request.beside
            request.known += request.beside
        self.steps += 1
        made = sum(n >= self.steps for n in self.lengths)
        request.known += made
        return made

    def pieces(self, request: LiveRequest, new: int, cached: int) -> list[Piece]:
        """A row of each branch; what is computed once more, branch by branch."""
        if not self.steps:
            return [Piece(new, cached, int(cached + new >= request.known))]
        live = [n for n in self.lengths if n >= self.steps]
        ends = cached + new >= request.known
        if new == len(live) and cached + new == request.known:
            context = request.prompt + self.steps - 1
            return [Piece(1, context, 1, shared=request.prompt if self.shared else 0) for _ in live]
        each = self._again(request, new, cached)
        return [Piece(n, p, int(ends)) for n, p in each]

    def _again(self, request: LiveRequest, new: int, cached: int) -> list[tuple[int, int]]:
        """Tokens that are computed once more, as parts of prompts: (new, cached) of each."""
        prompts = request.prompt * (1 + self.copies)
        whole = max(min(prompts - cached, new), 0)
        found = list[tuple[int, int]]()
        while whole:
            at = cached % request.prompt
            n = min(whole, request.prompt - at)
            found.append((n, at))
            cached, whole, new = cached + n, whole - n, new - n
        if new:
            branches = len(self.lengths)
            before = max(cached - prompts, 0) // branches
            parts = [new // branches + (i < new % branches) for i in range(branches)]
            found += [(n, request.prompt + before) for n in parts if n]
        return found
