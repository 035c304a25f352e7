"""One channel of a controller: feeds a kernel with requests, empties its logs, makes room when it asks for it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory
from pimloom.cycle_sim.dram.kernels import record
from pimloom.cycle_sim.dram.kernels.buffered import fields as b
from pimloom.cycle_sim.dram.kernels.device import COMMANDS, FAR, REFAB, REFPB
from pimloom.cycle_sim.dram.kernels.queued import fields as q
from pimloom.cycle_sim.dram.kernels.tree import slot_of
from pimloom.cycle_sim.memory import repeat
from pimloom.cycle_sim.memory.build import buffered_channel, chain, queued_channel

NOTHING = np.zeros(0, np.int64)
FEW = 1 << 16  # refreshes without a request between them that are simulated one by one: about a hundredth of a second
MANY = 10_000_000  # as many are logged, or simulated one by one where no round is like the one before
PHASES = 16  # places between two refreshes where a look may find the channel idle
CLOCKS = 1 << 20  # with something to do, until a look at whether we are to stop: about half a second


class Stopped(Exception):
    """A channel was told to stop."""


class Requests(NamedTuple):
    """Requests of one channel in order; int64[n] each. when: earliest clock [CK]; number: of the whole trace."""

    address: np.ndarray
    write: np.ndarray
    when: np.ndarray
    bank: np.ndarray
    row: np.ndarray
    column: np.ndarray
    number: np.ndarray


class Tally(NamedTuple):
    """What one channel counted; clocks in CK.

    commands: by name, those that issued. latency[n]: reads that took n clocks, the last place: or longer. counters: by
    name; `unissued` requests still wait for their column command. rank_ck: per rank (row open, all closed, asleep).
    """

    cycles: int
    commands: Mapping[str, int]
    counters: Mapping[str, int]
    latency: np.ndarray
    rank_ck: tuple[tuple[int, int, int], ...]


def engine_of(memory: Memory) -> Any:
    """The kernels of the controller's structure; the other one's are not imported."""
    if memory.policy.structure == "queued":
        from pimloom.cycle_sim.dram.kernels.queued import engine as queued

        return queued
    from pimloom.cycle_sim.dram.kernels.buffered import engine as buffered

    return buffered


class Channel:
    """A channel before its first clock; `feed` it, then `finish` it."""

    def __init__(
        self, memory: Memory, logging: bool, logged_ck: tuple[int, int] = (0, 0), state: Any = None
    ) -> None:
        """logged_ck: clocks whose commands a log wants, each of them. state: of such a channel, if there is one."""
        self.memory, self.logged_ck = memory, logged_ck
        self.is_queued = memory.policy.structure == "queued"
        self._engine = engine_of(memory)
        new = queued_channel if self.is_queued else buffered_channel
        self.state: Any = new(memory, logging) if state is None else state
        self.few_ck, self.many_ck = (min(n * repeat.interval_ck(self.state), int(FAR)) for n in (FEW, MANY))
        self.stopped = False  # set from another thread: go on no further
        self._commands: list[np.ndarray] = []
        self._requests: list[np.ndarray] = []

    @property
    def scalars(self) -> np.ndarray:
        """The kernel's scalars."""
        found: np.ndarray = self.state.state
        return found

    @property
    def now(self) -> int:
        """First clock that has not been simulated yet [CK]."""
        return int(self.scalars[q.NOW if self.is_queued else b.NOW])

    def feed(self, requests: Requests) -> None:
        """Go on until all requests are accepted."""
        latest, begin = np.maximum.accumulate(requests.when), 0
        for i in np.flatnonzero(np.diff(latest, prepend=self.now) > self.few_ck).tolist():
            self._run(Requests(*(column[begin:i] for column in requests)), final=False)
            self.rest(int(latest[i]))
            begin = i
        self._run(Requests(*(column[begin:] for column in requests)), final=False)

    def settle(self) -> int:
        """Go on until all accepted requests are done; returns the first clock after [CK]."""
        self._run(Requests(*[NOTHING] * 7), final=True)
        return self.now

    def finish(self, end_ck: int) -> None:
        """Go on, without requests, to clock `end_ck`."""
        self.rest(end_ck)
        self._go_to(end_ck)

    def _go_to(self, end_ck: int) -> None:
        self.scalars[q.STOP if self.is_queued else b.STOP] = end_ck - (not self.is_queued)
        self._run(Requests(*[NOTHING] * 7), final=True)

    def rest(self, until_ck: int) -> None:
        """Go on, without requests, to clock `until_ck` or not so far; of what repeats only the sums are made."""
        if until_ck - self.now <= self.few_ck:
            return
        from_ck, to_ck = self.logged_ck
        stops = [until_ck] if from_ck >= to_ck else [min(from_ck, until_ck), min(to_ck, until_ck), until_ck]
        for k, stop in enumerate(stops):
            if stop - self.now > self.few_ck:
                (self._log_all if k == 1 else self._skip_rounds)(stop)
        self.scalars[q.STOP if self.is_queued else b.STOP] = FAR

    def _log_all(self, until_ck: int) -> None:
        """One by one, as a log wants them."""
        if until_ck - self.now > self.many_ck:
            raise UserError(
                f"clock {self.now}: no request comes before clock {until_ck}, and every refresh until then would be "
                f"logged; log no commands, or let at most {self.many_ck} clocks pass"
            )
        self._go_to(until_ck)

    def _skip_rounds(self, until_ck: int) -> None:
        """Look out, ever later, for a round of refreshes that will be repeated; take the others one by one."""
        round_ck, windows, wait, first = repeat.round_ck(self.state), repeat.windows(self.state), 1, self.now
        while until_ck - self.now > 2 * (wait + windows + 1) * round_ck:
            if self.now - first > self.many_ck:
                raise UserError(
                    f"clock {self.now}: no request comes before clock {until_ck}, and until then no round of "
                    "refreshes is like the one before; refresh less often, or let it come earlier"
                )
            for rounds in (1, windows):
                before = self._look_between(self.now + wait * round_ck)
                after = self._look(self.now + rounds * round_ck)
                if before and after and repeat.same(self.state, before, after, until_ck):
                    repeat.repeat(self.state, before, after, (until_ck - 1 - self.now) // (rounds * round_ck))
                    return
            wait *= 2

    def _look_between(self, at_ck: int) -> repeat.Snapshot | None:
        """What the channel is like at this clock, or later before the next refresh falls due, as soon as none is on."""
        step = repeat.interval_ck(self.state) // PHASES + 1
        for phase in range(PHASES):
            if found := self._look(at_ck + phase * step):
                return found
        return None

    def _look(self, at_ck: int) -> repeat.Snapshot | None:
        """What the channel is like at this clock; None if it is still at work."""
        self._go_to(at_ck)
        return repeat.take(self.state, self.now) if repeat.is_idle(self.state) else None

    def _run(self, requests: Requests, final: bool) -> None:
        kernel = self._engine.run
        i, code = 0, q.FLUSH
        while code in (q.FLUSH, q.GROW, q.PAUSE):
            if self.stopped:
                raise Stopped
            code, i = kernel(self.state, *requests, i, len(requests.address), final, CLOCKS)
            self.empty_logs()
            if code == q.GROW:
                self.state = grown(self.state)
        if code not in (q.MORE, q.DONE):
            self.fail(code)

    def fail(self, code: int) -> None:
        """Raise UserError: a kernel returned this code."""
        raise UserError(self._stuck(code))

    def empty_logs(self) -> None:
        """Make room in the logs of the state."""
        out = self.state.log
        for kept, rows, place in (
            (self._commands, out.command, record.N_COMMANDS),
            (self._requests, out.request, record.N_REQUESTS),
        ):
            if out.tally[place]:
                kept.append(rows[: out.tally[place]].copy())
                out.tally[place] = 0

    def take_logs(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows logged since the last call: commands [n, 6], requests [n, 3]; see `record`."""
        found = []
        for kept, width in ((self._commands, 6), (self._requests, 3)):
            found.append(np.concatenate(kept) if kept else np.zeros((0, width), np.int64))
            kept.clear()
        return found[0], found[1]

    def _stuck(self, code: int) -> str:
        at = f"clock {self.now - (code != q.STARVED)}"
        if code == q.ASLEEP:
            return (
                f"{at}: DRAMsim3 aborts when a request or a refresh comes to a rank that has just entered "
                "self-refresh; use another controller"
            )
        if code == q.LOST:
            return f"{at}: DRAMsim3 loses a read or a write where two may issue in one clock; use another controller"
        if code == q.STARVED:
            since = int(self.scalars[q.PROGRESS if self.is_queued else b.PROGRESS])
            return (
                f"{at}: requests wait, but none has been accepted or served since clock {since}: the rules of this "
                "controller and device never come to them; refresh less often, or use another controller"
            )
        address = int(self.state.pool[slot_of(int(self.state.ladder[q.WRITES, 1])), q.ADDRESS])
        return (
            f"{at}: DRAMsim3 livelocks: the write of {address:#x} waits for a read of that address, which waits while "
            "the full write buffer drains; use another controller"
        )

    def _refresh_waits_ck(self) -> int:
        """How long the oldest refresh that has not issued has been due; 0 without one."""
        head, tail = (q.REF_HEAD, q.REF_TAIL) if self.is_queued else (b.HEAD, b.TAIL)
        ring = self.state.refreshes if self.is_queued else self.state.priority
        waiting = ring[np.arange(self.scalars[head], self.scalars[tail]) % len(ring)]
        due = waiting[np.isin(waiting[:, 0], [REFAB, REFPB]), 2]
        return int(self.now - due.min()) if len(due) else 0

    def tally(self) -> Tally:
        """What was counted so far."""
        out = self.state.log
        ranks = out.rank[:, [record.ACTIVE_CK, record.IDLE_CK, record.SLEEP_CK]].tolist()
        counters = {name: int(out.tally[place]) for name, place in record.COUNTERS.items()}
        if self.is_queued:
            counters |= {"row_misses_closing": int(out.tally[record.CLOSED_FOR_MISS])}
            counters |= {"unissued": int(self.scalars[[q.N_READ, q.N_WRITE, q.QUEUED]].sum())}
        else:
            counters |= {name: int(self.scalars[place]) for name, place in b.COUNTERS.items()}
        counters["refresh_lag_max"] = max(counters["refresh_lag_max"], self._refresh_waits_ck())
        commands = {name: n for name, n in zip(COMMANDS, out.tally.tolist(), strict=False) if n}
        rank_ck = tuple((a, b, c) for a, b, c in ranks)
        return Tally(self.now if self.is_queued else self.now - 1, commands, counters, out.latency, rank_ck)


def grown(state: Any) -> Any:
    """The same state with twice the room where it ran out."""
    return more_waiting(state) if state.state[q.FREE_WAIT] < 0 else more_refreshes(state)


def more_waiting(state: Any) -> Any:
    """The same state with twice as many places for requests that wait with others, the new ones first, and more for
    their log."""
    scalars, n = state.state, len(state.waiting)
    if state.log.tally[record.LOGGING]:
        rows = np.zeros((len(state.log.request) + 2 * n, 3), np.int64)
        rows[: len(state.log.request)] = state.log.request
        state = state._replace(log=state.log._replace(request=rows))
    found = chain(np.concatenate([state.waiting, np.zeros_like(state.waiting)]), n)
    found[-1, q.NEXT], scalars[q.FREE_WAIT] = scalars[q.FREE_WAIT], n
    return state._replace(waiting=found)


def more_refreshes(state: Any) -> Any:
    """The same state with twice as many places for refreshes."""
    scalars, n = state.state, len(state.refreshes)
    ring = np.zeros((2 * n, state.refreshes.shape[1]), np.int64)
    places = np.arange(scalars[q.REF_HEAD], scalars[q.REF_TAIL])
    ring[places % len(ring)] = state.refreshes[places % n]
    return state._replace(refreshes=ring)
