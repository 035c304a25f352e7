"""Tokens that a router sends to each expert: in the mean, drawn, or distributed as evenly as possible."""

from collections.abc import Sequence
from functools import lru_cache
from math import expm1, fsum, log, log1p
from random import Random
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.routing import EVEN, UNIFORM, Routing

SHORT, FEW = 21, 5  # experts, and draws of them, that `random.sample` draws from a list of those left
STEP, EARLY, LATE = 0.3, 1e-11, 40.0  # [design] of the integral over the logarithm of time, and its ends in 1 / share
TRIES = 1000  # [design] draws among which one with a given number of busy experts is looked for


class Expectation(NamedTuple):
    """The mean over all draws of a routing, for a closed form, which does not draw."""

    of: Routing


Chosen = Routing | Expectation


def expected(routing: Routing) -> Chosen:
    """A routing for a closed form: the mean of its draws, or the routing itself if it does not draw."""
    return Expectation(routing) if routing.drawn else routing


@lru_cache(maxsize=256)
def chances(each: int, experts: int, routing: Routing) -> tuple[float, ...]:
    """For each expert, the probability that a token takes it; the sum is `each`, the experts that a token takes.

    A token draws without replacement, by shares. Equivalent: experts arrive at exponential times with their shares as
    rates, and the first `each` are taken (Efraimidis and Spirakis 2006). For `each` > 1 the probability is an integral
    over the time of arrival. Raises UserError if fewer than `each` experts have a share.

    >>> chances(2, 8, Routing())[0], [round(p, 6) for p in chances(2, 3, Routing(counts=(2, 1, 1)))]
    (0.25, [0.833333, 0.583333, 0.583333])
    """
    import numpy as np  # commands that list or explain do without

    shares = np.array(routing.shares(experts))
    if (some := int((shares > 0).sum())) < each:
        raise UserError(f"{some} experts that tokens go to: expected at least {each}, as many as a token takes")
    if routing.uniform or each == some:
        return tuple(float(each) / some if share else 0.0 for share in shares)
    if each == 1:
        return tuple((shares / shares.sum()).tolist())
    last = np.sort(shares)[-each]  # the trapezoid rule converges exponentially here
    at = np.exp(np.arange(log(EARLY / shares.max()), log(LATE / last), STEP))[:, None]  # times of arrival
    there = -np.expm1(-at * shares)  # [time, expert]: whether it has arrived
    fewer = np.zeros((len(at), experts, each))  # [time, expert, n]: n of the others have
    fewer[:, :, 0] = 1.0
    for other in range(experts):
        p = there[:, other, None, None]
        moved = fewer * (1 - p)
        moved[:, :, 1:] += fewer[:, :, :-1] * p
        moved[:, other] = fewer[:, other]
        fewer = moved
    found = (shares * at * np.exp(-at * shares) * fewer.sum(axis=2)).sum(axis=0)
    return tuple((found * each / found.sum()).tolist())


def busy_chances(rows: int, each: int, experts: int, routing: Routing) -> list[float]:
    """For each expert, the probability that at least one of `rows` independent tokens takes it: 1 - (1 - p)^rows.

    >>> fsum(busy_chances(4, 2, 8, Routing()))  # 8 (1 - (1 - 2 / 8)^4)
    5.46875
    """
    return [p if rows == 1 or p >= 1 else -expm1(rows * log1p(-p)) for p in chances(each, experts, routing)]


def tokens_of(rows: int, each: int, experts: int, routing: Routing) -> tuple[int, ...]:
    """Tokens of each expert in one simulated layer that stands for all equal layers.

    A seeded draw whose number of busy experts is the mean of all draws, rounded up or down at random, so that the mean
    over seeds is exact. Without draws: as `dealt`.

    >>> [sum(n > 0 for n in tokens_of(4, 2, 8, Routing(seed=seed))) for seed in range(8)]
    [6, 6, 6, 5, 5, 6, 5, 6]
    """
    return _drawn_once(rows, each, experts, routing) if routing.drawn else dealt(rows, each, experts, routing)


