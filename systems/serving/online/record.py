"""What happened, iteration by iteration, in columns."""

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

from pimloom.systems.serving.online.costs import Cost, Piece
from pimloom.systems.serving.online.sampling import Sample
from pimloom.systems.serving.schedulers.live import Iteration, Scheduler


class Costs(Protocol):
    """Prices of iterations."""

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """ps, and J by cause."""
        ...


class Record:
    """Columns of iterations in the order in which they form: start, end [ps], replica, requests, new tokens, contexts
    (with new tokens), requests that wait, blocks that are held, energy [J]. by_request: energy [J] of each request, its
    share of every iteration by its new tokens. by_cause: energy [J] of all.
    drafted: whether drafted tokens are checked."""

    def __init__(self, costs: Costs, requests: int, sample: Sample | None = None, *, drafted: bool = False) -> None:
        self.costs, self.sample, self.drafted = costs, sample, drafted
        self.decode: Callable[[list[int]], Cost] | None = getattr(
            costs, "decode_of", None
        )  # of what most iterations are
        self.start, self.end, self.ticks = array("q"), array("q"), array("q")
        self.replica, self.requests, self.new, self.contexts = array("i"), array("i"), array("i"), array("q")
        self.waiting, self.used, self.joules = array("i"), array("q"), array("d")
        self.beside = 0.0  # energy that is in no iteration [J]
        self.by_request, self.by_cause = [0.0] * requests, list[float]()

    def price(self, made: Iteration) -> int:
        """The time of an iteration on all stages [ps]; its energy is noted."""
        if self.decode and max(made.new) == 1 and min(made.cached):
            cost = self.decode(made.cached)
            if self.sample and self.sample.decode.takes(cost[0]):
                self.sample.decode.keep(self._pieces(made))
        else:
            pieces = self._pieces(made)
            cost = self.costs.of(pieces)
            if self.sample and (kind := self.sample.of(pieces)).takes(cost[0]):
                kind.keep(pieces)
        ps, *joules = cost
        tokens, total = sum(made.new), sum(joules)
        self.new.append(tokens)
        self.contexts.append(tokens + sum(made.cached))
        self.requests.append(len(made.requests))
        self.joules.append(total)
        if joules:
            self.by_cause += [0.0] * (len(joules) - len(self.by_cause))
            for i, j in enumerate(joules):
                self.by_cause[i] += j
            each = total / tokens
            for r, n in zip(made.requests, made.new, strict=True):
                self.by_request[r.number] += each * n
        return max(round(ps), 1)

    def _pieces(self, made: Iteration) -> list[Piece]:
        return [
            Piece(n, p, min(max(p + n - r.known + 1, 0), n if self.drafted else 1))
            for n, p, r in zip(made.new, made.cached, made.requests, strict=True)
        ]

    def seen(self, replica: int, scheduler: Scheduler, made: Iteration) -> None:
        """It has formed."""
        self.replica.append(replica)
        self.start.append(made.start)
        self.ticks.append(made.ticks)
        self.end.append(made.end)
        self.waiting.append(len(scheduler.waiting))
        self.used.append(scheduler.blocks.total - scheduler.blocks.free)
