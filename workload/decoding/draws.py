"""Draws that depend on the request and the token alone, so that every scheduler and every machine sees the same."""

from functools import lru_cache

MASK = (1 << 64) - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # [recalled] SplitMix64, public domain


def _mixed(state: int) -> int:
    state = (state + STEP) & MASK
    state = ((state ^ (state >> 30)) * FIRST) & MASK
    state = ((state ^ (state >> 27)) * SECOND) & MASK
    return state ^ (state >> 31)


def uniform(seed: int, request: int, token: int) -> float:
    """In [0, 1), of a token of a request.

    >>> uniform(0, 3, 7) == uniform(0, 3, 7), uniform(0, 3, 7) == uniform(1, 3, 7)
    (True, False)
    """
    return (_mixed(_of_request(seed, request) ^ token) >> 11) / (1 << 53)


@lru_cache(maxsize=1024)
def _of_request(seed: int, request: int) -> int:
    return _mixed(_mixed(seed & MASK) ^ request)
