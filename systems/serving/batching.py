"""Continuous batching: at each iteration finished requests leave, waiting ones join, and all grow by a token.

Scheduling by iteration as in Orca (Yu et al., OSDI 2022), pages of cache and preemption as in vLLM (Kwon et al., SOSP
2023). Without `chunk` prompts are processed elsewhere, as NeuPIMs assumes: a request joins with the cache of its
prompt, and all its output tokens come from iterations here; with it they are computed here, too (see `turns`), and once
more if the request had to yield. Nothing here knows the machine: it asks `step`.
"""

from collections import deque
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.mappers.kv_pages import CacheRoom
from pimloom.systems.serving.outcome import REQUEST, Batched, joined
from pimloom.systems.serving.pace import Each, Pace
from pimloom.systems.serving.places import in_turn, least_load
from pimloom.systems.serving.turns import step_of, turns
from pimloom.systems.serving.workload import Workload

POLICIES = ("min-load", "round-robin")
Step = Callable[..., float]  # contexts [tokens] and channels of a batch, int64; with a chunk a `Batch` first -> seconds


class Rules(NamedTuple):
    """How requests are batched.

    batch: most requests at once; longest: positions of the model or its sliding window, the lesser, at which a context
    stops growing; policy: 'min-load' (Algorithm 2 over what is resident) or 'round-robin'; cost: load of a request by
    its context, for 'min-load', of int64 tokens or an array of them; kept_alive: a request that ends is replaced by a
    random row of the workload; chunk: most tokens of an iteration, if prompts are computed in it.
    """

    batch: int
    longest: int
    policy: str
    cost: Callable[[Any], Any]
    kept_alive: bool
    seed: int = 0
    chunk: int | None = None


