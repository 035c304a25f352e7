"""Speculation in a tree (Medusa): heads guess the next tokens, and many combinations of guesses are checked at once.

A node is a path of ranks: (1, 0) is the second guess of the first head, then the first guess of the second. It is right
if all guesses on its path are; right guesses of a head exclude each other, and heads are independent.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import fsum, prod

from pimloom.arch.error import UserError

Path = tuple[int, ...]
Accuracy = Sequence[Sequence[float]]  # of each head, of each rank


RANKS = 10  # guesses of a head [recalled: Medusa's TOPK]


def accuracies(top1: Sequence[float], decay: float, ranks: int = RANKS) -> list[list[float]]:
    """Each head's first guess is right with `top1`, each further one with `decay` of what is left.

    >>> accuracies([0.5], 0.5, 3)
    [[0.5, 0.25, 0.125]]
    """
    found = []
    for first in top1:
        mine, left = [first], 1 - first
        for _ in range(ranks - 1):
            mine.append(left * decay)
            left -= mine[-1]
        found.append(mine)
    return found


def most_nodes(heads: int, ranks: int = RANKS) -> int:
    """Of a tree of so many heads: each combination of guesses, and all that stand before it.

    >>> most_nodes(2, 3)
    12
    """
    return sum(ranks**depth for depth in range(1, heads + 1))


def chance(path: Path, q: Accuracy) -> float:
    """That a node is right."""
    return prod(q[i][rank] for i, rank in enumerate(path))


def check(nodes: Iterable[Path], q: Accuracy) -> None:
    """Raise UserError for a node that has no parent, or for which there is no head or rank."""
    there = set(nodes)
    for path in there:
        if not path or len(path) > len(q) or any(not 0 <= r < len(q[i]) for i, r in enumerate(path)):
            raise UserError(f"node {path} of a tree: expected ranks of {len(q)} heads at most")
        if len(path) > 1 and path[:-1] not in there:
            raise UserError(f"node {path} of a tree: {path[:-1]}, which it stands behind, is no node; add it")


def tokens_per_step(nodes: Iterable[Path], q: Accuracy) -> float:
    """One of the target's own, and the nodes that are right.

    >>> tokens_per_step([(0,), (1,), (0, 0)], [[0.5, 0.25], [0.5]])
    2.0
    """
    return 1 + fsum(chance(path, q) for path in set(nodes))


def reached(nodes: Iterable[Path], q: Accuracy) -> list[float]:
    """P(at least k accepted) for k from 0 to the depth: right nodes of one depth exclude each other.

    >>> reached([(0,), (1,), (0, 0)], [[0.5, 0.25], [0.5]])
    [1.0, 0.75, 0.25]
    """
    there = set(nodes)
    deepest = max(map(len, there), default=0)
    return [1.0, *(fsum(chance(path, q) for path in there if len(path) == k + 1) for k in range(deepest))]


def pairs(nodes: Iterable[Path]) -> int:
    """Tokens of the piece that its rows attend to: each to itself, its ancestors and the token that is known.

    >>> pairs([(0,), (1,), (0, 0)])
    8
    """
    return 1 + sum(len(path) + 1 for path in set(nodes))


def likeliest(q: Accuracy, nodes: int) -> list[Path]:
    """The tree of so many nodes that accepts most: those that are likeliest, as none is likelier than its parent.

    >>> likeliest([[0.2, 0.4, 0.1]], 2)
    [(1,), (0,)]
    """
    order = [[rank for _, rank in sorted((-right, rank) for rank, right in enumerate(ranks))] for ranks in q]
    found, queue = list[Path](), list[tuple[float, Path, Path]]()

    def look_at(places: Path) -> None:
        if len(places) <= len(q) and places[-1] < len(order[len(places) - 1]):
            path = tuple(order[head][place] for head, place in enumerate(places))
            heappush(queue, (-chance(path, q), path, places))

    look_at((0,))
    while queue and len(found) < nodes:
        _, path, places = heappop(queue)
        found.append(path)
        look_at((*places[:-1], places[-1] + 1))
        look_at((*places, 0))
    return found


def head_weights(hidden: int, vocabulary: int) -> int:
    """Weights of a head: a square matrix with a residual, and one onto the vocabulary."""
    return hidden * hidden + hidden * vocabulary
