"""A request whose next tokens are proposed and checked: drafts of a chain, or of a tree."""

from collections.abc import Sequence
from typing import Protocol

from pimloom.systems.serving.pricing.costs import Piece
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.workload.decoding.draws import uniform


class Accepting(Protocol):
    """How many drafts are right. most: drafts of a step; trims: whether fewer can be checked; pairs: of a tree."""

    most: int
    trims: bool
    pairs: int

    def accepted(self, number: int, known: int, drafts: int) -> int:
        """Of a request that knows so many tokens."""
        ...


class Chain:
    """Each draft is right by itself, with the chance of its place; a token's draw is always the same."""

    trims, pairs = True, 0

    def __init__(self, alphas: Sequence[float], seed: int) -> None:
        self.alphas, self.seed, self.most = alphas, seed, len(alphas)

    def accepted(self, number: int, known: int, drafts: int) -> int:
        """Those before the first that is wrong."""
        for i in range(drafts):
            if uniform(self.seed, number, known + i) >= self.alphas[i]:
                return i
        return drafts


class BetaChain(Chain):
    """Each request has an acceptance of its own, beta-distributed."""

    def __init__(self, of: tuple[float, float], gamma: int, seed: int) -> None:
        super().__init__([0.0] * gamma, seed)
        self.of, self.known = of, dict[int, float]()

    def accepted(self, number: int, known: int, drafts: int) -> int:
        """With the request's own chance."""
        if (alpha := self.known.get(number)) is None:
            import numpy as np  # one stream for each request

            alpha = self.known[number] = float(np.random.default_rng([self.seed, 11, number]).beta(*self.of))
        right = (uniform(self.seed, number, known + i) < alpha for i in range(drafts))
        return next((i for i, ok in enumerate(right) if not ok), drafts)


class Tree:
    """reach: chances that at least 0, 1, 2 ... are right; all nodes are checked, or none."""

    trims = False

    def __init__(self, reach: Sequence[float], nodes: int, pairs: int, seed: int) -> None:
        self.reach, self.most, self.pairs, self.seed = reach, nodes, pairs, seed

    def accepted(self, number: int, known: int, drafts: int) -> int:
        """By one draw for each step."""
        if not drafts:
            return 0
        drawn = uniform(self.seed, number, known)
        return sum(drawn < chance for chance in self.reach[1:])


class Speculated:
    """Decoding of requests whose drafts are checked; see `Decoding`. checked, right: drafts; steps: in which some of a
    request were checked."""

    def __init__(self, accepting: Accepting, positions: int) -> None:
        self.accepting, self.positions = accepting, positions
        self.checked = self.right = self.steps = 0
        self.most, self.trims = accepting.most, accepting.trims

    def ahead(self, request: LiveRequest) -> int:
        """Drafts of the next step: none before its first token, nor behind the model's positions."""
        if request.first_token < 0 or request.known - request.cached > 1:
            return 0
        left = self.positions - request.known
        return self.most if left >= self.most else max(left, 0) if self.trims else 0

    def ran(self, request: LiveRequest) -> int:
        """Accepted drafts and a token of the target are known now, the rest of the cache is void."""
        drafts = request.cached - request.known
        right = self.accepting.accepted(request.number, request.known, drafts)
        self.checked, self.right, self.steps = self.checked + drafts, self.right + right, self.steps + (drafts > 0)
        made = min(right + 1, request.last - request.known)
        request.known += made
        request.cached = request.known - 1
        return made

    def pieces(self, request: LiveRequest, new: int, cached: int) -> list[Piece]:
        """One, in which all drafts are checked."""
        behind = cached + new - request.known  # drafts
        if behind <= 0:
            return [Piece(new, cached, int(behind == 0))]
        whole = new == self.accepting.most + 1
        return [Piece(new, cached, new, verify=True, pairs=self.accepting.pairs if whole else 0)]