@lru_cache(maxsize=4096)
def _drawn_once(rows: int, each: int, experts: int, routing: Routing) -> tuple[int, ...]:
    random = Random(f"{routing.seed} {rows} {each} {experts}")
    busy = int(fsum(busy_chances(rows, each, experts, routing)) + random.random())
    found = drawn(rows, each, experts, random, routing)
    for _ in range(TRIES):
        if sum(n > 0 for n in found) == busy:
            break
        found = drawn(rows, each, experts, random, routing)
    return found


def even(rows: int, parts: int) -> tuple[int, ...]:
    """Rows of each part, as equal as possible; the first parts have one more.

    >>> even(7, 3)
    (3, 2, 2)
    """
    return tuple(rows // parts + (i < rows % parts) for i in range(parts))


def dealt(rows: int, each: int, experts: int, routing: Routing = EVEN) -> tuple[int, ...]:
    """Tokens of each expert, where `rows` tokens go to `each` different ones: no expert takes more than `rows`.

    Counts that are just those of `rows` tokens come back as they are; else shares are rounded to the largest
    remainders.

    >>> dealt(4, 2, 3), dealt(4, 2, 3, Routing(zipf=1)), dealt(2, 1, 3, Routing(counts=(0, 5, 5)))
    ((3, 3, 2), (4, 2, 2), (0, 1, 1))
    """
    if routing.uniform:
        return even(rows * each, experts)
    shares, left = routing.shares(experts), rows * each
    if routing.counts and sum(routing.counts) == left and max(routing.counts) <= rows:
        return routing.counts
    found, open_ = [0] * experts, list(range(experts))
    while open_:  # experts that are full hand on what they cannot take
        total = sum(shares[i] for i in open_)
        wanted = {i: left * shares[i] / total if total else left / len(open_) for i in open_}
        full = [i for i in open_ if wanted[i] > rows]
        if not full:
            return _rounded(found, wanted, left, rows)
        for i in full:
            found[i], left = rows, left - rows
        open_ = [i for i in open_ if i not in full]
    return tuple(found)


def _rounded(found: Sequence[int], wanted: dict[int, float], left: int, most: int) -> tuple[int, ...]:
    """Whole numbers that add up to `left`: the largest remainders are rounded up."""
    whole = list(found)
    for i, share in wanted.items():
        whole[i] = min(int(share), most)
    missing = left - sum(whole[i] for i in wanted)
    for i in sorted(wanted, key=lambda i: (int(wanted[i]) - wanted[i], i)):
        if missing and whole[i] < most:
            whole[i], missing = whole[i] + 1, missing - 1
    return tuple(whole)


def drawn(rows: int, each: int, experts: int, random: Random, routing: Routing = UNIFORM) -> tuple[int, ...]:
    """Tokens of each expert, where each of `rows` tokens draws `each` different ones by their shares.

    A draw without replacement (Efraimidis and Spirakis 2006): the largest of log(u) / share, u uniform. Raises
    UserError if fewer experts have a share.

    >>> from random import Random
    >>> drawn(4, 2, 3, Random(0)), drawn(4, 1, 3, Random(0), Routing(counts=(0, 0, 1)))
    ((1, 4, 3), (0, 0, 4))
    """
    shares = [(i, share) for i, share in enumerate(routing.shares(experts)) if share]
    if len(shares) < each:
        raise UserError(f"{len(shares)} experts that tokens go to: expected at least {each}, as many as a token takes")
    if routing.uniform:
        return tuple(_alike(rows, each, experts, random))
    found = [0] * experts
    for _ in range(rows):
        keys = sorted(((log(1 - random.random()) / share, i) for i, share in shares), reverse=True)
        for _, i in keys[:each]:
            found[i] += 1
    return tuple(found)


def _alike(rows: int, each: int, experts: int, random: Random) -> list[int]:
    """The same with equal shares: the draws of `random.sample`, of few experts in a quarter of its time."""
    found, draw = [0] * experts, random.getrandbits
    if experts > SHORT or each > FEW:
        for _ in range(rows):
            for i in random.sample(range(experts), each):
                found[i] += 1
        return found
    left = [(n, n.bit_length()) for n in range(experts, experts - each, -1)]
    for _ in range(rows):
        there = list(range(experts))
        for n, bits in left:
            at = draw(bits)
            while at >= n:
                at = draw(bits)
            found[there[at]] += 1
            there[at] = there[n - 1]
    return found
