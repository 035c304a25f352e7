"""Lengths of two public data sets, drawn from their published statistics; the data itself is not here.

A length is the value of a quantile function at a uniform number: straight from the least to the median, geometric from
there to the 90th percentile, and above it a Pareto tail that ends at the maximum, its exponent solved so that the mean
is right. Median, 90th percentile, mean and maximum are the data set's; the shape between them is ours.
"""

from math import expm1, log
from typing import NamedTuple

import numpy as np

LEAST = 1  # tokens [assumed]: the shipped lists have requests of one token, zero-output rows are dropped
P90 = 0.9


class Lengths(NamedTuple):
    """Statistics of a length [tokens]; `least` < `median` < `p90` < `most`."""

    mean: float
    median: int
    p90: int
    most: int
    least: int = LEAST


class DataSet(NamedTuple):
    """A data set: its rows, and the lengths of inputs and outputs. Both are drawn apart [assumed: no joint known]."""

    rows: int
    prompt: Lengths
    output: Lengths


# [secondary] casys-kaist/NeuPIMs@f299af3, stats.tsv of the trace generator, rows without output dropped
DATA_SETS = {
    "alpaca": DataSet(51_974, Lengths(12.13, 11, 17, 99), Lengths(55.79, 41, 122, 1_005)),
    "sharegpt": DataSet(390_819, Lengths(80.04, 17, 118, 196_710), Lengths(295.67, 261, 576, 63_144)),
}


def draw(lengths: Lengths, count: int, rng: np.random.Generator) -> np.ndarray:
    """int64[count] of lengths in random order, one from each of `count` equal shares of the distribution.

    Shares keep the statistics of few draws near those of the distribution, whose tail is long.
    """
    return quantile(lengths, (rng.permutation(count) + rng.random(count)) / count)


def quantile(lengths: Lengths, at: np.ndarray) -> np.ndarray:
    """int64 lengths below which a share `at` (0 to 1) of the distribution lies, rounded to whole tokens."""
    low = lengths.least + (lengths.median - lengths.least) * at / 0.5
    ratio = lengths.p90 / lengths.median
    middle = lengths.median * ratio ** ((at - 0.5) / (P90 - 0.5))
    shape = tail_exponent(lengths)
    ends = (lengths.p90 / lengths.most) ** shape
    tail = lengths.p90 * (1 - np.clip((at - P90) / (1 - P90), 0, 1) * (1 - ends)) ** (-1 / shape)
    found = np.where(at < 0.5, low, np.where(at < P90, middle, tail))
    return np.rint(np.minimum(found, lengths.most)).astype(np.int64)


def tail_exponent(lengths: Lengths) -> float:
    """Exponent of the Pareto tail from `p90` to `most` that gives the mean. Raises ValueError if none does."""
    low = 0.5 * (lengths.least + lengths.median) / 2
    middle = (P90 - 0.5) * (lengths.p90 - lengths.median) / log(lengths.p90 / lengths.median)
    wanted = (lengths.mean - low - middle) / (1 - P90) / lengths.p90
    reach = log(lengths.most / lengths.p90)
    under, over = 1e-6, 1e4
    if not _tail_mean(over, reach) < wanted < _tail_mean(under, reach):
        raise ValueError(f"no tail from {lengths.p90} to {lengths.most} gives the mean {lengths.mean}")
    for _ in range(200):
        between = (under * over) ** 0.5
        if _tail_mean(between, reach) > wanted:
            under = between
        else:
            over = between
    return under


def _tail_mean(shape: float, reach: float) -> float:
    """Mean of a Pareto variable from 1 to exp(reach), of exponent `shape` [1]."""
    if abs(shape - 1) < 1e-9:
        return reach / -expm1(-reach)
    return shape / (shape - 1) * expm1((1 - shape) * reach) / expm1(-shape * reach)
