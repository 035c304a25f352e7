"""When the M-th of N branches ends whose lengths are drawn alike, and how many tokens all have made by then (SART)."""

from collections.abc import Callable
from math import fsum, lgamma, log, pi

import numpy as np

from pimloom.arch.error import UserError

Lengths = Callable[[np.ndarray], np.ndarray]  # a length, rising, of a number that is drawn from a standard normal
REACH, POINTS = 12.0, 4801  # of the normal; a sum over equal steps, whose error falls as exp(-1 / step)


def exponential(mean: float = 1.0) -> Lengths:
    """Lengths."""
    from scipy.special import log_ndtr  # scipy is slow to import

    return lambda z: -mean * log_ndtr(-z)


def uniform(low: float = 0.0, high: float = 1.0) -> Lengths:
    """Lengths."""
    from scipy.special import ndtr  # scipy is slow to import

    return lambda z: low + (high - low) * ndtr(z)


def lognormal(mu: float, sigma: float) -> Lengths:
    """Lengths."""
    return lambda z: np.exp(mu + sigma * z)


def mean_of_rank(lengths: Lengths, rank: int, of: int) -> float:
    """E of the `rank`-th smallest. Raises UserError for a rank that is none."""
    from scipy.special import log_ndtr  # scipy is slow to import

    if not 1 <= rank <= of:
        raise UserError(f"the {rank}-th of {of} branches: expected 1 to {of}")
    z = np.linspace(-REACH, REACH, POINTS)
    density = lgamma(of + 1) - lgamma(rank) - lgamma(of - rank + 1) - log(2 * pi) / 2 - z**2 / 2
    density += (rank - 1) * log_ndtr(z) + (of - rank) * log_ndtr(-z)
    return fsum((lengths(z) * np.exp(density)).tolist()) * (2 * REACH / (POINTS - 1))


def exponential_mean(rank: int, of: int, mean: float = 1.0) -> float:
    """The same of exponential lengths, exact.

    >>> exponential_mean(2, 2)
    1.5
    """
    return mean * fsum(1 / j for j in range(of - rank + 1, of + 1))


def token_steps(lengths: Lengths, stop: int, of: int) -> float:
    """Tokens of `of` branches until the `stop`-th has ended: those that end sooner make theirs, all others as many as
    the last of them."""
    ends = [mean_of_rank(lengths, rank, of) for rank in range(1, stop + 1)]
    return fsum(ends) + (of - stop) * ends[-1]
