"""Errors of interpolated prices, measured on a sample of iterations of each kind of phase, which are simulated."""

from collections.abc import Mapping, Sequence
from math import inf, log, log1p, log2, sqrt
from random import Random
from typing import NamedTuple

import msgspec

from pimloom.systems.serving.pricing.costs import Cost, Piece
from pimloom.systems.serving.schedulers.live import NEVER

DECODE, PROMPT, MIXED, VERIFY = "decode", "prompt", "mixed", "verify"
KINDS = (DECODE, PROMPT, MIXED, VERIFY)  # the first three in the order of `kernels.fields`


class KindError(msgspec.Struct, frozen=True):
    """Errors of one kind of phase. iterations: how many; time_share: of the time of all iterations; exact: each was
    simulated; sampled: how many measure the error. error, energy_error: mean error of their time and energy;
    error_bound, energy_error_bound: 95 % bounds of these (Student's t); single_bound: 95 % bound of the time of one
    iteration. All are shares; None if nothing was sampled."""

    iterations: int
    time_share: float
    exact: bool
    sampled: int
    error: float | None
    error_bound: float | None
    single_bound: float | None
    energy_error: float | None
    energy_error_bound: float | None


class Pricing(msgspec.Struct, frozen=True):
    """How the iterations of a run were priced. exact: every different iteration was simulated; simulated: how many
    were, sampled ones included; sampled: how many measure errors; limit: `--price-error`; holds: the error bounds of
    all kinds are within it. error, energy_error: of the time and the energy of all iterations; bounds: by which share
    results may differ from those of an exact run, by name (`time_s`, `latency_s.p50`); error_bound: the largest of
    them; kinds: errors by kind of phase. Errors are shares; None if nothing was sampled."""

    exact: bool
    simulated: int
    sampled: int
    limit: float
    holds: bool | None
    error: float | None
    energy_error: float | None
    error_bound: float | None
    bounds: dict[str, float] | None
    kinds: dict[str, KindError]


def kind_of(pieces: Sequence[Piece]) -> str:
    """The kind of phase of an iteration.

    >>> kind_of([Piece(8, 0, 1)]), kind_of([Piece(1, 7, 1)]), kind_of([Piece(1, 7, 1), Piece(8, 0, 1)])
    ('prompt', 'decode', 'mixed')
    """
    checks = any(one.verify for one in pieces)
    decodes = sum(one.verify or (one.new == 1 and one.cached > 0) for one in pieces)
    if decodes < len(pieces):
        return MIXED if decodes else PROMPT
    return VERIFY if checks else DECODE


