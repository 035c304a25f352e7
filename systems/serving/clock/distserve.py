"""Prompts and decode on replicas of their own, as DistServe's simulator has it: caches pass in no time.

A replica is a ring of workers, each with a stage of the model. A worker that ends an iteration and has work goes
on at once; one that is woken starts at that tick, after all that was scheduled for it before.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest

MOST_CACHED = 50_000  # tokens of the contexts of a decode iteration, a literal of the simulator
Price = Callable[[Iteration], int]
Started = Callable[["Worker", str, Iteration], object]
Batch = list[LiveRequest]


class Worker:
    """A stage. The others than the first one of a ring have prompts as batches on their way; decode is regrouped at
    each."""

    def __init__(self, events: Events, price: Price, stages: int, started: Started) -> None:
        self.events, self.price, self.stages, self.started = events, price, stages, started
        self.next: Worker = self
        self.first = self.last = True
        self.most_tokens = 0  # of the prompts of an iteration
        self.prompts, self.decodes = deque[LiveRequest](), deque[LiveRequest]()
        self.passed = deque[Batch]()  # prompts that left the stage before
        self.prefilling = 0  # requests of the prompts under way
        self.awake = False
        self.prefilled: Callable[[Batch, int], object] = lambda batch, now: None

    def wake(self, now: int) -> None:
        """There is work."""
        if not self.awake:
            self.awake = True
            self.events.at(now, self.go_on)

    def go_on(self, now: int) -> None:
        """A prompt if one waits, else decode, else sleep."""
        for kind in ("prefill", "decode"):
            if batch := self._next(kind):
                self._start(kind, batch, now)
                return
        self.awake = False

    def _next(self, kind: str) -> Batch:
        if kind == "decode":
            return self._some_decodes()
        if not self.first:
            return self.passed.popleft() if self.passed else []
        return self._some_prompts()

    def _some_prompts(self) -> Batch:
        batch, left = Batch(), self.most_tokens
        while self.prompts and self.prompts[0].prompt <= left:
            batch.append(self.prompts.popleft())
            left -= batch[-1].prompt
        return batch

    def _some_decodes(self) -> Batch:
        batch, left = Batch(), MOST_CACHED
        while self.decodes and self.decodes[0].cached + 1 <= left:
            batch.append(self.decodes.popleft())
            left -= batch[-1].cached + 1
        return batch

    def _start(self, kind: str, batch: Batch, now: int) -> None:
        made = Iteration(batch, [r.prompt for r in batch] if kind == "prefill" else [1] * len(batch))
        made.start, made.ticks = now, -(-self.price(made) // self.stages)
        made.end = now + made.ticks
        self.prefilling = len(batch) if kind == "prefill" else 0
        for request in batch:
            if request.first_scheduled < 0:
                request.first_scheduled = now
        self.started(self, kind, made)
        self.events.at(made.end, lambda end: self._ended(kind, batch, end))

    def _ended(self, kind: str, batch: Batch, now: int) -> None:
        self.prefilling = 0
        if not self.last:
            if kind == "prefill":
                self.next.passed.append(batch)
            else:
                self.next.decodes.extend(batch)
            self.next.wake(now)
        elif kind == "prefill":
            for request in batch:
                request.cached, request.first_token = request.prompt, now
            self.prefilled(batch, now)
        else:
            self._token(batch, now)
        self.go_on(now)

    def _token(self, batch: Batch, now: int) -> None:
        """A round trip is a token; `output` of them, though the first token came with the prompt."""
        for request in batch:
            request.cached += 1
            if request.cached == request.last:
                request.completion = now
            else:
                self.next.decodes.append(request)
        if self.next.decodes:
            self.next.wake(now)


def ring(events: Events, price: Price, stages: int, most_tokens: int, started: Started) -> list[Worker]:
    """The workers of a replica."""
    workers = [Worker(events, price, stages, started) for _ in range(stages)]
    for i, worker in enumerate(workers):
        worker.next, worker.most_tokens = workers[(i + 1) % stages], most_tokens
        worker.first, worker.last = i == 0, i == stages - 1
    return workers


def disaggregated(
    requests: Sequence[LiveRequest], events: Events, prefill: Sequence[list[Worker]], decode: Sequence[list[Worker]]
) -> None:
    """Prompts on the replicas `prefill`, the least loaded first; then decode where the fewest wait."""
    heads = [workers[0] for workers in decode]

    def prefilled(batch: Batch, now: int) -> None:
        for request in batch:
            head = min(heads, key=lambda worker: len(worker.decodes))
            head.decodes.append(request)
            head.wake(now)

    for workers in prefill:
        workers[-1].prefilled = prefilled
    _arrive(requests, events, prefill)


def colocated(requests: Sequence[LiveRequest], events: Events, replicas: Sequence[list[Worker]]) -> None:
    """Both on each replica, never mixed, prompts first; a request stays where its prompt was."""
    for workers in replicas:

        def stay(batch: Batch, now: int, head: Worker = workers[0]) -> None:
            head.decodes.extend(batch)
            head.wake(now)

        workers[-1].prefilled = stay
    _arrive(requests, events, replicas)


def _arrive(requests: Sequence[LiveRequest], events: Events, replicas: Sequence[list[Worker]]) -> None:
    heads = [workers[0] for workers in replicas]

    def arrive(request: LiveRequest, now: int) -> None:
        head = min(heads, key=lambda worker: worker.prefilling + len(worker.prompts))
        head.prompts.append(request)
        head.wake(now)

    for request in requests:
        events.at(request.arrival, partial(arrive, request))
    events.run()
