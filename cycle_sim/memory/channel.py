"""One channel of a controller: feeds a kernel with requests, empties its logs, makes room when it asks for it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory
from pimloom.cycle_sim.memory import buffered, buffers, queued, record
from pimloom.cycle_sim.memory.build import buffered_channel, queued_channel
from pimloom.cycle_sim.memory.device import COMMANDS

NOTHING = np.zeros(0, np.int64)


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
    name. rank_ck: per rank (row open, all closed, asleep).
    """

    cycles: int
    commands: Mapping[str, int]
    counters: Mapping[str, int]
    latency: np.ndarray
    rank_ck: tuple[tuple[int, int, int], ...]


class Channel:
    """A channel before its first clock; `feed` it, then `finish` it."""

    def __init__(self, memory: Memory, logging: bool) -> None:
        self.memory = memory
        self.is_queued = memory.policy.structure == "queued"
        self.state: Any = (queued_channel if self.is_queued else buffered_channel)(memory, logging)
        self._commands: list[np.ndarray] = []
        self._requests: list[np.ndarray] = []

    @property
    def scalars(self) -> np.ndarray:
        """The kernel's scalars."""
        found: np.ndarray = self.state.state if self.is_queued else self.state.buffers.state
        return found

    @property
    def now(self) -> int:
        """First clock that has not been simulated yet [CK]."""
        return int(self.scalars[queued.NOW if self.is_queued else buffers.NOW])

    def feed(self, requests: Requests) -> None:
        """Go on until all requests are accepted."""
        self._run(requests, final=False)

    def accept(self, requests: Requests, i: int, when: int) -> int:
        """Go on until request i is accepted, at clock `when` or later; returns that clock."""
        one = Requests(*(column[i : i + 1] for column in requests))
        self._run(one._replace(when=np.array([when])), final=False)
        return self.now - (1 if self.is_queued else 2)

    def settle(self) -> int:
        """Go on until all accepted requests are done; returns the first clock after [CK]."""
        self._run(Requests(*[NOTHING] * 7), final=True)
        return self.now

    def finish(self, end_ck: int) -> None:
        """Go on, without requests, to clock `end_ck`."""
        if self.is_queued:
            self.scalars[queued.STOP] = end_ck
        else:
            self.scalars[buffers.STOP] = end_ck - 1
        self._run(Requests(*[NOTHING] * 7), final=True)

    def _run(self, requests: Requests, final: bool) -> None:
        kernel = queued.run if self.is_queued else buffered.run
        i, code = 0, queued.FLUSH
        while code in (queued.FLUSH, queued.GROW):
            code, i = kernel(self.state, *requests, i, len(requests.address), final, 0)
            self._empty_logs()
            if code == queued.GROW:
                self.state = _grown(self.state)
        if code in (queued.LIVELOCK, queued.ASLEEP, queued.STARVED, queued.LOST):
            raise UserError(self._stuck(code))

    def _empty_logs(self) -> None:
        out = self.state.record
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
        at = f"clock {self.now - (code != queued.STARVED)}"
        if code == queued.ASLEEP:
            return (
                f"{at}: DRAMsim3 aborts when a request or a refresh comes to a rank that has just entered "
                "self-refresh; use another controller"
            )
        if code == queued.LOST:
            return f"{at}: DRAMsim3 loses a read or a write where two may issue in one clock; use another controller"
        if code == queued.STARVED:
            since = int(self.scalars[queued.PROGRESS if self.is_queued else buffers.PROGRESS])
            return (
                f"{at}: requests wait, but none has been accepted or served since clock {since}: the rules of this "
                "controller and device never come to them; refresh less often, or use another controller"
            )
        slot = int(self.state.order[1, 0])
        address = int(self.state.queues.pool[slot, 0])
        return (
            f"{at}: DRAMsim3 livelocks: the write of {address:#x} waits for a read of that address, which waits while "
            "the full write buffer drains; use another controller"
        )

    def tally(self) -> Tally:
        """What was counted so far."""
        out = self.state.record
        ranks = self.state.rank[:, [record.ACTIVE_CK, record.IDLE_CK, record.SLEEP_CK]].tolist()
        counters = {name: int(out.tally[place]) for name, place in record.COUNTERS.items()}
        if self.is_queued:
            counters |= {"row_misses_closing": int(out.tally[record.CLOSED_FOR_MISS])}
        else:
            counters |= {name: int(self.scalars[place]) for name, place in buffers.COUNTERS.items()}
        commands = {name: n for name, n in zip(COMMANDS, out.count.tolist(), strict=True) if n}
        rank_ck = tuple((a, b, c) for a, b, c in ranks)
        return Tally(self.now if self.is_queued else self.now - 1, commands, counters, out.latency, rank_ck)


def _grown(state: Any) -> Any:
    """The same state with twice the room where it ran out: requests that wait with others, refreshes, the log."""
    scalars, waiting, ring = state.state, state.waiting, state.refreshes
    if scalars[queued.FREE_WAIT] < 0:
        n = len(waiting)
        longer = np.concatenate([waiting, np.zeros_like(waiting)])
        longer[n:, 2] = np.arange(n + 1, 2 * n + 1)
        longer[-1, 2] = -1
        scalars[queued.FREE_WAIT] = n
        out = state.record
        if out.tally[record.LOGGING]:
            rows = np.zeros((len(out.request) + 2 * n, 3), np.int64)
            state = state._replace(record=out._replace(request=rows))
        return state._replace(waiting=longer)
    head, tail = int(scalars[queued.REF_HEAD]), int(scalars[queued.REF_TAIL])
    ring2 = np.zeros((2 * len(ring), 2), np.int64)
    places = np.arange(head, tail)
    ring2[places % len(ring2)] = ring[places % len(ring)]
    return state._replace(refreshes=ring2)
