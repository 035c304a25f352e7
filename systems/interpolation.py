"""Which decode iterations are simulated, how often each counts, and how far off the others may be.

Those that are not simulated lie on straight lines between those that are.
"""

from collections.abc import Iterable, Sequence
from math import fsum, hypot, sqrt
from typing import cast

import numpy as np

from pimloom.arch.llm import LlmSpec

GOLDEN = 618_034  # millionths: multiples of the golden ratio fall evenly and never in step with rows, banks or channels
MILLION = 1_000_000
LEAST = 3  # iterations that tell an error
WORTH_A_WORD = 0.0005  # of the time: it shows in a figure of three digits
ROUGH = 0.1  # of the time: no digit behind the point


def bends(llm: LlmSpec, contexts: Sequence[int]) -> list[int]:
    """Contexts (rising by 1) at which those stop growing that a layer with a sliding window attends to."""
    window = llm.sliding_window
    return [window] if window is not None and window in contexts else []


def chosen(contexts: Sequence[int], every: int, also: Iterable[int] = ()) -> list[int]:
    """Contexts (rising by 1) to simulate: the first, the last, those in `also`, and one of each further `every`, at
    places that vary: contexts `every` tokens apart may find the memory alike each time. All of them, if they are too
    few to tell an error.

    >>> chosen(range(100, 150), 10)
    [100, 111, 127, 133, 149]
    """
    if len(contexts) < LEAST + 2:
        return list(contexts)
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


def error(
    at: Sequence[int], values: Sequence[float], often: Sequence[float], corners: Sequence[int] = ()
) -> float | None:
    """Standard error of the sum over all contexts, as a share of it, estimated from the values at those simulated,
    which count `often` times. corners: simulated contexts at which the curve may have one.

    How far each inner value lies off the line between its neighbours gives the spread of a single one around the curve,
    and the mean of it the curvature, of which straight lines leave out a sixth. An estimate: what is off at a single
    context that is not simulated does not show. 0 where all are simulated, None where fewer than three tell.
    """
    counts = np.array(often)
    if not (left := round(float(counts.sum())) - len(at)):
        return 0.0
    x, y = np.array(at, float), np.array(values)
    tells = ~np.isin(x[1:-1], np.array(corners, float))
    if tells.sum() < LEAST:
        return None
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    off = (y[1:-1] - y[:-2] * (1 - share) - y[2:] * share)[tells]
    alone = (1 + share**2 + (1 - share) ** 2)[tells]
    spread = sqrt(float((off**2 / alone).mean()) * float(((counts - 1) ** 2).sum() + left))
    return hypot(spread, left * float(off.mean()) / 6) / fsum((y * counts).tolist())


def error_note(error: float | None) -> str:
    """What to tell of the error of the time of decode, nothing where there is next to none.

    >>> error_note(0.0123)
    'the time of decode is interpolated, with a standard error of 1.2 %'
    """
    if error is None:
        return "the time of decode is interpolated between too few iterations to tell its error; take a lower --every"
    if error < WORTH_A_WORD:
        return ""
    digits = ".2g" if error < ROUGH else ".0f"
    return f"the time of decode is interpolated, with a standard error of {100 * error:{digits}} %"
