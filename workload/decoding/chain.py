"""Speculation by a chain: a draft proposes tokens, the target checks them in one pass and adds one of its own."""

from collections.abc import Sequence
from math import sqrt
from random import Random


def accepted_shares(alpha: Sequence[float]) -> list[float]:
    """Probability that exactly 0, 1, … of the proposed tokens are accepted; alpha: of each place, if all before it are.

    >>> accepted_shares([0.5, 0.5])
    [0.5, 0.25, 0.25]
    """
    found, reached = list[float](), 1.0
    for right in alpha:
        found.append(reached * (1 - right))
        reached *= right
    return [*found, reached]


def tokens_per_step(alpha: Sequence[float]) -> float:
    """Mean of the tokens of a step: those accepted, and one.

    >>> tokens_per_step([0.5, 0.5])
    1.75
    """
    return 1 + sum(k * share for k, share in enumerate(accepted_shares(alpha)))


def tokens_per_step_std(alpha: Sequence[float]) -> float:
    """Their standard deviation."""
    mean = tokens_per_step(alpha)
    return sqrt(sum((k + 1 - mean) ** 2 * share for k, share in enumerate(accepted_shares(alpha))))


def accepted(random: Random, alpha: Sequence[float]) -> int:
    """Draw how many are accepted."""
    for k, right in enumerate(alpha):
        if random.random() >= right:
            return k
    return len(alpha)


def speed_up(alpha: Sequence[float], draft_share: float) -> float:
    """Of one request on a target whose pass takes as long whatever its rows; draft_share: time of a pass of the draft
    by that."""
    return tokens_per_step(alpha) / (len(alpha) * draft_share + 1)
