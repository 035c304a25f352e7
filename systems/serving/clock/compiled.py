"""Replicas whose scheduler and clock are kernels: the ticks of `replica.Replica`, many times as fast."""

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bind
from pimloom.systems.serving.clock.names import UNNAMED, Names
from pimloom.systems.serving.kernels import clock
from pimloom.systems.serving.kernels import fields as f
from pimloom.systems.serving.kernels.live import push_back
from pimloom.systems.serving.kernels.price import Prices
from pimloom.systems.serving.schedulers.live import NEVER, Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool

KEPT = {
    f.NUMBER: "number", f.ARRIVAL: "arrival", f.PROMPT: "prompt", f.LAST: "last", f.CACHED: "cached", f.KNOWN: "known",
    f.PREFILL: "prefill", f.BLOCKS: "blocks", f.FIRST_SCHEDULED: "first_scheduled", f.FIRST_TOKEN: "first_token",
    f.LAST_TOKEN: "last_token", f.COMPLETION: "completion", f.RESTARTS: "restarts", f.HIT: "hit", f.LOST: "lost",
    f.AGAIN: "again",
}  # fmt: skip
Term = tuple[int, int, int]  # times, more, by
NO: Term = (0, 0, 1)
ROOM = 1 << 12  # rows, and ticks between tokens, at first


class Pricing(Protocol):
    """What iterations cost, for kernels: `prices`, and what Python knows beyond them."""

    prices: Prices

    def unknown(self, made: Iteration) -> None:
        """Write the cost of an iteration into `prices`, whose arrays may be others from then on. Raises UserError."""
        ...

    def keep(self, made: Iteration, kind: int, seen: int) -> int:
        """It is in the sample, the number `seen` of its kind (of `fields`); which one is the next."""
        ...


class Board:
    """What replicas share: requests, rows of iterations, energies, and prices. numbers: more than any request has;
    first: of each kind, the iteration that the sample takes first."""

    def __init__(
        self, requests: Sequence[LiveRequest], pricing: Pricing, numbers: int,
        first: Sequence[int] = (NEVER,) * f.N_KINDS,
    ) -> None:  # fmt: skip
        self.live, self.pricing, self.version = requests, pricing, 0
        self.place, self.named = {request.number: i for i, request in enumerate(requests)}, Names(requests)
        table = np.zeros((len(requests), f.N_REQUEST), np.int64)
        for column, name in KEPT.items():
            table[:, column] = [getattr(request, name) for request in requests]
        counts, causes = np.zeros(f.N_COUNTS, np.int64), len(pricing.prices.cost) - 1
        counts[f.NEXT_SHOWN : f.NEXT_SHOWN + f.N_KINDS] = first
        rows, joules = np.zeros((ROOM, f.N_ROW), np.int64), np.zeros(ROOM)
        self.shared = f.Shared(table, counts, rows, joules, np.zeros(numbers), np.zeros(causes), np.zeros(f.N_KINDS))

    def keep(self, made: Iteration, kind: int) -> None:
        """An iteration is in the sample."""
        counts = self.shared.counts
        counts[f.NEXT_SHOWN + kind] = self.pricing.keep(made, kind, int(counts[f.SHOWN + kind]))

    def price(self, made: Iteration) -> None:
        """Python knows what an iteration costs. Raises UserError."""
        before = self.pricing.prices
        self.pricing.unknown(made)
        if self.pricing.prices is not before:
            more = len(self.pricing.prices.cost) - 1 - len(self.shared.by_cause)
            self.replaced(by_cause=np.concatenate([self.shared.by_cause, np.zeros(more)]))

    def longer(self) -> None:
        """Room for as many rows again."""
        rows, joules = self.shared.rows, self.shared.joules
        self.replaced(
            rows=np.concatenate([rows, np.zeros_like(rows)]), joules=np.concatenate([joules, np.zeros_like(joules)])
        )

    def replaced(self, **arrays: np.ndarray) -> None:
        """Kernels take these from now on."""
        self.shared, self.version = self.shared._replace(**arrays), self.version + 1

    def tell(self) -> None:
        """Requests are as the kernels left them."""
        for request, row in zip(self.live, self.shared.requests.tolist(), strict=True):
            for column, name in KEPT.items():
                setattr(request, name, row[column])


