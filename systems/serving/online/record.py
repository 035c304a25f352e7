"""What happened, iteration by iteration, in columns."""

from array import array
from collections.abc import Callable

from pimloom.systems.serving.online.costs import Cost, Costs, pieces_of
from pimloom.systems.serving.online.sampling import Sample
from pimloom.systems.serving.schedulers.live import Iteration, Scheduler


class Record:
    """Columns of iterations in the order in which they form: start, end [ps], replica, requests, new tokens, contexts
    (with new tokens), requests that wait, blocks that are held, energy [J]. by_request: energy [J] of each request, its
    share of every iteration by its new tokens. by_cause: energy [J] of all. decode: what prices a token of each
    request without a list of pieces, as most iterations are; None: costs have nothing of the kind."""

    def __init__(self, costs: Costs, requests: int, sample: Sample | None = None) -> None:
        self.costs, self.sample = costs, sample
        self.decode: Callable[[list[int]], Cost] | None = getattr(costs, "decode_of", None)
        self.start, self.end, self.ticks = array("q"), array("q"), array("q")
        self.replica, self.requests, self.new, self.contexts = array("i"), array("i"), array("i"), array("q")
        self.waiting, self.used, self.joules = array("i"), array("q"), array("d")
        self.beside = 0.0  # energy that is in no iteration [J]
        self.rest_w: float | None = None  # of devices that have nothing to do; None: not known
        self.rest_j: float | None = None  # theirs, which is in `beside`
        self.by_request, self.by_cause = [0.0] * requests, list[float]()

    def price(self, made: Iteration) -> int:
        """The time of an iteration on all stages [ps]; its energy is noted."""
        if self.decode and max(made.new) == 1 and min(made.cached):
            cost = self.decode(made.cached)
            if self.sample and self.sample.decode.takes(cost[0]):
                self.sample.decode.keep(pieces_of(made))
        else:
            pieces = pieces_of(made)
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

    def seen(self, replica: int, scheduler: Scheduler, made: Iteration) -> None:
        """It has formed."""
        self.replica.append(replica)
        self.start.append(made.start)
        self.ticks.append(made.ticks)
        self.end.append(made.end)
        self.waiting.append(len(scheduler.waiting))
        self.used.append(scheduler.blocks.total - scheduler.blocks.free)
