"""A window of a simulated memory as a Perfetto timeline: requests, command buses, banks."""

import heapq
from collections.abc import Iterator, Mapping

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory
from pimloom.cycle_sim.dram.kernels.device import COMMANDS, PREAB, REFAB, SRE, SRX
from pimloom.systems.memory.logs import OPS, Passing, coordinates
from pimloom.systems.timeline import Event, Track, trace_json

MOST_EVENTS = 200_000  # 30 MB of JSON, written in 5 s
WHOLE = (REFAB, PREAB, SRE, SRX)  # commands of all banks of a scope
BANKS = 32  # as many are reckoned for each of them


class WindowLog(Passing):
    """A log that keeps the commands issued, and the requests under way, in the window [from_ck, to_ck) [CK].

    `watch` the chunks that are simulated. Raises UserError if to draw them takes more than about `most` events.
    """

    def __init__(self, from_ck: int, to_ck: int, most: int = MOST_EVENTS) -> None:
        super().__init__()
        self.from_ck, self.to_ck, self._most = from_ck, to_ck, most
        self._commands: list[np.ndarray] = []
        self._requests: list[np.ndarray] = []
        self._events = 0

    def wanted_ck(self) -> tuple[int, int]:
        """See `Log`."""
        return self.from_ck, self.to_ck

    def commands(self, rows: np.ndarray) -> None:
        """See `Log`."""
        low, high = np.searchsorted(rows[:, 0], (self.from_ck, self.to_ck)).tolist()
        rows = rows[low:high]
        self._keep(self._commands, rows, 2 * len(rows) + BANKS * int(np.isin(rows[:, 2], WHOLE).sum()))

    def requests(self, rows: np.ndarray) -> None:
        """See `Log`."""
        rows = np.column_stack([rows, *self.take(len(rows))])
        rows = rows[(rows[:, 1] < self.to_ck) & (rows[:, 2] >= self.from_ck)]
        self._keep(self._requests, rows, len(rows))

    def _keep(self, kept: list[np.ndarray], rows: np.ndarray, events: int) -> None:
        self._events += events
        if self._events > self._most:
            window = f"from clock {self.from_ck} to {self.to_ck}"
            raise UserError(f"the window {window} holds more than about {self._most} events; choose a shorter one")
        if len(rows):
            kept.append(rows.copy())

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Commands as in `Log`, by clock; requests as in `Log`, with two more columns: address, is it a write."""
        commands, requests = np.zeros((0, 7), np.int64), np.zeros((0, 5), np.int64)
        return np.concatenate([commands, *self._commands]), np.concatenate([requests, *self._requests])


def timeline(memory: Memory, log: WindowLog, title: str) -> str:
    """Trace-event JSON of the window.

    A command is drawn on its bus for one clock, and on its banks until its effect is over or the bank's next command
    begins. A request is drawn from its acceptance until it is done, on the first of the request tracks that is free.
    """
    commands, requests = log.rows()
    lanes = _lanes(requests)
    tracks = [Track(f"requests {lane}", "requests") for lane in range(1 + max(lanes, default=-1))]
    for channel in range(memory.channels):
        tracks += [*_buses(memory, channel), *_banks(memory, channel)]
    events = [*_requests(memory, requests, lanes), *_on_buses(memory, commands), *_on_banks(memory, commands)]
    window = f"{log.from_ck} to {log.to_ck}"
    return trace_json(tracks, events, {"title": title, "clock": f"{memory.tCK_ps} ps", "window in clocks": window})


def _buses(memory: Memory, channel: int) -> list[Track]:
    dual = int(memory.table.rules.bus.max()) > 0
    names = ("row commands", "column commands") if dual else ("commands",)
    return [Track(name, f"channel {channel}") for name in names]


def _banks(memory: Memory, channel: int) -> list[Track]:
    size = memory.table.rules.size.tolist()
    places = zip(*(part.tolist() for part in coordinates(np.arange(size[4]), size)), strict=True)
    return [Track(f"rank {r} bank group {g} bank {b}", f"channel {channel}") for r, g, b in places]


def _lanes(requests: np.ndarray) -> list[int]:
    """A track for each request, so that none overlap: the lowest that is free at its acceptance."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes = [0] * len(requests)
    for i in np.argsort(requests[:, 1], kind="stable").tolist():
        accept, done = requests[i, 1:3].tolist()
        while busy and busy[0][0] <= accept:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lanes[i] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (max(done, accept + 1), lanes[i]))
    return lanes


def _requests(memory: Memory, requests: np.ndarray, lanes: list[int]) -> Iterator[Event]:
    tck = memory.tCK_ps
    for lane, (number, accept, done, address, write) in zip(lanes, requests.tolist(), strict=True):
        info = {"request": number, "address": f"{address:#x}", "accepted": accept, "done": done}
        track = Track(f"requests {lane}", "requests")
        yield Event(track, f"{OPS[write]} {number}", accept * tck, max(done - accept, 1) * tck, info)


def _on_buses(memory: Memory, commands: np.ndarray) -> Iterator[Event]:
    tck, names, bus = memory.tCK_ps, memory.table.names, memory.table.rules.bus.tolist()
    tracks = [_buses(memory, channel) for channel in range(memory.channels)]
    for row in commands.tolist():
        name = COMMANDS[row[2]]
        yield Event(tracks[row[1]][bus[names.index(name)]], name, row[0] * tck, tck, _info(row))


def _on_banks(memory: Memory, commands: np.ndarray) -> Iterator[Event]:
    """From the last command to the first: then the next one of each bank is known."""
    tck, lasts = memory.tCK_ps, _lasts(memory)
    for channel in range(memory.channels):
        tracks = _banks(memory, channel)
        following: dict[int, int] = {}
        for row in reversed(commands[commands[:, 1] == channel].tolist()):
            clock, _, command, bank = row[:4]
            for b in _touched(memory, command, bank):
                end = min(clock + lasts[command], following.get(b, clock + lasts[command]))
                following[b] = clock
                yield Event(tracks[b], COMMANDS[command], clock * tck, (end - clock) * tck, _info(row))


def _lasts(memory: Memory) -> Mapping[int, int]:
    """Clocks of each command's effect."""
    names, done = memory.table.names, memory.table.rules.done.tolist()
    return {c: done[names.index(name)] for c, name in enumerate(COMMANDS) if name in names}


def _touched(memory: Memory, command: int, bank: int) -> range:
    """The banks of a command: its own, or all of the scope in which it lies."""
    if command not in WHOLE or COMMANDS[command] not in memory.table.names:
        return range(bank, bank + 1)
    table, size = memory.table, memory.table.rules.size.tolist()
    span = size[4] // size[int(table.rules.scope[table.names.index(COMMANDS[command])])]
    return range(bank // span * span, bank // span * span + span)


def _info(row: list[int]) -> dict[str, object]:
    _, _, command, _, line, column, by = row
    place: dict[str, object] = {} if command in WHOLE or line < 0 else {"row": line, "column": column}
    return place | {"by": "refresh" if by else "request"}