class Stratum:
    """A uniform random sample of `size` iterations of a kind [Li, Reservoir-sampling algorithms, ACM TOMS 1994]. seen:
    how many there were; time_ps: of all of them; following: the number of the next one that is kept."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random, self.seen, self.time_ps = size, Random(seed), 0, 0.0
        self.kept = list[tuple[Piece, ...]]()
        self.following, self._least = 1 if size else NEVER, 1.0

    def takes(self, ps: float) -> bool:
        """Count one more iteration of `ps`; returns whether to keep it."""
        self.seen += 1
        self.time_ps += ps
        return self.seen == self.following

    def keep(self, pieces: Sequence[Piece]) -> None:
        """Keep an iteration; if the sample is full, it replaces a random one."""
        if len(self.kept) < self.size:
            self.kept.append(tuple(pieces))
        else:
            self.kept[self.random.randrange(self.size)] = tuple(pieces)
        self.following = self.seen + 1
        if len(self.kept) == self.size:
            self._least *= (1.0 - self.random.random()) ** (1 / self.size)
            if self._least < 1.0:
                self.following += int(log(1.0 - self.random.random()) / log1p(-self._least))


class Sample:
    """A stratum for each kind of phase. sizes: by kind."""

    def __init__(self, sizes: Mapping[str, int], seed: int) -> None:
        self.strata = {kind: Stratum(sizes[kind], seed + i) for i, kind in enumerate(KINDS)}

    def see(self, pieces: Sequence[Piece], ps: float) -> None:
        """Count one more iteration of `ps`, and keep it if the sample takes it."""
        kind = self.strata[kind_of(pieces)]
        if kind.takes(ps):
            kind.keep(pieces)


class Errors(NamedTuple):
    """Errors of sampled iterations of a kind: (price / simulated) - 1. times; joules: of energies, empty without
    energy; watts: mean simulated power [J/ps]; weights: how many iterations each sampled one stands for."""

    times: list[float]
    joules: list[float]
    watts: float
    weights: list[float]


def errors_of(priced: Sequence[Cost], simulated: Sequence[Cost], first_energy: int, weights: Sequence[float]) -> Errors:
    """The errors of prices against simulated costs, in the same order. first_energy: index of the first energy."""
    times = [a[0] / b[0] - 1 for a, b in zip(priced, simulated, strict=True)]
    pairs = [(sum(a[first_energy:]), sum(b[first_energy:])) for a, b in zip(priced, simulated, strict=True)]
    joules = [a / b - 1 for a, b in pairs if b]
    return Errors(times, joules, sum(b for _, b in pairs) / (sum(b[0] for b in simulated) or 1.0), list(weights))


def where(pieces: Sequence[Piece]) -> list[float]:
    """Coordinates of an iteration, each as log2(1 + n): requests that decode, their mean and longest context; prompts,
    their new tokens in total and of the longest, and the mean number of tokens that these attend to; draft tokens."""
    decode = [one.cached + one.new for one in pieces if one.verify or (one.new == 1 and one.cached)]
    prompts = [one for one in pieces if not (one.verify or (one.new == 1 and one.cached))]
    rows = sum(one.new for one in prompts)
    pairs = sum(one.new * one.cached + one.new * (one.new + 1) // 2 for one in prompts)
    values = (
        len(decode), sum(decode) / max(len(decode), 1), max(decode, default=0), len(prompts), rows,
        max((one.new for one in prompts), default=0), pairs / max(rows, 1),
        sum(one.new for one in pieces if one.verify),
    )  # fmt: skip
    return [log2(1 + value) for value in values]


def squared(one: Sequence[float], other: Sequence[float]) -> float:
    """The squared distance of two places."""
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def spread_out(kept: Sequence[Sequence[Piece]], few: int) -> tuple[list[Sequence[Piece]], list[float]]:
    """Choose at most `few` iterations: in turn the next random one, and the one farthest from all chosen so far, so
    that rare ones are included. Returns them, and how many iterations each stands for."""
    places = [where(pieces) for pieces in kept]
    nearest, chosen = [inf] * len(kept), list[int]()
    of = [0] * len(kept)
    while len(chosen) < min(few, len(kept)):
        far = max(range(len(kept)), key=nearest.__getitem__)
        if len(chosen) % 2 == 0:
            far = next((i for i, apart in enumerate(nearest) if apart), far)
        if not nearest[far]:
            break
        for i, place in enumerate(places):
            if (apart := squared(place, places[far])) < nearest[i]:
                nearest[i], of[i] = apart, len(chosen)
        chosen.append(far)
    weights = [0.0] * len(chosen)
    for i in of:
        weights[i] += 1.0
    return [kept[i] for i in chosen], weights


class Estimate(NamedTuple):
    """The weighted mean of sampled errors, and 95 % bounds of the mean of all iterations and of a single one."""

    mean: float
    bound: float
    single: float


def estimate(errors: Sequence[float], weights: Sequence[float], seen: int) -> Estimate:
    """The estimate by Student's t. With one error its size is taken as the spread. seen: size of the population.

    >>> estimate([0.01, 0.01], [1.0, 1.0], 2), estimate([], [], 0)
    (Estimate(mean=0.01, bound=0.01, single=0.01), Estimate(mean=0.0, bound=0.0, single=0.0))
    """
    n = len(errors)
    if not n:
        return Estimate(0.0, 0.0, 0.0)
    mean = sum(one * weight for one, weight in zip(errors, weights, strict=True)) / sum(weights)
    largest = max(map(abs, errors))
    if n >= seen:
        return Estimate(mean, abs(mean), largest)
    spread = sqrt(sum((one - mean) ** 2 for one in errors) / (n - 1)) if n > 1 else abs(mean)
    quantile = t95(max(n - 1, 1)) * spread
    single = max(abs(mean) + quantile * sqrt(1 + 1 / n), largest)
    return Estimate(mean, abs(mean) + quantile / sqrt(n), single)


def t95(freedom: int) -> float:
    """Two-sided 95 % quantile of Student's t distribution.

    >>> [round(t95(n), 2) for n in (1, 2, 7, 1000)]
    [12.71, 4.3, 2.36, 1.96]
    """
    from scipy.special import stdtrit  # scipy is slow to import

    return float(stdtrit(freedom, 0.975))
