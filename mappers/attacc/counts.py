"""How many commands the heads of a stack take, in closed form.

Heads go in pairs of iterations, so that the score of one overlaps the softmax of the other. As released, three slips
come with that [derived from secondary A]: a dummy MAC in each channel before the first pair; the context of the first
iteration of a pair taken twice, and never that of the second; and chunks rounded down, which may drop the last entries
of the second query and of the probabilities.
"""

from collections import Counter
from itertools import pairwise

from pimloom.mappers.attacc.layout import Layout, Work, valid_channels


def count_commands(layout: Layout, work: Work, *, as_released: bool = False) -> dict[str, int]:
    """Commands of a stack by kind, for one decode step of its heads. as_released: with the simulator's slips."""
    alone = layout.alone()
    if not as_released:
        return {kind: n * work.heads for kind, n in alone.items()}
    valid, found = valid_channels(work.heads), Counter(dict.fromkeys(alone, 0))
    for i, (first, second) in enumerate(pairwise(valid)):
        if i % 2 == 0:
            found.update(_pair(layout, first, second))
    if len(valid) % 2:
        found.update({kind: n * valid[-1] for kind, n in alone.items()})
    if len(valid) > 1:
        found["MAC"] += valid[0]  # the dummies
    return dict(found)


def _pair(layout: Layout, first: int, second: int) -> dict[str, int]:
    """Of two iterations with these many heads, as released."""
    scores, contexts = len(layout.places_score) * layout.flushes, len(layout.places_context) * layout.groups
    query, probabilities = len(layout.places_wrgb), len(layout.places_mvgb)
    chunks = layout.flushes, -(-layout.flushes // 2), -(-layout.groups // 2)
    return {
        "MAC": layout.macs * (first + second) + 2 * layout.macs * first,
        "WRGB": query * first + _rounded(query * second, chunks[0]),
        "MVSB": scores * (first + second) + 2 * contexts * first,
        "MVGB": _rounded(probabilities * first, chunks[1]) + _rounded(probabilities * second, chunks[2]),
        "SFM": first + second,
    }


def _rounded(entries: int, chunks: int) -> int:
    return entries // chunks * chunks
