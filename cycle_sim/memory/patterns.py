"""Built-in request patterns: splitmix64 numbers, so that a seed means the same trace everywhere.

sequential: addresses in order. random: uniform. row-conflict: each request another row of one bank. mixed: runs of
accesses, geometric with mean 8, in 64 hot pages and new ones; a third are writes, decided by the address. strided:
every STRIDE bytes. sparse: random, with exponential gaps of mean 100 clocks. random-rw: random, a third writes. hazard:
few addresses, half of them written. burst: 16 random requests at once, a quarter writes, then a pause of 16 gaps.
"""

import math
from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry

UNDRAWN = ("sequential", "strided", "row-conflict")  # of which only gaps are random
PATTERNS = ("sequential", "random", "row-conflict", "mixed", "strided", "sparse", "random-rw", "hazard", "burst")
SEQUENTIAL, RANDOM, ROW_CONFLICT, MIXED, STRIDED, SPARSE, RANDOM_RW, HAZARD, BURST = range(len(PATTERNS))
HOT = 64  # pages
REUSE = 0.7
STAY = 0.875  # a run goes on
SPARSE_GAP_CK = 100.0
WITH_GAPS = ("sparse", "burst")  # patterns that pause unless they are told how long
# state[…]: random state, request number, run, column, pages known, current page
SEED, NUMBER, RUN, COLUMN, N_PAGES, PAGE = range(6)
GROUP, BANK, RANK, CHANNEL, ROW = range(5)  # page[p, …], and field[…]; field[5] is the column


class Pattern(NamedTuple):
    """State of a generator: one to a trace. field[f] = (bit, width) in the address; time[0]: clock of the next one."""

    kind: int
    offset_bits: int
    gap: float
    stride: int
    field: np.ndarray
    state: np.ndarray
    page: np.ndarray
    time: np.ndarray


@bare
def _next(state):
    state[SEED] += np.uint64(0x9E3779B97F4A7C15)
    z = state[SEED]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@bare
def _below(state, bits):
    """A number of `bits` bits: the top ones of the next."""
    z = _next(state)
    return np.int64(z >> np.uint64(64 - bits)) if bits > 0 else np.int64(0)


@bare
def _below_3(state):
    """floor(next × 3 / 2^64)."""
    z, low = _next(state), np.uint64(0xFFFFFFFF)
    return np.int64(
        ((z >> np.uint64(32)) * np.uint64(3) + (((z & low) * np.uint64(3)) >> np.uint64(32))) >> np.uint64(32)
    )


@bare
def _unit(state):
    return np.float64(_next(state) >> np.uint64(11)) / 9007199254740992.0


@bare
def _third(address):
    """Whether the address's product with 2^64 / golden ratio, without its low 32 bits, is divisible by 3."""
    a, low = np.uint64(address), np.uint64(0xFFFFFFFF)
    m = np.uint64(0x9E3779B97F4A7C15)
    a0, a1, m0, m1 = a & low, a >> np.uint64(32), m & low, m >> np.uint64(32)
    # 2^32 = 1 (mod 3): the digits' sum decides
    first = a0 * m0
    second = (first >> np.uint64(32)) + ((a0 * m1) & low) + ((a1 * m0) & low)
    rest = (
        a1 * m1 % np.uint64(3)
        + ((a0 * m1) >> np.uint64(32)) % np.uint64(3)
        + ((a1 * m0) >> np.uint64(32)) % np.uint64(3)
    )
    return (second % np.uint64(3) + rest) % np.uint64(3) == 0


@bare
def _place(p, f, value):
    return (value & ((1 << p.field[f, 1]) - 1)) << p.field[f, 0]


@bare
def _mixed(p):
    state, page, known = p.state, p.page, np.int64(p.state[N_PAGES])
    if state[RUN] == 0:
        if known == HOT and _unit(state) < REUSE:
            at = _below(state, 6)
            for f in range(5):
                page[HOT, f] = page[at, f]
        else:
            for f in range(5):
                page[HOT, f] = _below(state, p.field[f, 1])
            if known < HOT:
                at = known
                state[N_PAGES] += np.uint64(1)
            else:
                at = _below(state, 6)
            for f in range(5):
                page[at, f] = page[HOT, f]
        state[COLUMN] = np.uint64(_below(state, p.field[5, 1]))
        state[RUN] = np.uint64(1 + np.int64(math.log(1.0 - _unit(state)) / math.log(STAY)))
    address = _place(p, 5, np.int64(state[COLUMN]))
    for f in range(5):
        address |= _place(p, f, page[HOT, f])
    state[COLUMN] += np.uint64(1)
    state[RUN] -= np.uint64(1)
    return address


@entry
def generate(p, address, write, when):
    """Fill the arrays with the next requests."""
    state = p.state
    bits = np.int64(0)
    for f in range(6):
        bits += p.field[f, 1]
    for i in range(address.shape[0]):
        number, is_write = np.int64(state[NUMBER]), False
        if p.kind == SEQUENTIAL:
            a = (number & ((1 << bits) - 1)) << p.offset_bits
        elif p.kind == STRIDED:
            a = number * p.stride & ((1 << bits + p.offset_bits) - 1)
        elif p.kind == ROW_CONFLICT:
            a = _place(p, ROW, number) | _place(p, 5, 5 * number)
        elif p.kind == MIXED:
            a = _mixed(p)
            is_write = _third(a)
        elif p.kind == HAZARD:
            row = _below_3(state)
            a = _place(p, ROW, row) | _place(p, BANK, _below(state, 1))
            a |= _place(p, 5, _below(state, 2))
            is_write = _below(state, 1) == 0
        else:
            if p.kind == BURST and number > 0 and number % 16 == 0:
                p.time[0] += 16 * p.gap
            a = _below(state, bits) << p.offset_bits
            if p.kind == RANDOM_RW:
                is_write = _below_3(state) == 0
            elif p.kind == BURST:
                is_write = _below(state, 2) == 0
        if p.gap > 0 and p.kind != BURST:
            p.time[0] += -math.log(1.0 - _unit(state)) * p.gap
        address[i], write[i], when[i] = a, is_write, np.int64(p.time[0])
        state[NUMBER] += np.uint64(1)


def pattern(kind: str, address: tuple[tuple[str, int], ...], offset_bits: int, seed: int, **options: float) -> Pattern:
    """A generator of one of PATTERNS; address as in `Memory`. options: gap (mean clocks between requests), stride."""
    names = ("bank_group", "bank", "rank", "channel", "row", "column")
    field, bit = np.zeros((6, 2), np.int64), offset_bits
    for name, bits in address:
        where = names.index("rank" if name == "pseudo_channel" else name)
        if bits:
            if field[where, 1]:
                raise ValueError(f"{name} comes in pieces")
            field[where] = bit, bits
        bit += bits
    state = np.zeros(6, np.uint64)
    state[SEED] = seed
    gap = float(options.get("gap", SPARSE_GAP_CK if kind in WITH_GAPS else 0.0))
    stride = int(options.get("stride", 1 << offset_bits))
    return Pattern(
        PATTERNS.index(kind), offset_bits, gap, stride, field, state, np.zeros((HOT + 1, 5), np.int64), np.zeros(1)
    )
