"""Random numbers as bits, rich in those that are special: zeros, subnormals, infinities, NaN, ties, cancellation."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np

from pimloom.arch.asic import ADDERS

Words: TypeAlias = np.ndarray  # uint32: float32 as bits
Exponents: TypeAlias = Callable[[np.random.Generator, np.ndarray], np.ndarray]  # those of b, given those of a

BF16 = ml_dtypes.bfloat16
TINY = 2.0**-126
SIGN = np.uint32(1 << 31)
# zeros, subnormals, around 2**-126, ones, around the largest, infinities, NaN: both signs
POSITIVE = [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001]
POSITIVE += [0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F7F8000, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF]
EDGES = np.array([word | sign for sign in (0, 1 << 31) for word in POSITIVE], np.uint32)
EDGE_PAIRS = np.stack(np.meshgrid(EDGES, EDGES, indexing="ij"), axis=-1).reshape(-1, 2)
BF16_EDGES = np.unique(EDGES >> 16).astype(np.uint16)

# Exponent fields of b around those at which a sum, or a product, is special.
SUMS: list[Exponents] = [
    lambda rng, e: e,
    lambda rng, e: e - 24,  # half a unit in the last place of a
    lambda rng, e: e + rng.integers(-30, 31, len(e)),
    lambda rng, e: rng.integers(0, 26, len(e)),
]
PRODUCTS: list[Exponents] = [
    lambda rng, e: 127 - e + rng.integers(-2, 3, len(e)),  # around 2**-126
    lambda rng, e: 127 + 254 - e + rng.integers(-2, 3, len(e)),  # around 2**128
    lambda rng, e: rng.integers(0, 256, len(e)),
]


# Pairs of float32.


def pairs(rng: np.random.Generator, n: int, exponents: Sequence[Exponents]) -> tuple[Words, Words]:
    """n operands a and b; at most a quarter of them are pairs of edges."""
    a = np.resize(sweep(rng), n)
    b = partners(rng, a, exponents)
    edges = rng.permutation(EDGE_PAIRS)[: n // 4]
    a[: len(edges)], b[: len(edges)] = edges.T
    return a, b


def sweep(rng: np.random.Generator) -> Words:
    """All upper halves, each with 16 lower ones, some of them around ties of bfloat16; in random order."""
    lower = rng.integers(0, 2**16, (2**16, 16), np.uint32)
    lower[:, :8] = [0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF]
    return rng.permutation((np.arange(2**16, dtype=np.uint32)[:, None] << np.uint32(16) | lower).reshape(-1))


def partners(rng: np.random.Generator, a: Words, exponents: Sequence[Exponents]) -> Words:
    """b for each a: anything, an edge, near -a, -a itself, by `_quotient`, or with one of these exponents."""
    sign, exponent, n = rng.integers(0, 2, len(a)), (a >> 23 & 255).astype(np.int64), len(a)
    b = [rng.integers(0, 2**32, n, np.uint32), rng.choice(EDGES, n), (a ^ SIGN) + _steps(rng, n), a ^ SIGN]
    b += [_quotient(rng, a), *(_fields(sign, e(rng, exponent), _fractions(rng, n)) for e in exponents)]
    return np.choose(rng.integers(0, len(b), n), b)


@np.errstate(all="ignore")
def _quotient(rng: np.random.Generator, a: Words) -> Words:
    """The product is next to 2**-126 or 2**128."""
    target = np.array([TINY, 2.0**128])[rng.integers(0, 2, len(a))]
    return (target / a.view(np.float32)).astype(np.float32).view(np.uint32) + _steps(rng, len(a))


def _steps(rng: np.random.Generator, n: int) -> Words:
    return rng.integers(-4, 5, n).astype(np.uint32)


def _fields(sign: np.ndarray, exponent: np.ndarray, fraction: Words) -> Words:
    return (sign.astype(np.uint32) << 31) | (np.clip(exponent, 0, 255).astype(np.uint32) << 23) | fraction


def _fractions(rng: np.random.Generator, n: int) -> Words:
    """Random ones, and as many with few ones or few zeros."""
    few = np.uint32(1) << rng.integers(0, 23, n, np.uint32)
    choice = rng.integers(0, 6, n)
    return np.choose(
        choice, [few, few ^ 0x7FFFFF, 0 * few, 0 * few + 0x7FFFFF, *rng.integers(0, 2**23, (2, n), np.uint32)]
    )


# Rows and vectors.


def near_each_other(rng: np.random.Generator, rows: int, width: int) -> Words:
    """float32[rows, width] of which much cancels; one row in 20 has an edge."""
    exponent = rng.integers(1, 250, (rows, 1)) + rng.integers(-3, 4, (rows, width))
    x = _fields(rng.integers(0, 2, exponent.shape), exponent, rng.integers(0, 2**23, exponent.shape, np.uint32))
    x[::20, -1] = rng.choice(EDGES, len(x[::20]))
    return x


def small_operands(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    """bfloat16[rows, width] near one, or of any exponent below 2, so that most sums of products are finite; one row in
    16 has an edge."""
    near = rng.normal(size=(rows, width)).astype(BF16).view(np.uint16)
    any_ = rng.integers(0, 2**16, (rows, width), np.uint16) & 0xBFFF
    x = np.where(rng.integers(0, 4, (rows, 1)), near, any_).astype(np.uint16)
    at = rng.integers(0, 16, rows) == 0
    x[at, rng.integers(0, width, at.sum())] = rng.choice(BF16_EDGES, at.sum())
    return x.view(BF16)


_INF, _NAN = np.inf, np.nan
NASTY: list[list[float]] = [[3, -_INF, 3, -_INF], [-_INF] * 4, [_NAN, 0, -_INF], [0, _INF, 1], [_INF, -_INF], [7] * 300]
NASTY += [[-0.0], [_NAN], [1e-40, -1e-40, -0.0], [3e38, 3e38, -3e38], [-3e38] * 3 + [1], [88, -40, -87.5, 0, 88]]


def vectors(rng: np.random.Generator, total: int, longest: int) -> list[np.ndarray]:
    """float32 vectors of 1 to `longest` elements, `total` in all, then those of NASTY that fit into a quarter of it."""
    nasty, room = list[np.ndarray](), total // 4
    for vector in NASTY:
        if len(vector) <= min(room, longest):
            nasty.append(np.array(vector, np.float32))
            room -= len(vector)
    left = total - sum(map(len, nasty))
    return [*(_vector(rng, n) for n in _lengths(rng, left, longest)), *nasty]


def _lengths(rng: np.random.Generator, total: int, longest: int) -> Iterator[int]:
    """As many up to 30 as between 30 and 1000; one in 8 is next to the width of the ASIC's tree, or the longest."""
    while total:
        drawn = longest ** rng.random() if rng.integers(0, 8) else rng.choice([ADDERS - 1, ADDERS, ADDERS + 1, longest])
        n = min(int(drawn), longest, total)
        yield n
        total -= n


def _vector(rng: np.random.Generator, n: int) -> np.ndarray:
    """Near one; of any exponent; or so small that the eps of layernorm tells. One in 8 has an edge."""
    kind = rng.integers(0, 3)
    x = rng.normal(1, 4, n) if kind == 0 else rng.normal(0, 3e-3, n)
    if kind == 1:
        x = rng.normal(0, 1, n) * 2.0 ** rng.integers(-140, 127, n)
    x = x.astype(np.float32)
    if not rng.integers(0, 8):
        x[rng.integers(0, n)] = rng.choice(EDGES).view(np.float32)
    return x
