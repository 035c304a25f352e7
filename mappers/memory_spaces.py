"""Duplex's four memory spaces: what lies in which, who may use them at once, and what a prompt's move costs.

A space is one bundle (rank, half of its banks) of every pseudo channel (Yun et al., MICRO 2024, on memory spaces).
Experts are dealt to the spaces in turn; keys and values alternate over three of them; the fourth takes Q, K and V of
requests in prefill, and afterwards the xPU copies K and V once into the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from pimloom.arch.error import UserError

SPACES = 4  # [paper] two ranks x two halves
KV_SPACES = (0, 1, 2)  # [paper] three of them; which is our choice [design]
PREFILL_SPACE = 3


class Use(NamedTuple):
    """A processor works on a space from `start` to `end`, in any one unit."""

    processor: str
    space: int
    start: float
    end: float


class Conflict(NamedTuple):
    """Two processors in one space at once: the one that is earlier in the list, and the other."""

    first: Use
    second: Use

    def __str__(self) -> str:
        a, b = self
        return f"{a.processor} and {b.processor} both use memory space {a.space} from {max(a.start, b.start):g} on"


def conflicts(uses: Sequence[Use]) -> list[Conflict]:
    """All pairs of uses in which different processors are in one space at once; one that ends as another begins is
    none. Raises UserError for a space that is not there."""
    for use in uses:
        if not 0 <= use.space < SPACES:
            raise UserError(f"memory space {use.space}: expected 0 to {SPACES - 1}")
    return [
        Conflict(a, b)
        for a, b in combinations(uses, 2)
        if a.space == b.space and a.processor != b.processor and max(a.start, b.start) < min(a.end, b.end)
    ]


def split_conflicts(experts: Sequence[int], on_xpu: Iterable[int]) -> list[int]:
    """Spaces in which co-processing has experts of both processors; experts: the space of each."""
    there = set(on_xpu)
    sides = {side: {space for i, space in enumerate(experts) if (i in there) is side} for side in (True, False)}
    return sorted(sides[True] & sides[False])


@dataclass(frozen=True)
class Spaces:
    """Where the data of a device lie, and what is used of each space [bytes].

    experts: the space of each; kv: of each request's keys and values; prefill: of each prompt under way.
    """

    experts: tuple[int, ...]
    kv: tuple[int, ...]
    prefill: tuple[int, ...]
    used_bytes: tuple[int, ...]


def place(
    experts: Sequence[int], expert_bytes: int, kv_bytes: Sequence[int], prompt_bytes: Sequence[int], space_bytes: int,
    others_bytes: int = 0,
) -> Spaces:  # fmt: skip
    """Place experts, each in its space, the keys and values of requests, and Q, K and V of prompts; other weights lie
    anywhere.

    Of the KV spaces a request takes the next in turn that has room. Raises UserError if a space, or all together, are
    too small.
    """
    used = [0] * SPACES
    for space in experts:
        used[space] += expert_bytes
    used[PREFILL_SPACE] += sum(prompt_bytes)
    _check_room(used, space_bytes)
    where_kv = []
    for number, size in enumerate(kv_bytes):
        turn = [KV_SPACES[(number + i) % len(KV_SPACES)] for i in range(len(KV_SPACES))]
        roomy = [s for s in turn if used[s] + size <= space_bytes]
        if not roomy:
            raise UserError(f"keys and values of request {number}: no memory space has {size:,} bytes left")
        used[roomy[0]] += size
        where_kv.append(roomy[0])
    if sum(used) + others_bytes > SPACES * space_bytes:
        left = SPACES * space_bytes - sum(used)
        raise UserError(f"other weights of {others_bytes:,} bytes: {left:,} are left in the memory spaces")
    return Spaces(tuple(experts), tuple(where_kv), (PREFILL_SPACE,) * len(prompt_bytes), tuple(used))


def _check_room(used: Sequence[int], space_bytes: int) -> None:
    for space, size in enumerate(used):
        if size > space_bytes:
            raise UserError(f"memory space {space}: {size:,} bytes of experts and prompts, it has {space_bytes:,}")
