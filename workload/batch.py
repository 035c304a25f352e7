"""What one step of a model works on: for each request its new tokens and its context."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pimloom.arch.error import UserError

Phase = Literal["prefill", "decode", "verify", "train"]


class Request(NamedTuple):
    """A request's part of a step.

    new: tokens that go through the model; context: tokens that the last of them attends to without a window, itself
    included; logits: of how many of its tokens the next one is wanted. shared: leading tokens of the context that are
    those of all requests of its `group`, 0: of none; a machine that can reads their keys and values once. pairs: of new
    tokens that are no chain but a tree, how many of them they attend to in all; 0: each to itself and those before.
    """

    phase: Phase
    new: int
    context: int
    logits: int
    shared: int = 0
    group: int = 0
    pairs: int = 0


@dataclass(frozen=True)
class Batch:
    """The requests of one step. Prompts of some beside decode of others are one batch: add batches up.

    >>> step = Batch.decode([5, 9]) + Batch.prefill([100])
    >>> step.rows, step.logits, step.attended(None), step.cached(None)
    (102, 3, 5064, 114)
    >>> step.attended(8), step.cached(8)  # 5 + 8, and 1 + 2 + ... + 8 + 92 x 8
    (785, 113)
    """

    requests: tuple[Request, ...]

    def __post_init__(self) -> None:
        for at in self.requests:
            if not 1 <= at.new <= at.context or not 0 <= at.logits <= at.new:
                raise UserError(
                    f"a request of {at.new} new tokens with a context of {at.context} that wants {at.logits} logits: "
                    "expected at least one new token, a context that holds them, logits of these at most"
                )
            if not 0 <= at.shared <= at.context - at.new or bool(at.shared) > bool(at.group):
                raise UserError(
                    f"a request that shares {at.shared} of {at.context - at.new} tokens in group {at.group}: expected "
                    "at most those before its new ones, and a group from 1 on"
                )

    @classmethod
    def decode(cls, contexts: Sequence[int]) -> "Batch":
        """One new token each; contexts count it."""
        return cls(tuple(Request("decode", 1, n, 1) for n in contexts))

    @classmethod
    def prefill(cls, prompts: Sequence[int], cached: Sequence[int] | None = None, *, ends: bool = True) -> "Batch":
        """Prompts, or chunks of them behind tokens that are `cached` already; one that does not end wants no logits."""
        before = cached if cached is not None else [0] * len(prompts)
        pairs = zip(prompts, before, strict=True)
        return cls(tuple(Request("prefill", new, new + old, int(ends)) for new, old in pairs))

    @classmethod
    def verify(cls, contexts: Sequence[int], new: int) -> "Batch":
        """`new` drafted tokens of each request, checked in one pass; contexts count them."""
        return cls(tuple(Request("verify", new, n, new) for n in contexts))

    def __add__(self, other: "Batch") -> "Batch":
        return Batch(self.requests + other.requests)

    def of(self, *phases: Phase) -> "Batch":
        """The batch of the requests in these phases."""
        return Batch(tuple(at for at in self.requests if at.phase in phases))

    @property
    def rows(self) -> int:
        """New tokens of all requests: rows of every matrix product."""
        return sum(at.new for at in self.requests)

    @property
    def logits(self) -> int:
        """Tokens whose successor is wanted."""
        return sum(at.logits for at in self.requests)

    def attended(self, window: int | None) -> int:
        """Over all new tokens, the tokens that each attends to: itself and those before it, the window's at most."""
        return sum(_attended(at, window) for at in self.requests)

    def cached(self, window: int | None) -> int:
        """Tokens of K and V that are read: those that any new token of the request attends to, those that a group
        shares once."""
        return sum(seen(at, window) for at in self.requests) - self._again(window)

    def kept(self, window: int | None) -> int:
        """Tokens of K and V that stay in memory: the context, or of a ring as long as the window what fits into it;
        those that a group shares once."""
        every = sum(at.context if window is None else min(at.context, window) for at in self.requests)
        return every - self._again(window)

    def _again(self, window: int | None) -> int:
        """Tokens of a group that its second request and those behind need not have for themselves; of a context that a
        window cuts none are."""
        found, known = 0, dict[int, int]()
        for at in self.requests:
            if at.group and (window is None or at.context <= window):
                most = known.get(at.group, 0)
                found += min(at.shared, most)
                known[at.group] = max(at.shared, most)
        return found

    @property
    def contexts(self) -> list[int]:
        """Tokens whose keys and values each request has for itself, if the first of a group has those of all."""
        known, found = dict[int, int](), list[int]()
        for at in self.requests:
            most = known.get(at.group, 0) if at.group else 0
            found.append(at.context - min(at.shared, most))
            known[at.group] = max(at.shared, most)
        return found


def _attended(at: Request, window: int | None) -> int:
    first = at.context - at.new + 1  # what the first new token attends to
    if window is None or at.context <= window:
        return (first - 1) * at.new + at.pairs if at.pairs else (first + at.context) * at.new // 2
    growing = max(window - first, 0)  # new tokens that do not fill the window yet
    return (first + window - 1) * growing // 2 + (at.new - growing) * window


def seen(at: Request, window: int | None) -> int:
    """Tokens of K and V that a request's new tokens read."""
    return at.context if window is None else min(at.context, window + at.new - 1)
