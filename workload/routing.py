"""How many tokens a router sends to each expert."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError

if TYPE_CHECKING:
    from random import Random

SHORT, FEW = 21, 5  # experts, and draws of them, that `random.sample` draws from a list of those left


@dataclass(frozen=True)
class Routing:
    """Shares of the experts, the busiest first unless counted.

    All alike if nothing is given; `zipf`: the share of the expert of rank r is 1 / r^zipf; `counts`: tokens of each
    expert, as a trace has them.
    """

    zipf: float = 0.0
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.zipf <= 16:
            raise UserError(f"a Zipf exponent of {self.zipf}: expected 0 to 16")
        if self.counts and (min(self.counts) < 0 or not any(self.counts)):
            raise UserError("counts of experts: expected whole numbers from 0, and one above it")

    def shares(self, experts: int) -> list[float]:
        """Weights of the experts, not normalised. Raises UserError if there are not as many counts."""
        if self.counts and len(self.counts) != experts:
            raise UserError(f"counts of {len(self.counts)} experts: expected {experts}")
        return [float(n) for n in self.counts] or [(i + 1) ** -self.zipf for i in range(experts)]


UNIFORM = Routing()


def even(rows: int, parts: int) -> tuple[int, ...]:
    """Rows of each part, as even as can be, the first ones the more.

    >>> even(7, 3)
    (3, 2, 2)
    """
    return tuple(rows // parts + (i < rows % parts) for i in range(parts))


def dealt(rows: int, each: int, experts: int, routing: Routing = UNIFORM) -> tuple[int, ...]:
    """Tokens of each expert, where `rows` tokens go to `each` different ones: no expert takes more than `rows`.

    Counts that are just those of `rows` tokens come back as they are; else shares are rounded to the largest
    remainders.

    >>> dealt(4, 2, 3), dealt(4, 2, 3, Routing(zipf=1)), dealt(2, 1, 3, Routing(counts=(0, 5, 5)))
    ((3, 3, 2), (4, 2, 2), (0, 1, 1))
    """
    if routing == UNIFORM:
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


def drawn(rows: int, each: int, experts: int, random: "Random", routing: Routing = UNIFORM) -> tuple[int, ...]:
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
    if routing == UNIFORM:
        return tuple(_alike(rows, each, experts, random))
    found = [0] * experts
    for _ in range(rows):
        keys = sorted(((log(1 - random.random()) / share, i) for i, share in shares), reverse=True)
        for _, i in keys[:each]:
            found[i] += 1
    return tuple(found)


def _alike(rows: int, each: int, experts: int, random: "Random") -> list[int]:
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
