"""Machines for prompts and for tokens, as Splitwise's simulator has them: runs of equal iterations, flows of caches.

A request is a prompt task, which makes its first token, and a token task for the others. The time of an iteration does
not depend on contexts, so that a machine runs iterations of one batch as one block, until a request ends or one comes
that may join.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.schedulers.live import LiveRequest

Price = Callable[[list[int], list[int]], int]  # ticks of an iteration by new tokens and those cached


class Limits(NamedTuple):
    """most: requests of a batch; tokens: of a batch, None: the batch is kept and filled up, as Orca does, and not made
    anew; patience: how often a token task may be passed over before it comes first."""

    most: int
    tokens: int | None = None
    patience: int = 0


class Task:
    """A request on its machines. left: tokens that its token task still makes; passed: how often that was not in a new
    batch; since: in its machine."""

    __slots__ = ("left", "passed", "prompt_on", "request", "tokens_on", "waits")

    def __init__(self, request: LiveRequest, prompt_on: "Machine", tokens_on: "Machine") -> None:
        self.request, self.prompt_on, self.tokens_on = request, prompt_on, tokens_on
        self.left, self.passed, self.waits = request.output - 1, 0, True

    @property
    def new(self) -> int:
        """Tokens of its open task in an iteration."""
        return self.request.prompt if self.waits else 1


class Run(NamedTuple):
    """A machine's iterations of one batch from `start` on; prompts: whether its tasks were prompts."""

    machine: "Machine"
    start: int
    each: int
    iterations: int
    batch: list[Task]
    prompts: list[bool]


class Machine:
    """A pool of tasks in the order in which they came, and the batch that runs."""

    def __init__(self, events: Events, price: Price, limits: Limits, ended: Callable[["Run"], object]) -> None:
        self.events, self.price, self.limits, self.ended = events, price, limits, ended
        self.pool, self.batch, self.preempted, self.ran = (list[Task]() for _ in range(4))
        self.start = self.each = self.until = self.pending_tokens = 0
        self.runs = False
        self.prompt_done: Callable[[Task, int], object] = lambda task, now: None

    def come(self, task: Task, now: int) -> None:
        """A task joins the pool; a block of token tasks that it may join ends with the iteration under way."""
        self.pool.append(task)
        if not self.runs:
            self._go_on(now)
        elif not any(each.waits for each in self.batch) and self._may_join(task):
            self._end_at(self.start + ((now - self.start) // self.each + 1) * self.each)

    def _may_join(self, task: Task) -> bool:
        if len(self.batch) >= self.limits.most:
            return False
        tokens = 0 if task.waits else len(self.batch)
        return self.limits.tokens is None or tokens + task.new <= self.limits.tokens

    def _end_at(self, tick: int) -> None:
        if tick < self.until:
            self.until = tick
            self.events.at(tick, partial(self._block_ended, self.start))

    def _go_on(self, now: int) -> None:
        self.batch = self._filled_up() if self.limits.tokens is None else self._made_anew(self.limits.tokens)
        self.runs = bool(self.batch)
        if not self.runs:
            return
        self.start, self.each = now, self.price([task.new for task in self.batch], [0] * len(self.batch))
        prompts = any(task.waits for task in self.batch)
        self.until = now + self.each * (1 if prompts else min(task.left for task in self.batch))
        self.events.at(self.until, partial(self._block_ended, now))

    def _filled_up(self) -> list[Task]:
        """The batch, and then tasks in the order in which their requests arrived."""
        batch = [task for task in self.batch if task in self.pool]
        others = by_arrival(task for task in self.pool if task not in batch)
        return [*batch, *others[: self.limits.most - len(batch)]]

    def _made_anew(self, most_tokens: int) -> list[Task]:
        """By classes: who was passed over too often, prompts, who was preempted, who ran, all others. The first of a
        class that does not fit ends it."""
        open_tokens = [task for task in self.pool if not task.waits]
        ran = [task for task in self.ran if task in open_tokens]
        classes = (
            [task for task in self.preempted if task.passed >= self.limits.patience],
            [task for task in self.pool if task.waits],
            self.preempted,
            ran,
            by_arrival(open_tokens),
        )
        batch, tokens = list[Task](), 0
        for some in classes:
            for task in [task for task in some if task not in batch]:
                if batch and (len(batch) == self.limits.most or tokens + task.new > most_tokens):
                    break
                batch.append(task)
                tokens += task.new
        self.preempted = [task for task in self.preempted if task not in batch]
        for task in (task for task in open_tokens if task not in batch):
            if task in ran:
                insort(self.preempted, task, key=lambda each: (each.passed, each.request.arrival))
            task.passed += 1
        return batch

    def _block_ended(self, start: int, now: int) -> None:
        if not self.runs or (start, now) != (self.start, self.until):
            return  # it was cut short
        prompts, count = [task.waits for task in self.batch], (now - self.start) // self.each
        self.ran = [task for task in self.batch if not task.waits]
        self.ended(Run(self, self.start, self.each, count, self.batch, prompts))
        for task, prompt in zip(self.batch, prompts, strict=True):
            if prompt:
                task.waits, task.request.first_token = False, now
                task.prompt_on.pending_tokens -= task.request.prompt
                if task.tokens_on is not self:
                    self.pool.remove(task)
                    self.prompt_done(task, now)
                continue
            task.left -= count
            if not task.left:
                task.request.completion = now
                self.pool.remove(task)
                self.pending_tokens -= 1
        self._go_on(now)


def by_arrival(tasks: Iterable[Task]) -> list[Task]:
    """As their requests arrived."""
    return sorted(tasks, key=lambda task: (task.request.arrival, task.request.number))


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
) -> list[Task]:
    """Both tasks on one machine if there are none for `tokens`; else the machine of each is chosen when the request
    arrives, and its cache flows from one to the other."""

    def arrive(request: LiveRequest, now: int) -> None:
        machine = prompts[1](prompts[0])
        task = Task(request, machine, tokens[1](tokens[0]) if tokens else machine)
        machine.pending_tokens += request.prompt + 1
        tasks.append(task)
        machine.come(task, now)

    def flow(task: Task, now: int) -> None:
        events.at(now + flow_ticks(task.request), partial(task.tokens_on.come, task))

    tasks = list[Task]()
    for machine in prompts[0]:
        machine.prompt_done = flow
    for request in requests:
        events.at(request.arrival, partial(arrive, request))
    events.run()
    return tasks