class CompiledReplica:
    """As `Replica`, with the rule of a scheduler that has not begun (its `limits`, see `rules`)."""

    def __init__(
        self, scheduler: Scheduler, limits: np.ndarray, board: Board, number: int = 0, stages: int = 1
    ) -> None:
        self.scheduler, self.board = scheduler, board
        self.ended: Callable[[int, int], object] | None = None
        n, at = len(board.live), np.zeros(f.N_AT, np.int64)
        most = max(min(int(limits[f.CAP]), n), 1)
        at[[f.DUE, f.FREE, f.REPLICA]] = NEVER, scheduler.blocks.free, number
        groups, grown = np.zeros((stages, most), np.int64), np.zeros((stages, 2), np.int64)
        slots, members = np.zeros((stages, f.N_SLOT), np.int64), np.zeros((stages, most, f.N_MEMBER), np.int64)
        order, left, gaps = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(ROOM + most, np.int64)
        free, pool = np.zeros(stages, np.int64), scheduler.blocks
        own = board.named.of(pool, int(limits[f.AHEAD])) if isinstance(pool, PrefixPool) else UNNAMED
        at[[f.FREE_HEAD, f.FREE_TAIL]] = 0, pool.total - 1
        self.of = f.Replica(limits, at, order, left, groups, grown, slots, members, free, gaps, *own)
        self.at, self._version = at, -1
        self._run: Callable[[], int]

    @property
    def waiting(self) -> int:
        """How many wait."""
        return int(self.at[f.WAITING])

    @property
    def due(self) -> int:
        """The next tick at which something happens."""
        return int(self.at[f.DUE])

    def arrive(self, request: LiveRequest, now: int) -> None:
        """A request joins those that wait."""
        table, i, at = self.board.shared.requests, self.board.place[request.number], self.at
        table[i, f.ARRIVAL] = request.arrival
        push_back(self.of, table, i)
        if at[f.UNDER_WAY] < len(self.of.free):
            at[f.DUE] = min(at[f.DUE], now)

    def run_until(self, until: int) -> None:
        """All that happens before a tick."""
        at, self.at[f.UNTIL] = self.at, until
        if at[f.DUE] >= until:
            return
        while (code := self._call()) != f.DONE:
            if code == f.TOLD:
                assert self.ended is not None
                self.ended(int(at[f.DUE]), int(at[f.ENDED]))
            elif code == f.FULL:
                self._make_room()
            elif code == f.NO_PRICE:
                self.board.price(self._made())
            else:
                self.board.keep(self._made(), int(self.of.slots[at[f.SLOT], f.KIND_OF]))

    def _call(self) -> int:
        if self._version != self.board.version:
            self.at[f.FOLLOWED] = self.ended is not None
            self._run = bind(clock.run, self.of, self.board.shared, self.board.pricing.prices)
            self._version = self.board.version
        return self._run()

    def _make_room(self) -> None:
        gaps, counts = self.of.gaps, self.board.shared.counts
        if len(gaps) - self.at[f.GAPS] < self.of.members.shape[1]:
            self.of = self.of._replace(gaps=np.concatenate([gaps, np.zeros_like(gaps)]))
            self._version = -1
        if counts[f.N_ROWS] == len(self.board.shared.rows):
            self.board.longer()

    def _made(self) -> Iteration:
        """The iteration that a kernel asks about."""
        slot = int(self.at[f.SLOT])
        n = self.of.slots[slot, f.MEMBERS]
        who, new, cached = self.of.members[slot, :n].T.tolist()
        made = Iteration([self.board.live[i] for i in who], new)
        made.cached = cached
        known = self.board.shared.requests[who, f.KNOWN].tolist()
        for request, tokens in zip(made.requests, known, strict=True):
            request.known = tokens
        return made

    def tell(self) -> None:
        """The scheduler is told what it would know."""
        self.scheduler.gaps = array("q", self.of.gaps[: self.at[f.GAPS]].tobytes())
        rows = self.board.shared.rows[: self.board.shared.counts[f.N_ROWS]]
        self.scheduler.came = array("q", rows[rows[:, f.ON] == self.at[f.REPLICA], f.CAME].tobytes())


class ClosedForm:
    """Prices of a closed form, in whole ticks, at least one; nothing is left to ask. Terms: see `kernels.price`."""

    def __init__(
        self, base: int, least: int = 0, each: int = 0, *, products: Term = NO, context: Term = NO, pairs: Term = NO
    ) -> None:
        form = np.array([base, least, each, *products, *context, *pairs], np.int64)
        none, table, reals = np.zeros(0, np.int64), np.zeros((0, 0), np.int64), np.zeros(0)
        self.prices = Prices(form, none, table, table, reals[:, None], reals, np.zeros(1), reals, np.ones(f.N_KINDS))

    def unknown(self, made: Iteration) -> None:
        """Nothing is."""
        raise AssertionError(made)

    def keep(self, made: Iteration, kind: int, seen: int) -> int:
        """There is no sample."""
        raise AssertionError(made)
