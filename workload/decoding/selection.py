"""Which leaves of a search tree go on (ETS): their rewards, less the nodes that they keep, plus meanings they cover.

The authors maximise sum O_i x_i - c (sum y_j + sum x_i) / (M + N) + s / K sum z_k; x, y, z are 0 or 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NODES, CLUSTERS = 1.0, 1.5  # [secondary] lambda_c and lambda_s of their file for MATH500


class Leaf(NamedTuple):
    """Its share of the rewards, the inner nodes above it, its cluster of meaning."""

    reward: float
    above: tuple[int, ...]
    cluster: int


def value(leaves: Sequence[Leaf], chosen: Sequence[int], nodes: float = NODES, clusters: float = CLUSTERS) -> float:
    """What is to be as large as can be."""
    inner, meanings = {j for leaf in leaves for j in leaf.above}, {leaf.cluster for leaf in leaves}
    kept = {j for i in chosen for j in leaves[i].above}
    covered = {leaves[i].cluster for i in chosen}
    held = nodes * (len(kept) + len(chosen)) / (len(inner) + len(leaves))
    return sum(leaves[i].reward for i in chosen) - held + clusters * len(covered) / len(meanings)


def select(leaves: Sequence[Leaf], nodes: float = NODES, clusters: float = CLUSTERS) -> list[int]:
    """The best leaves, by HiGHS."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # scipy is slow to import

    n = len(leaves)
    inner = {j: n + at for at, j in enumerate(sorted({j for leaf in leaves for j in leaf.above}))}
    meanings = {k: n + len(inner) + at for at, k in enumerate(sorted({leaf.cluster for leaf in leaves}))}
    size = n + len(inner) + len(meanings)
    gain = np.zeros(size)
    gain[:n] = [leaf.reward for leaf in leaves]
    gain[: n + len(inner)] -= nodes / (n + len(inner))
    gain[n + len(inner) :] = clusters / len(meanings)
    rows = list[np.ndarray]()  # each: at most 0

    def row(plus: Sequence[int], minus: Sequence[int]) -> None:
        made = np.zeros(size)
        made[list(plus)], made[list(minus)] = 1.0, -1.0
        rows.append(made)

    for i, leaf in enumerate(leaves):
        for j in leaf.above:
            row([i], [inner[j]])
    for j, at in inner.items():
        row([at], [i for i, leaf in enumerate(leaves) if j in leaf.above])
    for k, at in meanings.items():
        row([at], [i for i, leaf in enumerate(leaves) if leaf.cluster == k])
    done = milp(-gain, constraints=LinearConstraint(np.array(rows), ub=0.0), bounds=Bounds(0, 1), integrality=1)
    assert done.x is not None, done.message
    return [i for i in range(n) if done.x[i] > 0.5]


def kept_tokens(leaves: Sequence[Leaf], chosen: Sequence[int], leaf_tokens: int, node_tokens: int) -> int:
    """Tokens of keys and values of the chosen leaves and of the nodes above them, each once."""
    kept = {j for i in chosen for j in leaves[i].above}
    return len(chosen) * leaf_tokens + len(kept) * node_tokens
