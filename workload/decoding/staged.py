"""What each step of a request computes that goes on in several branches behind its prompt, as serving has it.

The prompt's own step makes the first tokens. From then on a step computes the tokens that the step before made, and
makes the next ones; the last tokens of all are never computed. A segment whose readers compute its text again leaves
its own last token to them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.workload.decoding.branches import PREFIX, Graph, longest
from pimloom.workload.decoding.selection import Leaf, select


class Row(NamedTuple):
    """New tokens, their context with them, how many of those before them others in the same group have, too, and how
    many next tokens are wanted."""

    new: int
    context: int
    shared: int = 0
    group: int = 0
    logits: int = 1


class Stage(NamedTuple):
    """Rows of a step, tokens that it makes, tokens that are copied in memory before it."""

    rows: tuple[Row, ...]
    made: int
    copied: int = 0


class Staged(NamedTuple):
    """first: tokens that the prompt's step makes; lanes: how often the prompt itself is computed, each behind `prefix`
    learned tokens; stages: all others; tokens: that come out."""

    first: int
    stages: tuple[Stage, ...]
    tokens: int
    lanes: int = 1
    prefix: int = 0


def of_graph(graph: Graph, prompt: int, *, shared: bool) -> Staged:
    """Segments of at least one token each. shared: those that read the same read it where it is, else each has a copy
    from its beginning on. Raises UserError for a circle."""
    longest(graph)
    if short := [name for name, one in graph.items() if one.tokens < 1]:
        raise UserError(f"segment {short[0]} has no token")
    walk = _Walk(graph, prompt, shared)
    first, stages = sum(walk.made.values()), list[Stage]()
    while walk.total < sum(one.tokens for one in graph.values()):
        stages.append(walk.step())
    return Staged(first, tuple(stages), walk.total)


class _Walk:
    """made, computed: tokens of each segment."""

    def __init__(self, graph: Graph, prompt: int, shared: bool) -> None:
        self.graph, self.shared = graph, shared
        self.made = {name: int(not one.after) for name, one in graph.items()}
        self.computed = dict.fromkeys(graph, 0)
        self.base = {n: prompt + sum(graph[read].tokens for read in one.reads) + one.again for n, one in graph.items()}
        alike = dict[tuple[tuple[str, ...], int], list[str]]()
        for name, one in graph.items():
            alike.setdefault((one.reads, one.again), []).append(name)
        self.groups = {name: i for i, names in enumerate(alike.values(), 1) for name in names}
        self.several = {name: len(names) for names in alike.values() for name in names}
        self.begun = {i for i, names in enumerate(alike.values(), 1) for name in names if self.made[name]}
        self.due = sum(self._copies(i) for i in self.begun)

    @property
    def total(self) -> int:
        """Tokens made."""
        return sum(self.made.values())

    def step(self) -> Stage:
        """The next one."""
        before, rows, next_ones, copied = dict(self.made), list[Row](), list[str](), self.due
        for name, one in self.graph.items():
            at = before[name]
            if at > self.computed[name] and (at < one.tokens or self._read(name)):
                rows.append(self._row(name, at))
                self.computed[name] = at
                next_ones += [name] * (at < one.tokens)
        for name, one in self.graph.items():
            if before[name] or not all(before[n] == self.graph[n].tokens for n in one.after):
                continue
            if one.again:
                rows.append(Row(one.again, self.base[name]))
                next_ones.append(name)
            elif all(self.computed[n] == self.graph[n].tokens for n in one.after):
                next_ones.append(name)
        begin = {self.groups[name] for name in next_ones if not before[name]} - self.begun
        self.begun |= begin
        self.due = sum(map(self._copies, begin))
        for name in next_ones:
            self.made[name] += 1
        return Stage(tuple(rows), len(next_ones), copied)

    def _row(self, name: str, at: int) -> Row:
        base, some = self.base[name], self.several[name]
        return Row(1, base + at, base, self.groups[name]) if self.shared and some > 1 else Row(1, base + at)

    def _read(self, name: str) -> bool:
        """Whether somebody who comes behind needs its last token in the cache."""
        return any(name in one.after and not one.again for one in self.graph.values())

    def _copies(self, group: int) -> int:
        """Tokens of copies for those of a group but the first; what is computed again lies behind them."""
        names = [name for name, mine in self.groups.items() if mine == group]
        return 0 if self.shared else (len(names) - 1) * (self.base[names[0]] - self.graph[names[0]].again)


def of_workers(prompt: int, number: int, tokens: int, *, shared: bool) -> Staged:
    """Workers who see one another's tokens at once (Hogwild!), so many tokens in all. shared: what lies before a step
    is read once for all of them."""
    each = [tokens // number + (i < tokens % number) for i in range(min(number, tokens))]
    stages = list[Stage]()
    for at in range(1, max(each)):
        rows, live = (sum(n > past for n in each) for past in (at - 1, at))
        context = prompt + sum(min(n, at) for n in each)
        one = Row(1, context, context - 1, 1) if shared and rows > 1 else Row(1, context)
        stages.append(Stage((one,) * rows, live))
    return Staged(len(each), tuple(stages), tokens)


def of_streams(prompt: int, number: int, tokens: int) -> Staged:
    """Streams of one token, each with its own keys and values behind a learned prefix (ParScale); one goes on to the LM
    head."""
    stages = tuple(
        Stage(tuple(Row(1, PREFIX + prompt + at, logits=int(not i)) for i in range(number)), 1)
        for at in range(1, tokens)
    )
    return Staged(1, stages, tokens, number, PREFIX)


class Search(NamedTuple):
    """A tree search. width: leaves of a depth; step: tokens between two choices; reward: of each leaf of a depth, above
    0; cluster: of its meaning."""

    width: int
    step: int
    reward: Callable[[int], Sequence[float]]
    cluster: Callable[[int], Sequence[int]]


def of_search(prompt: int, search: Search, tokens: int, *, shared: bool) -> Staged:
    """Every `step` tokens some of the leaves go on (ETS, see `selection`), each with as many children as its reward
    earns, so many as before in all. shared: children read what is before them once, else each has a copy of it."""
    width, made, stages = search.width, 1, list[Stage]()
    parents, paths, node = [0] * width, list[tuple[int, ...]]([()] * width), 0
    copied = 0 if shared else (width - 1) * prompt
    while made < tokens:  # those before `made` are computed
        start = made - 1
        for _ in range(min(search.step - (made - 1) % search.step, tokens - made)):
            rows = tuple(_child(parents, i, prompt + start, prompt + made, shared) for i in range(width))
            stages.append(Stage(rows, width, copied))
            made, copied = made + 1, 0
        if made == tokens:
            break
        depth = (made - 1) // search.step
        worth, meant = search.reward(depth), search.cluster(depth)
        leaves = [Leaf(r, mine, c) for r, mine, c in zip(worth, paths, meant, strict=True)]
        kept = select(leaves)
        counts = _children([leaves[i].reward for i in kept], width)
        parents = [i for i, n in zip(kept, counts, strict=True) for _ in range(n)]
        paths = [(*paths[i], node + i) for i in parents]
        node += width
    return Staged(width, tuple(stages), width * tokens)


def _child(parents: Sequence[int], i: int, before: int, context: int, shared: bool) -> Row:
    alone = not shared or parents.count(parents[i]) == 1
    return Row(1, context) if alone else Row(1, context, before, 1 + parents[i])


def _children(rewards: Sequence[float], width: int) -> list[int]:
    """So many in all, by rewards, at least one each: the largest remainder first (REBASE's balance)."""
    total, left = sum(rewards), width - len(rewards)
    found = [1 + int(left * reward / total) for reward in rewards]
    rest = sorted(range(len(rewards)), key=lambda i: -(left * rewards[i] / total % 1.0))
    for i in rest[: width - sum(found)]:
        found[i] += 1
    return found
