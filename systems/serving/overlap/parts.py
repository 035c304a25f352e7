"""Parts of a batch: requests that decode are dealt out, prompts are cut where the tokens of a part are full."""

from collections.abc import Sequence
from typing import NamedTuple

from pimloom.workload.batch import Batch, Request


class Part(NamedTuple):
    """Requests of a part; follows: whether its first prompt goes on with that of the part before."""

    batch: Batch
    follows: bool


def cut(request: Request, tokens: int) -> tuple[Request, Request]:
    """A prompt whose first `tokens` new ones come before the others.

    >>> [part[:4] for part in cut(Request("prefill", 10, 16, 1), 4)]
    [('prefill', 4, 10, 0), ('prefill', 6, 16, 1)]
    """
    rest = request.new - tokens
    first = request._replace(new=tokens, context=request.context - rest, logits=max(request.logits - rest, 0))
    return first, request._replace(new=rest, logits=min(request.logits, rest))


def divided(batch: Batch, sizes: Sequence[int]) -> list[Part]:
    """Parts of so many tokens, as near as whole tokens of decode and drafts let them be; none that is empty."""
    whole = sorted((at for at in batch.requests if at.phase != "prefill"), key=lambda at: (-at.new, -at.context))
    prompts = [at for at in batch.requests if at.phase == "prefill"]
    groups, room = [list[Request]() for _ in sizes], list(sizes)
    for at in whole:
        emptiest = max(range(len(sizes)), key=lambda i: (room[i], -i))
        groups[emptiest].append(at)
        room[emptiest] -= at.new
    follows, place = [False] * len(sizes), 0
    for at in prompts:
        left = at
        while True:
            while left is at and place < len(sizes) - 1 and room[place] <= 0:
                place += 1
            if left.new <= room[place] or place == len(sizes) - 1 or room[place] <= 0:
                groups[place].append(left)
                room[place] -= left.new
                break
            first, left = cut(left, room[place])
            groups[place].append(first)
            room[place], place = 0, place + 1  # the rest comes right behind it
            follows[place] = True
    return [Part(Batch(tuple(some)), after) for some, after in zip(groups, follows, strict=True) if some]


def equal(batch: Batch, number: int) -> list[Part]:
    """So many parts with as many tokens."""
    rows = batch.rows
    return divided(batch, [rows * (i + 1) // number - rows * i // number for i in range(number)])


def woven(batch: Batch, offset: int = 0, tile: int = 256, least: int = 1024) -> list[Part]:
    """TokenWeave's two: half of the tokens in whole tiles, and `offset` more; few tokens stay together [secondary].

    >>> [part.batch.rows for part in woven(Batch.prefill([1500]))]
    [768, 732]
    """
    rows = batch.rows
    first = -(-rows // tile) * tile // 2 + offset
    if rows < least or first >= rows:
        return [Part(batch, False)]
    return divided(batch, [first, rows - first])
