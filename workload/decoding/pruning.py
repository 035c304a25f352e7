"""Branches of a request that are given up early, by what they are worth so far (SART's two phases)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Pruned(NamedTuple):
    """steps: until enough have ended, or none goes on; tokens: of all branches; ended, given_up: branches, in order;
    each: tokens of every branch."""

    steps: int
    tokens: int
    ended: tuple[int, ...]
    given_up: tuple[int, ...]
    each: tuple[int, ...]


class Rules(NamedTuple):
    """stop: branches that must end; below: worth under which one is given up before the first has ended; most: how
    many at most then; every: tokens between two looks."""

    stop: int
    below: float
    most: int
    every: int


def pruned(lengths: Sequence[int], worth: np.ndarray, rules: Rules) -> Pruned:
    """worth: float of each branch at each look, the first look at its beginning. Once a branch has ended its worth is
    what the others must have."""
    live, ended, given_up, each, step = list(range(len(lengths))), list[int](), list[int](), [0] * len(lengths), 0
    below, most = rules.below, rules.most
    while live and len(ended) < rules.stop:
        look = (step // rules.every + 1) * rules.every
        step = min([look, *(lengths[branch] for branch in live if lengths[branch] > step)])  # nothing happens before
        for branch in live:
            each[branch] = step
        for branch in [b for b in live if lengths[b] == step]:
            live.remove(branch)
            ended.append(branch)
            if len(ended) == 1:
                below, most = float(worth[branch, _look(step - 1, worth, rules)]), len(lengths)
        if step % rules.every == 0 and len(ended) < rules.stop:
            look = _look(step, worth, rules)
            for branch in sorted(live, key=lambda b: worth[b, look]):
                if worth[branch, look] < below and len(given_up) < most:
                    live.remove(branch)
                    given_up.append(branch)
    return Pruned(step, sum(each), tuple(ended), tuple(given_up), tuple(each))


def _look(step: int, worth: np.ndarray, rules: Rules) -> int:
    return min(step // rules.every, worth.shape[1] - 1)


def walks(branches: int, looks: int, start: float, spread: float, seed: int) -> np.ndarray:
    """Worth that walks at random from `start`, kept within 0 and 1: synthetic."""
    steps = np.random.default_rng([seed, 7]).normal(0.0, spread, (branches, looks))
    return np.clip(start + np.cumsum(steps, axis=1), 0.0, 1.0)
