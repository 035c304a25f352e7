"""Which decode iterations are simulated, how often each counts, and how far off the others may be.

Those that are not simulated lie on straight lines between those that are.
"""

from collections.abc import Iterable, Sequence
from math import fsum, sqrt
from typing import cast

import numpy as np

GOLDEN = 618_034  # millionths: multiples of the golden ratio fall evenly and never in step with rows, banks or channels
MILLION = 1_000_000
WORTH_A_WORD = 0.0005  # of the time: it shows in a figure of three digits


def chosen(contexts: Sequence[int], every: int, also: Iterable[int] = ()) -> list[int]:
    """Contexts (rising by 1) to simulate: the first, the last, those in `also`, and one of each further `every`, not
    always at the same place: contexts `every` tokens apart may find the memory alike each time.

    >>> chosen(range(100, 150), 10)
    [100, 111, 127, 133, 149]
    """
    wanted = {*also, *contexts[:1], *contexts[-1:]}
    for block, start in enumerate(range(0, len(contexts), every)):
        if block:
            some = min(every, len(contexts) - start)
            wanted.add(contexts[start + (MILLION // 2 + block * GOLDEN) % MILLION * some // MILLION])
    return sorted(wanted)


def weights(contexts: Sequence[int], at: Sequence[int]) -> list[float]:
    """How often each simulated context counts."""
    if len(at) < 2:
        return [float(len(contexts))] * len(at)
    there, x = np.asarray(at), np.asarray(contexts)
    left = np.clip(np.searchsorted(there, x, "right") - 1, 0, len(at) - 2)
    share = (x - there[left]) / (there[left + 1] - there[left])
    often = np.bincount(left, 1 - share, len(at)) + np.bincount(left + 1, share, len(at))
    return cast(list[float], often.tolist())


def error(at: Sequence[int], values: Sequence[float], weights: Sequence[float]) -> float | None:
    """Standard error of the sum over all contexts, as a share of it, estimated from the values at those simulated,
    which count `weights` times.

    How far each inner value lies off the line between its neighbours gives the spread of a single one around the curve;
    an estimate, for values that are off by chance, of how far the lines are off in all. 0 where all are simulated, None
    where fewer than three are.
    """
    if all(count == 1 for count in weights):
        return 0.0
    if len(at) < 3:
        return None
    x, y, often = np.array(at, float), np.array(values), np.array(weights)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    off = y[1:-1] - y[:-2] * (1 - share) - y[2:] * share
    spread = sqrt(float((off**2 / (1 + share**2 + (1 - share) ** 2)).mean()))
    return spread * sqrt(float((often**2).sum())) / fsum((y * often).tolist())


def said(error: float | None) -> str:
    """What to tell of the error of the time of decode, nothing where there is next to none.

    >>> said(0.0123)
    'the time of decode is interpolated, with a standard error of 1.2 %'
    """
    if error is None:
        return "the time of decode is interpolated between too few iterations to tell its error; take a lower --every"
    if error < WORTH_A_WORD:
        return ""
    return f"the time of decode is interpolated, with a standard error of {100 * error:.2g} %"
