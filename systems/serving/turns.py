"""Prompts beside decode: which requests compute how many tokens in the next iteration.

Scheduling as in Sarathi-Serve (Agrawal et al., OSDI 2024) and vLLM's chunked prefill: all requests that decode go on;
what their tokens leave of the iteration's budget goes to prompts, first come first served, in pieces where needed.
"""

import numpy as np

from pimloom.workload.batch import Batch, Request


def turns(cached: np.ndarray, wanted: np.ndarray, said: np.ndarray, chunk: int) -> np.ndarray:
    """New tokens of each request in the next iteration, 0 for one that waits for its turn.

    cached, wanted: by request, in the order in which they joined, the tokens whose keys and values are there, and those
    that must be before its next token comes; said: those that it has generated. All arrays int64 (requests,).

    >>> turns(np.array([7, 3, 0, 0]), np.array([8, 20, 4, 9]), np.array([1, 0, 0, 0]), 12).tolist()
    [1, 11, 0, 0]
    >>> turns(np.array([7, 14, 0, 0]), np.array([8, 20, 4, 9]), np.array([1, 0, 0, 0]), 12).tolist()
    [1, 6, 4, 1]
    """
    lacks, decode = wanted - cached, decodes(cached, wanted, said)
    left = np.where(decode, 0, lacks)
    before = left.cumsum() - left
    return np.where(decode, 1, np.clip(chunk - int(decode.sum()) - before, 0, left))


def decodes(cached: np.ndarray, wanted: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Whether a request lacks no more than the newest token that it has generated; the last token of a prompt is none.
    Arrays as of `turns`."""
    return (said > 0) & (wanted - cached == 1)


def step_of(cached: np.ndarray, wanted: np.ndarray, said: np.ndarray, new: np.ndarray) -> Batch:
    """The iteration in which requests compute `new` tokens each. Arrays as of `turns`."""
    made, decode = [], decodes(cached, wanted, said)
    for old, last, one, n in zip(cached.tolist(), wanted.tolist(), decode.tolist(), new.tolist(), strict=True):
        if n:
            made.append(Request("decode" if one else "prefill", n, old + n, int(old + n == last)))
    return Batch(tuple(made))
