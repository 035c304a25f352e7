"""Arrivals and lengths that are drawn, from streams of their own: another rate keeps gaps and lengths."""

import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.units import PS_PER_S
from pimloom.workload.requests.data_sets import DATA_SETS, draw
from pimloom.workload.requests.trace_file import LONGEST

KINDS = ("poisson", "gamma", "uniform", "burst", "closed")
SUCH_AS = "such as poisson:2/s, gamma:2/s,cv=3, uniform:2/s, burst or closed:16"
CLOSED = re.compile(r"closed:(\d{1,7})", re.ASCII)
WRITTEN = re.compile(r"(\w+)(?::([\d.]+(?:[eE][+-]?\d+)?)/s(?:,cv=([\d.]+))?)?", re.ASCII)
LENGTHS = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
LEAST_RATE, MOST_RATE = 1e-6, 1e9  # requests per s
MOST_CV = 100.0


class Arrivals(NamedTuple):
    """kind: of KINDS; rate: requests per s; cv: of the gaps of `gamma`; clients: of `closed`, each of which sends its
    next request when the one before has ended."""

    kind: str
    rate: float
    cv: float = 1.0
    clients: int = 0


def parse_arrivals(text: str) -> Arrivals:
    """As a user writes them. Raises UserError.

    >>> parse_arrivals("gamma:2/s,cv=3")
    Arrivals(kind='gamma', rate=2.0, cv=3.0, clients=0)
    """
    if (closed := CLOSED.fullmatch(text)) and int(closed[1]):
        return Arrivals("closed", 1.0, clients=int(closed[1]))
    match = WRITTEN.fullmatch(text)
    kind = match[1] if match else text.partition(":")[0]
    if kind not in KINDS or kind == "closed":
        raise UserError(f"--arrivals {text}: expected one {SUCH_AS}{nearest(kind, KINDS)}")
    if not match or (match[2] is None) != (kind == "burst") or (match[3] is not None) != (kind == "gamma"):
        raise UserError(f"--arrivals {text}: expected one {SUCH_AS}")
    try:
        rate, cv = float(match[2] or 1), float(match[3] or 1)
    except ValueError:
        raise UserError(f"--arrivals {text}: expected a number before /s, {SUCH_AS}") from None
    if not LEAST_RATE <= rate <= MOST_RATE or not 0 < cv <= MOST_CV:
        raise UserError(
            f"--arrivals {text}: expected {LEAST_RATE:g} to {MOST_RATE:g} requests per s, and a cv above 0 of at most "
            f"{MOST_CV:g}"
        )
    return Arrivals(kind, rate, cv)


def drawn_ps(arrivals: Arrivals, count: int, seed: int) -> list[int]:
    """Arrival times of so many requests [ps], ascending; the first one is 0."""
    rng = np.random.default_rng([seed, 2])
    if arrivals.kind in ("burst", "closed"):
        return [0] * count
    shape = 1 / arrivals.cv**2
    gaps = np.ones(count - 1)
    if arrivals.kind == "poisson":
        gaps = rng.exponential(1, count - 1)
    elif arrivals.kind == "gamma":
        gaps = rng.gamma(shape, 1 / shape, count - 1)
    at = np.concatenate([[0.0], np.cumsum(gaps)]).tolist()
    per = Fraction(PS_PER_S) / Fraction(arrivals.rate)
    return [round(float(per) * one) for one in at]


def drawn_lengths(text: str, count: int, seed: int) -> tuple[list[int], list[int], str]:
    """Prompts and outputs [tokens] of a data set by name, or all alike as `PROMPT:OUTPUT`; and a note. Raises
    UserError."""
    if match := LENGTHS.fullmatch(text):
        prompt, output = int(match[1]), int(match[2])
        if not 1 <= prompt <= LONGEST or not 1 <= output <= LONGEST:
            raise UserError(f"--lengths {text}: expected 1 to {LONGEST} tokens of each")
        return [prompt] * count, [output] * count, f"prompts of {prompt:,} and outputs of {output:,} tokens"
    if text not in DATA_SETS:
        known = ", ".join(DATA_SETS)
        raise UserError(
            f"--lengths {text}: expected {known} or PROMPT:OUTPUT such as 512:128{nearest(text, DATA_SETS)}"
        )
    rng, found = np.random.default_rng([seed, 3]), DATA_SETS[text]
    prompts, outputs = (draw(lengths, count, rng).tolist() for lengths in (found.prompt, found.output))
    return prompts, outputs, f"lengths drawn to the statistics of {text}, seed {seed}"
