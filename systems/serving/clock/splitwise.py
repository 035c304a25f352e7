"""Machines for prompts and for tokens, as Splitwise's simulator has them: runs of equal iterations, flows of caches.

A request is a prompt task, which makes its first token, and a token task for the others. The time of an iteration does
not depend on contexts, so that a machine runs iterations of one batch as one block, until a request ends or one comes
that may join.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.schedulers.live import LiveRequest, by_arrival

Price = Callable[[list[int], list[int]], int]  # ticks of an iteration by new tokens and those cached


class Limits(NamedTuple):
    """most: requests of a batch; tokens: of a batch, None: the batch is kept and filled up, as Orca does, and not made
    anew; patience: how often a token task may be passed over before it comes first."""

    most: int
    tokens: int | None = None
    patience: int = 0


class Task:
    """The prompt of a request, or its other tokens. left: tokens that it still makes; passed: how often it was not in
    a new batch though it was the first of its request."""

    __slots__ = ("left", "passed", "prompt", "request")

    def __init__(self, request: LiveRequest, *, prompt: bool) -> None:
        self.request, self.prompt, self.passed = request, prompt, 0
        self.left = 1 if prompt else request.output - 1

    @property
    def new(self) -> int:
        """Tokens in an iteration."""
        return self.request.prompt if self.prompt else 1


class Placed(NamedTuple):
    """A request, the machines of its tasks, and its token task."""

    request: LiveRequest
    prompt_on: "Machine"
    tokens_on: "Machine"
    tokens: Task


class Run(NamedTuple):
    """A machine's iterations of one batch from `start` on."""

    machine: "Machine"
    start: int
    each: int
    iterations: int
    batch: list[Task]


