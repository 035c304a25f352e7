"""Speculation by a tree, as Medusa has it: head i guesses the token i + 1 places ahead, several ranks of it."""

from collections.abc import Sequence
from math import prod

Node = tuple[int, ...]  # ranks of the guesses on the way to it, of the first head on


def rank_shares(top: float, decay: float, ranks: int) -> list[float]:
    """Probability that each rank of a head is right: the first `top`, each further one `decay` of what is left.

    >>> rank_shares(0.5, 0.5, 3)
    [0.5, 0.25, 0.125]
    """
    found, left = [top], 1 - top
    for _ in range(ranks - 1):
        found.append(left * decay)
        left -= found[-1]
    return found


def tokens_per_step(nodes: Sequence[Node], heads: Sequence[Sequence[float]]) -> float:
    """Mean of the tokens of a step: the nodes on the path that is right, and one; guesses of a head exclude each other,
    heads are independent. heads: of each the probability that each rank is right.

    >>> tokens_per_step([(0,), (1,), (0, 0)], [[0.5, 0.2], [0.4]])
    1.9
    """
    return 1 + sum(prod(head[rank] for head, rank in zip(heads, node, strict=False)) for node in set(nodes))


def rows(nodes: Sequence[Node]) -> int:
    """Rows that are checked: the nodes, and the last token that is certain."""
    return len(set(nodes)) + 1


def attended(nodes: Sequence[Node], cached: int) -> int:
    """Pairs of query and key: each row sees the cache, itself and what stands above it.

    >>> attended([(0,), (1,), (0, 0)], 10)
    48
    """
    return rows(nodes) * (cached + 1) + sum(len(node) for node in set(nodes))


def head_elements(hidden: int, vocabulary: int, heads: int) -> int:
    """Weights of the heads, read in each step: of each a residual block and a projection to the vocabulary."""
    return heads * (hidden**2 + hidden * vocabulary)
