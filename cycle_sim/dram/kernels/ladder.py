"""The least of many keys, in a binary tree: a key changes, and the least is found, in steps that grow with log n.

ladder[k, 1] is the least key of ladder k; its leaves are the upper half of the row.
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.dram.kernels.device import FAR, PRE, free_from


@bare
def place(ladder, k, i, key):
    """Leaf i of ladder k holds this key."""
    n = ladder.shape[1] // 2 + i
    if ladder[k, n] == key:
        return
    ladder[k, n] = key
    while n > 1:
        n >>= 1
        least = min(ladder[k, 2 * n], ladder[k, 2 * n + 1])
        if ladder[k, n] == least:
            break
        ladder[k, n] = least


@rare
def earliest(tree, ladder, k, not_before):
    """(clock, bank) of the row that ladder k closes next, not before a clock, the lowest bank first; or (FAR, -1).

    Leaf b is a clock before which the row of bank b cannot be closed; it is put right when it is the least.
    """
    leaves = ladder.shape[1] // 2
    while ladder[k, 1] < FAR:
        n = 1
        while n < leaves:
            n = 2 * n + (ladder[k, 2 * n] > ladder[k, n])
        at = max(ladder[k, n], not_before, free_from(tree, PRE, n - leaves))
        if at == ladder[k, n]:
            return at, n - leaves
        place(ladder, k, n - leaves, at)
    return FAR, np.int64(-1)


def ladders(number: int, leaves: int) -> np.ndarray:
    """int64 [number, …]: ladders without a key."""
    return np.full((number, 2 << (leaves - 1).bit_length()), FAR)