class Machine:
    """pool: requests as they arrived, with the tasks of each, in order. Who waits: `pending` by how often it was passed
    over when it came there; `prompts` as they came; `preempted` as they were. batch: those that went on stand first."""

    def __init__(self, events: Events, price: Price, limits: Limits, ended: Callable[["Run"], object]) -> None:
        self.events, self.price, self.limits, self.ended = events, price, limits, ended
        self.pool = dict[LiveRequest, list[Task]]()
        self.pending, self.prompts, self.preempted, self.batch = (list[Task]() for _ in range(4))
        self.start = self.each = self.until = self.pending_tokens = 0
        self.prompt_done: Callable[[Task, int], object] = lambda task, now: None

    def come(self, task: Task, now: int) -> None:
        """A task joins the pool; a block of token tasks that it may join ends with the iteration under way."""
        self.pool.setdefault(task.request, []).append(task)
        self._waits(task)
        if task.prompt:
            self.prompts.append(task)
        if not self.batch:
            self._go_on(now)
        elif not any(each.prompt for each in self.batch) and self._may_join(task):
            self._end_at(self.start + ((now - self.start) // self.each + 1) * self.each)

    def _waits(self, task: Task) -> None:
        insort(self.pending, task, key=lambda each: (each.passed, each.request.arrival))

    def _may_join(self, task: Task) -> bool:
        """A batch of token tasks: if it has a place, or ends for a prompt."""
        most, room = self.limits.most, self.limits.tokens
        if len(self.batch) < most and (room is None or len(self.batch) + task.new <= room):
            return True
        return room is not None and task.prompt and task.new <= room

    def _end_at(self, tick: int) -> None:
        if tick < self.until:
            self.until = tick
            self.events.at(tick, partial(self._block_ended, self.start))

    def _go_on(self, now: int) -> None:
        old = self.batch
        chosen = self._filled_up() if self.limits.tokens is None else self._made_anew(self.limits.tokens)
        for task in (task for task in old if task not in chosen):
            self._waits(task)
            self.preempted.append(task)
        for waiting in (self.pending, self.prompts, self.preempted):
            waiting[:] = [task for task in waiting if task not in chosen]
        self.batch = [*(task for task in old if task in chosen), *(task for task in chosen if task not in old)]
        for first, *_ in self.pool.values():
            first.passed += first not in self.batch
        if self.batch:
            self.start, self.each = now, self.price([task.new for task in self.batch], [0] * len(self.batch))
            self.until = now + self.each * min(task.left for task in self.batch)
            self.events.at(self.until, partial(self._block_ended, now))

    def _firsts(self) -> list[Task]:
        """The first task of each request, as these arrived."""
        return [self.pool[request][0] for request in by_arrival(list(self.pool))]

    def _filled_up(self) -> list[Task]:
        """The batch, and then tasks in the order in which their requests arrived."""
        others = [task for task in self._firsts() if task not in self.batch]
        return [*self.batch, *others[: self.limits.most - len(self.batch)]]

    def _made_anew(self, most_tokens: int) -> list[Task]:
        """By classes: who was passed over too often, prompts, who was preempted, who ran, all others. The first of a
        class that does not fit ends it; a request is there once."""
        patience = self.limits.patience
        classes = (
            takewhile(lambda task: task.passed >= patience, self.pending),
            self.prompts, self.preempted, self.batch, self._firsts(),
        )  # fmt: skip
        batch, tokens = dict[LiveRequest, Task](), 0
        for some in classes:
            for task in [task for task in some if task.request not in batch]:
                if batch and (len(batch) == self.limits.most or tokens + task.new > most_tokens):
                    break
                batch[task.request] = task
                tokens += task.new
        return list(batch.values())

    def _block_ended(self, start: int, now: int) -> None:
        if not self.batch or (start, now) != (self.start, self.until):
            return  # it was cut short
        batch, count = self.batch, (now - self.start) // self.each
        self.ended(Run(self, self.start, self.each, count, batch))
        for task in batch:
            task.left -= count
        self.batch = [task for task in batch if task.left]
        for task in (task for task in batch if not task.left):
            self.pool[task.request].remove(task)
            if not self.pool[task.request]:
                del self.pool[task.request]
            if task.prompt:
                task.request.first_token = now
                self.pending_tokens -= task.request.prompt
                self.prompt_done(task, now)
            else:
                task.request.completion = now
                self.pending_tokens -= 1
        self._go_on(now)


Choice = Callable[[Sequence[Machine]], Machine]


def fewest_requests(machines: Sequence[Machine]) -> Machine:
    """That with the fewest requests in its pool."""
    return min(machines, key=lambda machine: len(machine.pool))


def fewest_tokens(machines: Sequence[Machine]) -> Machine:
    """That with the fewest tokens that are still to come."""
    return min(machines, key=lambda machine: machine.pending_tokens)


def in_turn() -> Choice:
    """One after the other."""
    turn = 0

    def choose(machines: Sequence[Machine]) -> Machine:
        nonlocal turn
        turn += 1
        return machines[(turn - 1) % len(machines)]

    return choose


def run(
    requests: Sequence[LiveRequest],
    prompts: tuple[Sequence[Machine], Choice],
    tokens: tuple[Sequence[Machine], Choice] | None,
    flow_ticks: Callable[[LiveRequest], int],
    events: Events,
) -> list[Placed]:
    """Both tasks on one machine if there are none for `tokens`; else the machine of each is chosen when the request
    arrives, and its cache flows from one to the other."""

    def arrive(request: LiveRequest, now: int) -> None:
        machine = prompts[1](prompts[0])
        prompt, then = Task(request, prompt=True), Task(request, prompt=False)
        found = placed[request] = Placed(request, machine, tokens[1](tokens[0]) if tokens else machine, then)
        machine.pending_tokens += request.prompt + 1
        events.at(now, partial(machine.come, prompt))
        if found.tokens_on is machine:
            events.at(now, partial(machine.come, then))

    def flow(task: Task, now: int) -> None:
        found = placed[task.request]
        if found.tokens_on is not found.prompt_on:
            events.at(now + flow_ticks(task.request), partial(found.tokens_on.come, found.tokens))

    placed = dict[LiveRequest, Placed]()
    for machine in prompts[0]:
        machine.prompt_done = flow
    for request in requests:
        events.at(request.arrival, partial(arrive, request))
    events.run()
    return list(placed.values())
