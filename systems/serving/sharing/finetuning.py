"""Fine-tuning beside requests, as FlexLLM has it: what a limit leaves of an iteration goes to a sequence's tokens.

Requests come first, by their scheduler's rule. Then tokens of fine-tuning are added up to the largest number with which
the iteration takes at most the limit of a token; without requests, too, as long as some are still to come. They are of
one pass of one sequence: what a second one keeps has no room, and the way back begins when the way forward has ended.
"""

import re
from collections.abc import Callable, Sequence
from math import fsum
from typing import Any, NamedTuple

from pimloom.arch.error import of_option
from pimloom.arch.llm import LlmSpec
from pimloom.systems.devices.device import Capacity, Device
from pimloom.systems.serving.pricing.costs import Cost, Costs, Piece, added
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.workload.finetuning import ATTENTION, Job, Step, activation_bytes, adapter_bytes

GRAIN = 16  # tokens: an iteration has a multiple of them, or all that a pass has left [design]
SUCH_AS = "such as sequence=1024 or sequence=1024,rank=16"


class FineTuning(NamedTuple):
    """Tokens of a sequence, and the adapters' rank."""

    sequence: int
    rank: int

    def more_bytes(self, llm: LlmSpec, tp: int) -> float:
        """What it keeps on a device."""
        return (activation_bytes(llm, self.sequence) + adapter_bytes(llm, self.rank)) / tp


def parse_finetuning(text: str, llm: LlmSpec) -> FineTuning:
    """Raises UserError."""
    found = {"rank": 16}
    for word in text.split(","):
        key, _, value = (part.strip() for part in word.partition("="))
        if key not in ("sequence", "rank") or not re.fullmatch(r"\d{1,7}", value, re.ASCII) or not int(value):
            raise of_option("finetune", text, f"expected sequence and rank, each at least 1, {SUCH_AS}, got {word!r}")
        found[key] = int(value)
    if "sequence" not in found:
        raise of_option("finetune", text, f"expected the tokens of a sequence, {SUCH_AS}")
    if llm.num_experts > 1:
        raise of_option(
            "finetune", text, f"{llm.name} has experts, whose stored activations are not modelled; take a dense model"
        )
    if found["sequence"] > llm.max_position_embeddings:
        raise of_option(
            "finetune", text, f"sequence: {llm.name} has {llm.max_position_embeddings:,} positions; take fewer"
        )
    return FineTuning(**found)


class Fuller:
    """A device with less room for caches."""

    def __init__(self, device: Device, more_bytes: float) -> None:
        self._device, self._more_bytes = device, more_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def between(self) -> "Fuller":
        """The device whose steps are read between, with as much less room."""
        coarse: Device = getattr(self._device, "between", lambda: self._device)()
        return self if coarse is self._device else Fuller(coarse, self._more_bytes)

    def capacity(self) -> Capacity:
        """See `Device`."""
        of = self._device.capacity()
        left = of.memory_bytes - of.weight_bytes - self._more_bytes
        return of._replace(tokens=max(min(int(left // float(of.cache_bytes_per_token)), of.tokens), 0))


class Filled:
    """Costs of an iteration with as many tokens of a job as a limit leaves room for. limit_ps: of an iteration; step:
    what was added last, None: nothing."""

    def __init__(self, costs: Costs, job: Job, limit_ps: float) -> None:
        self.costs, self.job, self.limit_ps = costs, job, limit_ps
        self.pairs: dict[int, Cost] = {}

    def fill(self, pieces: Sequence[Piece]) -> tuple[Step | None, Cost]:
        """The largest step that fits, which is taken, and the cost of all."""
        whole = self.job.next(self.job.length).new
        sizes = [*range(GRAIN, whole, GRAIN), whole]
        low, high, found = 0, len(sizes), None
        while low < high:  # steps of a larger size take longer
            middle = (low + high) // 2
            step = self.job.next(sizes[middle])
            cost = self._with(pieces, step)
            if cost[0] <= self.limit_ps:
                low, found = middle + 1, (step, cost)
            else:
                high = middle
        if found is None:
            return None, self.costs.of(pieces) if pieces else [0.0]
        self.job.took(found[0])
        return found

    def fits_alone(self) -> bool:
        """Whether an iteration without requests has room for a step at all."""
        step = self.job.next(min(GRAIN, self.job.next(self.job.length).new))
        return self._with([], step)[0] <= self.limit_ps

    def peak(self) -> float:
        """ps of a sequence alone, as fast as it goes."""
        return fsum(self.passes())

    def passes(self) -> list[float]:
        """ps of a sequence forward and back, without requests."""
        return [self._with([], Step(self.job.length, 0, backward))[0] for backward in (False, True)]

    def _with(self, pieces: Sequence[Piece], step: Step) -> Cost:
        cost = self.costs.of([*pieces, Piece(step.new, step.cached, 0)])
        if not step.backward:
            return cost
        pairs = step.new * step.cached + step.new * (step.new + 1) // 2
        return [max(one, 0.0) for one in added([(1.0, cost), ((ATTENTION - 1) * pairs, self._pair(step.new))])]

    def _pair(self, n: int) -> Cost:
        """What a token costs that another one attends to, by two steps of half as many tokens, of which one has as many
        before it: no context is longer than the sequence."""
        if n not in self.pairs:
            half = n // 2 or 1
            far, near = (self.costs.of([Piece(half, before, 0)]) for before in (half, 0))
            self.pairs[n] = added([(1 / half**2, far), (-1 / half**2, near)])
        return self.pairs[n]


class Beside(Scheduler):
    """A scheduler whose machine has something else to do. left: requests that have not ended, of all replicas, one
    number; an iteration without requests is that of the other work, if any of it `fits`."""

    def __init__(self, scheduler: Scheduler, left: list[int], fits: Callable[[], bool]) -> None:
        self.scheduler, self.left, self.fits = scheduler, left, fits
        self.waiting, self.gaps, self.came = scheduler.waiting, scheduler.gaps, scheduler.came
        self.blocks = scheduler.blocks

    def never(self, request: LiveRequest) -> str | None:
        """As the scheduler has it."""
        return self.scheduler.never(request)

    def form(self, now: int) -> Iteration | None:
        """Requests', or none's while others are still to come."""
        made = self.scheduler.form(now)
        if made is None and self.left[0] and not self.waiting and self.fits():
            return Iteration([], [])
        return made

    def ran(self, iteration: Iteration, now: int) -> None:
        """As the scheduler has it."""
        if iteration.requests:
            self.scheduler.ran(iteration, now)
            self.left[0] -= sum(request.completion == now for request in iteration.requests)
        else:
            self.came.append(0)
