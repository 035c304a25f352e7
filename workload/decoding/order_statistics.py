"""When the M-th of N branches ends, of lengths that are drawn alike."""

from collections.abc import Callable
from math import lgamma
from statistics import NormalDist

import numpy as np

NODES, WIDEST = 400, 3.4  # of the rule on each side, and where it ends: the weights there are below 1e-20


def exponential(m: int, n: int) -> float:
    """Mean of the m-th smallest of n, of lengths with mean 1.

    >>> exponential(1, 4), exponential(2, 2)
    (0.25, 1.5)
    """
    return sum(1 / j for j in range(n - m + 1, n + 1))


def uniform(m: int, n: int) -> float:
    """The same between 0 and 1."""
    return m / (n + 1)


def lognormal(m: int, n: int, sigma: float) -> float:
    """The same, of lengths whose logarithm has mean 0 and deviation `sigma`."""
    normal = NormalDist()
    return mean_of(m, n, lambda u, rest: np.exp(sigma * _normal(normal, u, rest)))


def mean_of(m: int, n: int, quantile: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """The same of any distribution: the integral of its quantile function times the density of the m-th share, by a
    tanh-sinh rule. quantile: takes shares and what they leave of 1, which is exact near both ends."""
    t = np.linspace(-WIDEST, WIDEST, 2 * NODES + 1)
    e = np.exp(-np.pi * np.sinh(t))
    u, rest = 1 / (1 + e), e / (1 + e)
    slope = np.pi * np.cosh(t) * u * rest
    log_density = lgamma(n + 1) - lgamma(m) - lgamma(n - m + 1) + (m - 1) * np.log(u) + (n - m) * np.log(rest)
    return float(np.sum(quantile(u, rest) * np.exp(log_density) * slope) * (t[1] - t[0]))


def _normal(normal: NormalDist, u: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Quantiles, from the nearer end."""
    low = [normal.inv_cdf(max(min(a, b), 1e-300)) for a, b in zip(u.tolist(), rest.tolist(), strict=True)]
    return np.where(u < rest, low, np.negative(low))


def saved(m: int, n: int, mean: Callable[[int, int], float]) -> float:
    """Steps saved by waiting for the m-th of n instead of all of m."""
    return mean(m, m) - mean(m, n)
