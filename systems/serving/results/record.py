"""What happened, iteration by iteration, in columns."""

from array import array
from collections.abc import Callable

from pimloom.systems.devices.run import LIMITS
from pimloom.systems.serving.pricing.costs import JOULES, Cost, Costs, Piece, pieces_of
from pimloom.systems.serving.pricing.sampling import DECODE, Sample
from pimloom.systems.serving.schedulers.live import Iteration, Scheduler
from pimloom.systems.serving.sharing.finetuning import Filled
from pimloom.systems.serving.transforms.extra import Joined

COLUMNS = (
    "start", "end", "ticks", "replica", "requests", "new", "contexts", "waiting", "used", "again", "joules",
)  # fmt: skip


class Record:
    """Columns of iterations in the order in which they form: start, end [ps], replica, requests, new tokens, contexts
    (with new tokens), requests that wait, blocks that are held, tokens computed once more, energy [J]. by_request:
    energy [J] of each request, its share of every iteration by its new tokens. by_cause: energy [J] of all; work: ps of
    a device's work of each of LIMITS at its full rate, of all. decode: what prices a token of each request without a
    list of pieces, as most iterations are; None: costs have nothing of the kind."""

    def __init__(self, costs: Costs, requests: int, sample: Sample | None = None) -> None:
        self.costs, self.sample = costs, sample
        self.decode: Callable[[list[int]], Cost] | None = getattr(costs, "decode_of", None)
        self.start, self.end, self.ticks = array("q"), array("q"), array("q")
        self.replica, self.requests, self.new, self.contexts = array("i"), array("i"), array("i"), array("q")
        self.waiting, self.used, self.again, self.joules = array("i"), array("q"), array("i"), array("d")
        self.beside = 0.0  # energy that is in no iteration [J]
        self.others = 0.0  # energy of tokens that are no request's [J]
        self.rest_w: float | None = None  # of devices that have nothing to do; None: not known
        self.rest_j: float | None = None  # theirs, which is in `beside`
        self.by_request, self.by_cause, self.work = [0.0] * requests, list[float](), [0.0] * len(LIMITS)

    def price(self, made: Iteration) -> int:
        """The time of an iteration on all stages [ps]; its energy is noted."""
        if self.decode and max(made.new) == 1 and min(made.cached):
            cost = self.decode(made.cached)
            if self.sample and (stratum := self.sample.strata[DECODE]).takes(cost[0]):
                stratum.keep(pieces_of(made))
        else:
            pieces = pieces_of(made)
            cost = self.costs.of(pieces)
            if self.sample:
                self.sample.see(pieces, cost[0])
        return self.noted(made, cost)

    def noted(self, made: Iteration, cost: Cost, more: int = 0) -> int:
        """An iteration and what it costs; more: tokens in it that are no request's."""
        ps, joules = cost[0], cost[JOULES:]
        tokens, total = sum(made.new) + more, 0.0
        for j in joules:
            total += j  # one after the other, in whatever version of Python
        self.new.append(tokens)
        self.contexts.append(tokens + sum(made.cached))
        self.requests.append(len(made.requests))
        self.again.append(_again(made))
        for i, work in enumerate(cost[1:JOULES]):
            self.work[i] += work
        self.joules.append(total)
        if joules:
            self.by_cause += [0.0] * (len(joules) - len(self.by_cause))
            for i, j in enumerate(joules):
                self.by_cause[i] += j
            each = total / tokens
            self.others += each * more
            for r, n in zip(made.requests, made.new, strict=True):
                self.by_request[r.number] += each * n
        return max(round(ps), 1)

    def extend(self, other: "Record") -> None:
        """Columns of another one behind these."""
        for name in COLUMNS:
            getattr(self, name).extend(getattr(other, name))

    def add(self, other: "Record") -> None:
        """Another one of the same requests and causes, behind this one."""
        self.extend(other)
        causes = max(len(self.by_cause), len(other.by_cause))
        mine, its = (one.by_cause + [0.0] * (causes - len(one.by_cause)) for one in (self, other))
        self.by_cause = [a + b for a, b in zip(mine, its, strict=True)]
        self.by_request = [a + b for a, b in zip(self.by_request, other.by_request, strict=True)]
        self.work = [a + b for a, b in zip(self.work, other.work, strict=True)]
        self.beside += other.beside

    def seen(self, replica: int, scheduler: Scheduler, made: Iteration) -> None:
        """It has formed."""
        self.replica.append(replica)
        self.start.append(made.start)
        self.ticks.append(made.ticks)
        self.end.append(made.end)
        self.waiting.append(len(scheduler.waiting))
        self.used.append(scheduler.blocks.used)


def _again(made: Iteration) -> int:
    """Tokens of an iteration that were in a cache which has been lost; each request is told of its own."""
    found = 0
    for r, n, p in zip(made.requests, made.new, made.cached, strict=True):
        if r.lost > p:
            more = min(p + n, r.lost) - p
            r.again += more
            found += more
    return found


class DraftedRecord(Record):
    """Of iterations whose drafts are made on a machine of their own. drafting_ps: in which it works; waited_ps: of
    iterations in which the target waits for it."""

    costs: Joined
    drafting_ps = waited_ps = 0.0

    def price(self, made: Iteration) -> int:
        """The same, noted for what each machine takes at rest."""
        found = super().price(made)
        self.drafting_ps += self.costs.last.drafting_ps
        self.waited_ps += self.costs.last.waited_ps
        return found


class FilledRecord(Record):
    """Of iterations that fine-tuning fills up."""

    def __init__(self, costs: Costs, requests: int, sample: Sample | None, filled: Filled) -> None:
        super().__init__(costs, requests, sample)
        self.filled = filled

    def price(self, made: Iteration) -> int:
        """The same, with tokens of fine-tuning."""
        pieces = pieces_of(made)
        step, cost = self.filled.fill(pieces)
        every = [*pieces, *([Piece(step.new, step.cached, 0)] if step else [])]
        if self.sample and every:
            self.sample.see(every, cost[0])
        return self.noted(made, cost, step.new if step else 0)


class StagesRecord(Record):
    """Of iterations that are one of `stages` each, which take as much of the energy of all of them."""

    def __init__(self, costs: Costs, requests: int, sample: Sample | None, stages: int) -> None:
        super().__init__(costs, requests, sample)
        self.stages = stages

    def noted(self, made: Iteration, cost: Cost, more: int = 0) -> int:
        """The time on all stages, and the energy of one."""
        ps, *joules = cost
        return super().noted(made, [ps, *(j / self.stages for j in joules)], more)