def decode(
    workload: Workload,
    pages: CacheRoom,
    rules: Rules,
    step: Step,
    *,
    warm_up: int = 0,
    iterations: int | None = None,
    every: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Batched:
    """Decode `iterations`, or until all requests have ended, after `warm_up` iterations that take no time.

    progress: told how many iterations are done; without `iterations`, how many requests have ended. every: `step` is
    asked at each such iteration (see `Pace`). Raises UserError if a request fits in no channel, or the batch that is to
    be kept alive does not fit in all.
    """
    return warmed_up(workload, pages, rules, warm_up).decode(step, iterations, every, progress)


def warmed_up(workload: Workload, pages: CacheRoom, rules: Rules, iterations: int) -> "Floor":
    """After so many iterations that take no time and count for nothing. Raises as `decode`."""
    floor = Floor(workload, pages, rules)
    floor.check_alive()
    for _ in range(iterations):
        floor.iterate(lambda *batch: 0.0)
    if iterations:
        floor.forget()
    floor.check_alive()
    return floor


class Floor:
    """Requests that wait, those that are resident (in the order in which they joined), and the clock."""

    def __init__(self, workload: Workload, pages: CacheRoom, rules: Rules) -> None:
        self.workload, self.pages, self.rules = workload, pages, rules
        self.rng = np.random.default_rng([rules.seed, 1])  # the workload was drawn from [seed]
        self.resident = np.zeros(0, REQUEST)
        self.waiting: deque[np.ndarray] = deque()  # REQUEST[1] each
        self.arrived, self.pointer = 0, 0  # requests that have come so far; next channel of round robin
        self.now_s = 0.0
        self.ended: list[np.ndarray] = []
        self.finished = 0
        self.iterations: list[tuple[int, int, float, int]] = []  # batch, tokens, seconds, tokens that came
        self.gaps: list[np.ndarray] = []
        self.preemptions = 0
        self._check_sizes()

    def copy(self) -> "Floor":
        """The same state; what becomes of either is nothing to the other."""
        other = copy(self)
        other.rng, other.pages, other.resident = deepcopy(self.rng), self.pages.copy(), self.resident.copy()
        other.waiting = deque(request.copy() for request in self.waiting)
        other.ended, other.iterations, other.gaps = self.ended.copy(), self.iterations.copy(), self.gaps.copy()
        return other

    def decode(self, step: Step, iterations: int | None, every: int, progress: Callable[[int], None]) -> Batched:
        """As the function `decode`, from this state on, which it changes."""
        assert iterations is not None or not self.rules.kept_alive
        pace, done = Pace(step, every) if self.rules.chunk is None else Each(step), 0
        while (iterations is None or done < iterations) and self.iterate(pace):
            done += 1
            progress(done if iterations is not None else self.finished)
        return self.result(pace)

    def iterate(self, step: Step) -> bool:
        """One iteration; False if no request is left."""
        self._arrive()
        if not len(self.resident) and not self.waiting:
            if self.arrived == len(self.workload.arrival_s):
                return False
            self.now_s = float(self.workload.arrival_s[self.arrived])
            self._arrive()
        self._grow()
        self._admit()
        at, (seconds, ran, got) = self.resident, self._run(step)
        self.now_s += seconds
        contexts = self._contexts(at) if self.rules.chunk is None else np.minimum(at["cached"], self.rules.longest)
        self.iterations.append((int(ran.sum()), int(contexts[ran].sum()), seconds, int(got.sum())))
        counts = got if self.rules.chunk is None else got & (at["generated"] > 0)
        self.gaps.append(self.now_s - at["last_s"][counts])
        at["generated"] += got
        at["last_s"][got] = self.now_s
        at["first_token_s"][got & (at["generated"] == 1)] = self.now_s
        done = at["generated"] == at["output"]
        if done.any():
            for request in at["request"][done].tolist():
                self.pages.release(request)
            self.ended.append(at[done])
            self.finished += int(done.sum())
            self.resident = at[~done]
        return True

    def _run(self, step: Step) -> tuple[float, np.ndarray, np.ndarray]:
        """An iteration: its seconds, who is in it, and who has a new token behind it."""
        at, wanted = self.resident, self.resident["prompt"] + self.resident["generated"]
        if self.rules.chunk is None:
            every = np.ones(len(at), bool)
            return step(self._contexts(at), at["channel"].copy()), every, every
        asked = at["cached"], wanted, at["generated"]
        new = turns(*asked, self.rules.chunk)
        seconds = step(step_of(*asked, new), at["channel"][new > 0])
        at["cached"] += new
        return seconds, new > 0, at["cached"] == wanted

    def forget(self) -> None:
        """What happened so far was the warm-up."""
        self.ended, self.iterations, self.gaps, self.preemptions = [], [], [], 0
        for requests in (self.resident, *self.waiting):
            for name in ("arrival_s", "start_s", "first_token_s"):
                requests[name] = np.nan

    def result(self, pace: Pace | Each) -> Batched:
        """All that happened."""
        requests = joined([*self.ended, self.resident, *self.waiting])
        batch, tokens, seconds, came = np.array(self.iterations).reshape(-1, 4).T
        return Batched(
            batch.astype(np.int64),
            tokens.astype(np.int64),
            seconds,
            came.astype(np.int64),
            np.array(pace.simulated, bool),
            pace.weights,
            pace.error,
            requests[np.argsort(requests["request"])],
            np.concatenate([np.zeros(0), *self.gaps]),
            self.preemptions,
            self.now_s,
        )

    def check_alive(self) -> None:
        """Raise UserError if a batch that is to be kept alive does not fit."""
        if not self.rules.kept_alive:
            return
        if self.rules.batch > self._rows():
            raise UserError(
                f"--batch {self.rules.batch}: more requests than the {self._rows():,} {self.pages.unit} of "
                f"{self.pages.everywhere}; lower --batch or share layers with --tp"
            )
        self._arrive()
        there = joined([self.resident, *self.waiting])
        contexts = self._contexts(there)
        needed, tokens = int(self.pages.rows(contexts).sum()), int(contexts.sum())
        if needed <= self._rows():
            self._grow()
            self._admit()
        if self.waiting and needed <= self._rows() and tokens > self.pages.most_tokens:
            raise UserError(
                f"--batch {self.rules.batch}: the caches need room for {tokens:,} tokens in all layers, there is room "
                f"for {self.pages.most_tokens:,}; lower --batch or share layers with --tp"
            )
        if self.waiting:
            raise UserError(
                f"--batch {self.rules.batch}: the caches need {needed:,} {self.pages.unit} of the {self._rows():,} of "
                f"{self.pages.everywhere}; lower --batch or share layers with --tp"
            )

    def _rows(self) -> int:
        return self.pages.rows_of_channel * self.pages.channels

    def _check_sizes(self) -> None:
        """Raise UserError if the largest request fits in no channel."""
        prompt, output = self.workload.prompt_tokens, self.workload.output_tokens
        longest = np.minimum(prompt + output - 1, self.rules.longest)
        worst, most, unit = int(longest.argmax()), self.pages.rows_of_channel, self.pages.unit
        if (needed := int(self.pages.rows(longest[worst]))) > most:
            raise UserError(
                f"{self.workload.name}: request {worst} of {longest[worst]:,} tokens needs {needed:,} {unit} of "
                f"{self.pages.place}, which has {most:,} for caches; take shorter requests or a larger memory"
            )
        if longest[worst] > (most := self.pages.most_tokens):
            raise UserError(
                f"{self.workload.name}: request {worst} has {longest[worst]:,} tokens, of which {most:,} fit in all "
                "layers; take shorter requests or a larger memory"
            )

    def _contexts(self, requests: np.ndarray) -> np.ndarray:
        return np.minimum(requests["prompt"] + requests["generated"], self.rules.longest)

    def _arrive(self) -> None:
        """Whoever has come by now waits; of a batch kept alive, whoever replaces those that left."""
        if self.rules.kept_alive:
            missing = self.rules.batch - len(self.resident) - len(self.waiting)
            for row in self.rng.integers(len(self.workload.prompt_tokens), size=missing).tolist():
                self._enter(row, self.now_s)
            return
        upto = int(np.searchsorted(self.workload.arrival_s, self.now_s, side="right"))
        for row in range(self.arrived, upto):
            self._enter(row, float(self.workload.arrival_s[row]))

    def _enter(self, row: int, arrival_s: float) -> None:
        request = np.zeros(1, REQUEST)
        request["request"], request["row"], request["arrival_s"] = self.arrived, row, arrival_s
        request["prompt"], request["output"] = self.workload.prompt_tokens[row], self.workload.output_tokens[row]
        request["start_s"] = request["first_token_s"] = request["last_s"] = np.nan
        self.waiting.append(request)
        self.arrived += 1

    def _grow(self) -> None:
        """Give residents the pages they lack, the oldest first. The newest yield if all together have more tokens than
        fit, then where a channel is full its newest request."""
        tokens = self._contexts(self.resident)
        stays = tokens.cumsum() <= self.pages.most_tokens
        for request in self.resident["request"][~stays].tolist():
            self.pages.release(request)
        lacks = np.flatnonzero(stays & (self.pages.rows(tokens) > self.pages.rows(tokens - 1)))
        columns = lacks, self.resident["request"][lacks], self.resident["channel"][lacks], tokens[lacks]
        for i, request, channel, context in zip(*(column.tolist() for column in columns), strict=True):
            while stays[i] and not self.pages.grow(request, channel, context):
                newest = np.flatnonzero(stays & (self.resident["channel"] == channel))[-1]
                stays[newest] = False
                self.pages.release(int(self.resident["request"][newest]))
        if stays.all():
            return
        for i in np.flatnonzero(~stays)[::-1].tolist():
            self.resident["cached"][i] = 0
            self.waiting.appendleft(self.resident[i : i + 1].copy())
            self.preemptions += 1
        self.resident = self.resident[stays]

    def _admit(self) -> None:
        """Let in the longest run of those who wait, first come first served, that has slots and rows."""
        room = min(self.rules.batch - len(self.resident), len(self.waiting))
        if room <= 0:
            return
        some = joined([self.waiting[i] for i in range(room)])
        tokens, free = self._contexts(some), self.pages.free_rows()
        needed = self.pages.rows(tokens)
        left = self.pages.most_tokens - int(self._contexts(self.resident).sum())
        n = int(((needed.cumsum() <= free.sum()) & (tokens.cumsum() <= left)).sum())
        while n and (channel := self._places(tokens[:n], needed[:n], free.copy())).min() < 0:
            n -= 1
        if not n:
            return
        some = some[:n]
        some["channel"] = channel
        for request, c, context in zip(some["request"].tolist(), channel.tolist(), tokens.tolist(), strict=False):
            self.waiting.popleft()
            got = self.pages.grow(request, c, context)
            assert got
        fresh = np.isnan(some["last_s"])  # who joined before, or in the warm-up, has a time there
        some["start_s"][fresh] = some["last_s"][fresh] = self.now_s
        self.resident = joined([self.resident, some])

    def _places(self, tokens: np.ndarray, needed: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Channels of requests that join, by the policy: int64, -1 where none has rows."""
        if self.rules.policy == "min-load":
            at = self.resident["channel"], self.rules.cost(self._contexts(self.resident))
            load = np.bincount(*at, self.pages.channels).astype(float)
            return least_load(self.rules.cost, load, tokens, needed, free)
        found, self.pointer = in_turn(self.pointer, needed, free)
        return found
