"""Request traces made on the spot: the built-in patterns, with what users write checked."""

import math
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import numpy as np

from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory
from pimloom.arch.name_units import capacity
from pimloom.cycle_sim.memory.patterns import PATTERNS, SPARSE_GAP_CK, WITH_GAPS, Pattern, generate, pattern
from pimloom.cycle_sim.memory.simulate import CHUNK, Chunk

BY_FIELD = ("row-conflict", "mixed", "hazard")  # they choose rows and banks; the others only addresses
LONGEST_CK = 1e15  # of a trace, on average


def parse_count(text: str, what: str = "--requests") -> int:
    """A whole number of at least 1, written as 200000 or 1e6. Raises UserError."""
    try:
        number = Decimal(text.strip())
        if 1 <= number < 2**63 and number == number.to_integral_value():
            return int(number)
    except InvalidOperation:
        pass
    raise UserError(f"{what}: expected a whole number from 1 to 2^63 - 1, such as 200000 or 1e6, got {short(text)}")


def pattern_chunks(
    memory: Memory,
    kind: str,
    requests: int,
    seed: int,
    *,
    gap: float | None = None,
    stride: int | None = None,
    chunk: int = CHUNK,
) -> Iterator[Chunk]:
    """`requests` requests of one of PATTERNS, in chunks of at most `chunk`; all is checked before the first.

    gap: mean clocks between requests [CK]; stride: bytes between requests of `strided`. Raises UserError.
    """
    _check(memory, kind, requests, seed, gap, stride)
    options = {name: value for name, value in (("gap", gap), ("stride", stride)) if value is not None}
    try:
        found = pattern(kind, _address(memory, kind), memory.offset_bits, seed, **options)
    except ValueError as error:
        others = ", ".join(other for other in PATTERNS if other not in BY_FIELD)
        raise UserError(f"--pattern {kind}: in an address of {memory.name}, {error}; choose one of {others}") from None
    return _chunks(found, requests, chunk)


def _chunks(found: Pattern, requests: int, chunk: int) -> Iterator[Chunk]:
    for first in range(0, requests, chunk):
        made = Chunk(*np.zeros((3, min(chunk, requests - first)), np.int64))
        generate(found, *made)
        yield made


def _check(memory: Memory, kind: str, requests: int, seed: int, gap: float | None, stride: int | None) -> None:
    if kind not in PATTERNS:
        raise UserError(f"--pattern {short(kind)}: expected one of {', '.join(PATTERNS)}{nearest(kind, PATTERNS)}")
    if not 1 <= requests < 2**63:
        raise UserError(f"--requests: expected a whole number of at least 1, got {requests}")
    if not 0 <= seed < 2**64:
        raise UserError(f"--seed {seed}: expected a whole number from 0 to 2^64 - 1")
    if gap is not None and not (math.isfinite(gap) and gap >= 0):
        raise UserError(f"--gap: expected a number of clocks of at least 0, got {gap}")
    if kind == "burst" and gap == 0:
        raise UserError("--gap: pattern burst expects more than 0 clocks between its requests, on average")
    gap = SPARSE_GAP_CK if kind in WITH_GAPS and gap is None else gap
    if gap is not None and gap * requests > LONGEST_CK:
        raise UserError(f"--gap: {requests} requests with {gap:g} clocks between them take more than 1e15 clocks")
    if stride is not None and kind != "strided":
        raise UserError(f"--stride: only the pattern strided has one, not {kind}")
    if stride is not None and not 0 < stride < memory.capacity_bytes:
        most = capacity(memory.capacity_bytes)
        raise UserError(f"--stride: expected bytes above 0 and below the capacity of {most}, got {stride}")


def _address(memory: Memory, kind: str) -> tuple[tuple[str, int], ...]:
    """The address as the generator needs it: neighbours of one kind joined, and one field if it asks for no place."""
    if kind not in BY_FIELD:
        return (("row", sum(bits for _, bits in memory.address)),)
    joined: list[tuple[str, int]] = []
    for field, bits in memory.address:
        field = "rank" if field == "pseudo_channel" else field
        if bits and joined and joined[-1][0] == field:
            joined[-1] = field, joined[-1][1] + bits
        elif bits:
            joined.append((field, bits))
    return tuple(joined)
