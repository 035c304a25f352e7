"""The least of many keys, in a binary tree: a key changes, and the least is found, in steps that grow with log n.

ladder[k, 1] is the least key of ladder k; its leaves are the upper half of the row.
"""

import numpy as np

from pimloom.cycle_sim.memory.kernels.compiled import bare, rare
from pimloom.cycle_sim.memory.kernels.device import FAR, PRE, free_from


@bare
def place(ladder, k, i, key):
    """Leaf i of ladder k holds this key."""
    n = ladder.shape[1] // 2 + i
    ladder[k, n] = key
    while n > 1:
        n >>= 1
        least = min(ladder[k, 2 * n], ladder[k, 2 * n + 1])
        if ladder[k, n] == least:
            break
        ladder[k, n] = least


@rare
def earliest(tree, ladder, k, bits, not_before):
    """(clock, bank) of the row that ladder k closes next, not before a clock, the lowest bank first; or (FAR, -1).

    Its keys are a clock and, in the last `bits`, a bank. The clock is when the row might be closed as far as was known
    when the key was placed; it is put right when it is the least.
    """
    while ladder[k, 1] < FAR:
        key = ladder[k, 1]
        b = key & ((1 << bits) - 1)
        at = max(key >> bits, not_before, free_from(tree, PRE, b))
        if at == key >> bits:
            return at, b
        place(ladder, k, b, (at << bits) + b)
    return FAR, np.int64(-1)


def ladders(number: int, leaves: int) -> np.ndarray:
    """int64 [number, …]: ladders without a key."""
    return np.full((number, 2 << (leaves - 1).bit_length()), FAR)
