"""Tokens that a draft proposes, and how many of them the target accepts: drawn for each request by itself."""

from random import Random

from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.workload.decoding.chain import accepted


class Drafts:
    """gamma: tokens that are proposed; alpha: mean over requests of the probability that one is accepted; spread: its
    standard deviation, beta-distributed; seed: whatever the schedule is, a request has the same draws."""

    def __init__(self, gamma: int, alpha: float, spread: float, seed: int) -> None:
        self.gamma, self.alpha, self.spread, self.seed = gamma, alpha, spread, seed
        self.randoms, self.alphas = dict[int, Random](), dict[int, float]()
        self.steps = self.tokens = 0

    def proposed(self, request: LiveRequest) -> int:
        """For its next step; the target adds one token by itself."""
        return min(self.gamma, request.last - request.known - 1)

    def accepted(self, request: LiveRequest, drafted: int) -> int:
        """Draw how many of those that were checked are right."""
        number = request.number
        if number not in self.randoms:
            random = self.randoms[number] = Random(self.seed * 1_000_003 + number)
            self.alphas[number] = self._alpha(random)
        right = accepted(self.randoms[number], [self.alphas[number]] * drafted)
        self.steps += 1
        self.tokens += right + 1
        return right

    def _alpha(self, random: Random) -> float:
        if not self.spread:
            return self.alpha
        both = self.alpha * (1 - self.alpha) / self.spread**2 - 1
        return random.betavariate(self.alpha * both, (1 - self.alpha) * both)
