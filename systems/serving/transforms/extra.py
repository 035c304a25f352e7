"""What speculation adds to an iteration: a draft model's passes, heads, or two machines side by side."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pimloom.systems.serving.pricing.costs import JOULES, Cost, Costs, Exact, Piece, added
from pimloom.systems.serving.pricing.points import around
from pimloom.workload.decoding.mirror import Times, step_time

FEW_ROWS = [1 << 2 * i for i in range(21)]  # of heads: numbers of rows


class More(NamedTuple):
    """Of an iteration. ps: of all of it, the target's too; joules: beside the target's; work: on the target's machine,
    as in a cost; drafting_ps: in which a machine of the draft's own works; waited_ps: in which the target's waits."""

    ps: float
    joules: float
    work: Sequence[float] = ()
    drafting_ps: float = 0.0
    waited_ps: float = 0.0


class Extra(Protocol):
    """Added to the target's iteration."""

    def joined(self, target: Cost, pieces: Sequence[Piece]) -> More:
        """What it comes to."""
        ...


class Joined:
    """Costs of the target's iterations with those of what drafts for it, whose energy is the first cause. last: what
    that was, of the last iteration."""

    def __init__(self, target: Costs, extra: Extra) -> None:
        self.target, self.extra, self.last = target, extra, More(0.0, 0.0)

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration. Raises UserError."""
        cost = self.target.of(pieces)
        self.last = more = self.extra.joined(cost, pieces)
        _, *work = added([(1.0, cost[:JOULES]), (1.0, [0.0, *more.work])])
        return [more.ps, *work, more.joules, *cost[JOULES:]] if len(cost) > JOULES else [more.ps, *work]


class Draft:
    """A draft model. positions: that it has; of longer contexts it sees the last ones; streams: tokens of a pass;
    apart: whether it is on a machine of its own."""

    def __init__(self, costs: Costs, positions: int, streams: int = 1, *, apart: bool = False) -> None:
        self.costs, self.positions, self.streams, self.apart = costs, positions, streams, apart

    def joined(self, target: Cost, pieces: Sequence[Piece]) -> More:
        """Before the target, which waits for it."""
        mine = added([(1.0, [0.0]), *self.passes(pieces), *self.prompts(pieces)])
        ps, joules = target[0] + mine[0], sum(mine[JOULES:])
        return More(ps, joules, (), mine[0], mine[0]) if self.apart else More(ps, joules, mine[1:JOULES])

    def passes(self, pieces: Sequence[Piece], candidates: int = 1) -> list[tuple[float, Cost]]:
        """Of all drafts that are checked in the next step, behind each of so many tokens."""
        checks, found, at = [one for one in pieces if one.verify], list[tuple[float, Cost]](), 1
        while checks := [one for one in checks if one.new > at]:
            rows = [Piece(1, min(one.cached + at, self.positions) - 1, 1) for one in checks for _ in range(candidates)]
            found.append((1.0, self.costs.of(rows)))
            at += self.streams
        return found

    def prompts(self, pieces: Sequence[Piece]) -> list[tuple[float, Cost]]:
        """The draft has them in its cache, too."""
        longest = self.positions
        mine = [
            Piece(min(one.new, longest), min(one.cached, longest - min(one.new, longest)), 0)
            for one in pieces
            if not one.verify and not (one.new == 1 and one.cached)
        ]
        return [(1.0, self.costs.of(mine))] if mine else []


class Mirror:
    """A draft on a machine of its own works while the target's layers behind an exit run. before: share of the target
    in front of it; candidates: tokens that it names there; right: chance that the target's own is one of them."""

    def __init__(self, draft: Draft, before: float, candidates: int, right: float) -> None:
        self.draft, self.before, self.candidates, self.right = draft, before, candidates, right

    def joined(self, target: Cost, pieces: Sequence[Piece]) -> More:
        """In the mean over right and wrong candidates; tokens are exchanged in no time."""
        prompts = self.draft.prompts(pieces)
        nothing = [(0.0, [0.0])]
        many = added([*self.draft.passes(pieces, self.candidates), *prompts, *nothing])
        one = added([*self.draft.passes(pieces), *nothing])
        parts = Times(target[0] * self.before, target[0] * (1 - self.before), many[0], one[0])
        ps, wrong = step_time(parts, self.right), 1 - self.right
        joules = sum(many[JOULES:]) + wrong * sum(one[JOULES:])
        return More(ps, joules, (), many[0] + wrong * one[0], ps - target[0])


class Heads:
    """Heads that guess from the last layer's output: each as long as so many LM heads. The devices differ in that one
    of them has an LM head."""

    def __init__(self, with_head: Exact, without: Exact, lm_heads: float) -> None:
        self.both, self.lm_heads = (with_head, without), lm_heads

    def joined(self, target: Cost, pieces: Sequence[Piece]) -> More:
        """A row of each request that decodes."""
        rows = sum(one.verify or (one.new == 1 and one.cached > 0) for one in pieces)
        if not rows:
            return More(target[0], 0.0)
        low, high = around(rows, FEW_ROWS)
        part = (rows - low) / (high - low) if high > low else 0.0
        one = added([(1 - part, self._lm_head(low)), (part, self._lm_head(high))])
        ps, *work = (self.lm_heads * ps for ps in one[:JOULES])
        return More(target[0] + ps, self.lm_heads * sum(one[JOULES:]), work)

    def _lm_head(self, rows: int) -> Cost:
        there, without = (one.of([Piece(1, 1, 1)] * rows) for one in self.both)
        return [
            *(a - b for a, b in zip(there[:JOULES], without, strict=False)),
            sum(there[JOULES:]) - sum(without[JOULES:]),
        ]
