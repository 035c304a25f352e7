"""A training step as the specification's section 3.7 writes it, term by term, and experts in plain words."""

from itertools import product
from typing import NamedTuple

LLAMA = {"layers": 126, "h": 16384, "ffn": 53248, "heads": 128, "kv": 8, "vocabulary": 128256}
PEAK, EFF, S, DCN, LIMIT = 989e12, 0.65, 8192, 50e9, 0.92 * 80 * 2**30


class Shape(NamedTuple):
    layers: int
    h: int
    ffn: int
    heads: int
    kv: int
    vocabulary: int


def step(of: Shape, n: int, tp: int, pp: int, gb: int, hbd: float, b: int = 1, padded: int | None = None):
    """(memory [bytes], step [s], MFU); None where GB / (DP b) is no integer from 1."""
    if n % (tp * pp):
        return None
    dp = n // (tp * pp)
    m = gb / (dp * b)
    if m < 1 or m != int(m):
        return None
    padded = padded or of.layers
    p_layer = 2 * of.h**2 + 2 * of.h**2 * of.kv / of.heads + 3 * of.h * of.ffn
    p = of.layers * p_layer + 2 * of.vocabulary * of.h
    f_seq = 3 * (2 * p * S - 2 * of.vocabulary * of.h * S + of.layers * 4 * S**2 * of.h / 2)
    ls, pm = padded / pp, p / (tp * pp)
    memory = pm * 6 + pm * 12 / dp + 34 * S * b * of.h * ls / tp * min(m, pp) * 0.2
    t = f_seq / padded * ls * b / (tp * PEAK * EFF)
    t += 4 * 2 * (tp - 1) / tp * S * b * of.h * 2 / hbd * ls
    t += 2 * S * b * of.h * 2 / tp / DCN
    whole = (m + pp - 1) * t + 2 * (dp - 1) / dp * pm * 4 / DCN
    return memory, whole, f_seq * gb / (whole * n * PEAK)


def best_mfu(n: int, hbd: float, sizes=(8, 16, 32, 64), gb: int = 2048) -> float:
    """The maximum over the specification's loop, for Llama 3.1 405B."""
    found = []
    for tp, pp in product(sizes, (1, 2, 4, 8, 16, 32, 64, 128)):
        done = step(Shape(**LLAMA), n, tp, pp, gb, hbd, padded=128)
        if done and done[0] <= LIMIT:
            found.append(done[2])
    return max(found)
