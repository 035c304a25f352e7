"""Speculation in a chain: a draft proposes tokens one behind the other, the target checks them in one pass.

Of `gamma` proposed tokens those before the first wrong one are accepted, and the target adds one of its own.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import fsum, sqrt
from operator import mul

from pimloom.arch.error import UserError


def reached(alphas: Sequence[float]) -> list[float]:
    """P(at least k accepted) for k from 0 to gamma; alphas: of each position, given that those before were accepted.

    >>> reached([0.5, 0.5])
    [1.0, 0.5, 0.25]
    """
    return list(accumulate(alphas, mul, initial=1.0))


def reached_beta(mean: float, spread: float, gamma: int) -> list[float]:
    """The same where each request has an acceptance of its own, beta-distributed with this mean and standard
    deviation: E[alpha^k]. Raises UserError for a spread that no such distribution has."""
    a, b = beta(mean, spread)
    return list(accumulate(((a + i) / (a + b + i) for i in range(gamma)), mul, initial=1.0))


def beta(mean: float, spread: float) -> tuple[float, float]:
    """The two parameters of a beta distribution. Raises UserError."""
    most = sqrt(mean * (1 - mean))
    if not 0 < spread < most:
        raise UserError(
            f"a spread of {spread:g} about an acceptance of {mean:g}: expected one between 0 and {most:.3g}"
        )
    total = mean * (1 - mean) / spread**2 - 1
    return mean * total, (1 - mean) * total


def tokens_per_step(reach: Sequence[float]) -> float:
    """E[a + 1].

    >>> tokens_per_step(reached([0.5] * 4))
    1.9375
    """
    return fsum(reach)


def tokens_spread(reach: Sequence[float]) -> float:
    """Standard deviation of a + 1."""
    chances = [here - there for here, there in zip(reach, [*reach[1:], 0.0], strict=True)]
    mean = tokens_per_step(reach)
    return sqrt(fsum(chance * (k + 1 - mean) ** 2 for k, chance in enumerate(chances)))


def speedup(reach: Sequence[float], draft: float, verify: float = 1.0) -> float:
    """Over decoding without, in times of a step of the target: `draft` of each of the proposals, `verify` of the check.

    >>> speedup(reached([0.5, 0.5]), 0.125)
    1.4
    """
    return tokens_per_step(reach) / ((len(reach) - 1) * draft + verify)


def passes(gamma: int, streams: int = 1) -> int:
    """Passes of a draft that proposes so many tokens in each (speculative streaming)."""
    return -(-gamma // streams)
