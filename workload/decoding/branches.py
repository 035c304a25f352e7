"""Requests that go on in several branches at once, as batches of one step after the other.

Segments of tokens with an order: all that are ready make a token in each step, and look at the caches that they read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.workload.batch import Batch, Request

PREFIX = 48  # tokens of keys and values that each stream of ParScale has learned [secondary: their cost script]


class Segment(NamedTuple):
    """Tokens behind those of the segments `after` which it waits for. reads: whose caches it looks at, beside the
    prompt's; again: tokens that it must compute once more before, as their positions differ from those in the cache."""

    tokens: int
    after: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    again: int = 0


Graph = Mapping[str, Segment]


def total(graph: Graph) -> int:
    """Tokens of all segments, those that are computed again left out."""
    return sum(segment.tokens for segment in graph.values())


def longest(graph: Graph) -> int:
    """Tokens of the longest path: steps that a machine takes at least. Raises UserError for a circle."""
    ends = dict[str, int]()
    while len(ends) < len(graph):
        ready = [n for n, s in graph.items() if n not in ends and all(name in ends for name in s.after)]
        if not ready:
            raise UserError(f"segments {', '.join(sorted(graph.keys() - ends.keys()))} wait for one another")
        for name in ready:
            ends[name] = graph[name].tokens + max((ends[before] for before in graph[name].after), default=0)
    return max(ends.values(), default=0)


def steps(graph: Graph, prompt: int, *, shared: bool) -> Iterator[Batch]:
    """What is computed in each step, behind the prompt. shared: segments that read the same read it once, where the
    machine can. Raises UserError for a circle."""
    longest(graph)
    made = dict.fromkeys(graph, 0)
    base = {name: prompt + sum(graph[read].tokens for read in one.reads) + one.again for name, one in graph.items()}
    groups = {key: i for i, key in enumerate(dict.fromkeys((one.reads, one.again) for one in graph.values()), 1)}
    while True:
        live = [n for n, one in graph.items() if made[n] < one.tokens and _ready(graph, made, n)]
        if not live:
            return
        for _ in range(min(graph[name].tokens - made[name] for name in live)):  # until one of them ends
            batch = list[Request]()
            for name in live:
                one, at = graph[name], made[name] + 1
                if one.again and at == 1:
                    batch.append(Request("prefill", one.again, base[name], 1))
                else:
                    group = groups[one.reads, one.again] if shared else 0
                    batch.append(Request("decode", 1, base[name] + at, 1, base[name] if group else 0, group))
                made[name] = at
            yield Batch(tuple(batch))


def _ready(graph: Graph, made: Mapping[str, int], name: str) -> bool:
    return all(made[before] >= graph[before].tokens for before in graph[name].after)


def multiverse(first: int, branches: Sequence[int], last: int) -> dict[str, Segment]:
    """A part in sequence, branches, and a part that looks at the caches of all of them (Multiverse)."""
    names = tuple(f"branch {i}" for i in range(len(branches)))
    found = {"map": Segment(first)} | {n: Segment(t, ("map",), ("map",)) for n, t in zip(names, branches, strict=True)}
    return found | {"reduce": Segment(last, names, ("map", *names))}


def paths(lengths: Sequence[int], summary: int) -> dict[str, Segment]:
    """Paths from the prompt on, and a summary that looks at the caches of all (ParaThinker)."""
    names = tuple(f"path {i}" for i in range(len(lengths)))
    found = {name: Segment(tokens) for name, tokens in zip(names, lengths, strict=True)}
    return found | ({"summary": Segment(summary, names, names)} if summary else {})


def threads(first: int, lengths: Sequence[int], last: int) -> dict[str, Segment]:
    """Threads behind a common part; what follows computes all their tokens again (ThreadWeaver)."""
    names = tuple(f"thread {i}" for i in range(len(lengths)))
    found = {"before": Segment(first)}
    found |= {name: Segment(n, ("before",), ("before",)) for name, n in zip(names, lengths, strict=True)}
    return found | {"behind": Segment(last, names, ("before",), sum(lengths))}


def workers(prompt: int, number: int, tokens: int, *, shared: bool) -> Iterator[Batch]:
    """Workers that see one another's tokens at once, each so many (Hogwild!)."""
    for at in range(1, tokens + 1):
        context = prompt + number * at
        one = Request("decode", 1, context, 1, context - 1 if shared else 0, int(shared))
        yield Batch((one,) * number)


def streams(contexts: Sequence[int], number: int) -> Batch:
    """Each token of a request as so many rows, each with keys and values of its own (ParScale)."""
    return Batch.decode([context + PREFIX for context in contexts for _ in range(number)])


def stream_parameters(hidden: int, number: int) -> int:
    """Weights that add up the streams' outputs."""
    return (hidden + 1) * hidden * number
