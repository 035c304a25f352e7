"""Requests in, command clocks and counters out: one memory system, chunk by chunk, in bounded memory."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from pimloom.arch.memory import Memory
from pimloom.cycle_sim.cores import cores
from pimloom.cycle_sim.memory.addresses import FIELDS, AddressMap, address_map, decode
from pimloom.cycle_sim.memory.channel import CLOCKS, Channel, Requests, Tally
from pimloom.cycle_sim.memory.front_end import FrontEnd

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

MOST_HELD = 1 << 20  # commands that wait for the slowest channel, so that all are in one order

CHUNK = 1 << 18  # requests that are read, or made, at a time
EVERY_CK = (0, 1 << 62)
FEW = 1 << 16  # requests of a single channel that need no thread beside which one listens to interrupts: some 0.1 s
FEWEST = 1 << 10  # requests, within CLOCKS, that are done before threads would have begun


class Log(Protocol):
    """Takes what happens; all arrays int64."""

    def wanted_ck(self) -> tuple[int, int]:
        """(first, end) of the clocks whose commands it must have; of others it may not see any."""

    def commands(self, rows: np.ndarray) -> None:
        """rows[k] = clock, channel, command (of COMMANDS), bank of the channel, row, column, by.

        By clock and channel; a channel that is far behind the others may come later.
        """

    def requests(self, rows: np.ndarray) -> None:
        """rows[k] = number of the request, clock of acceptance, clock at which it is done; by number, none missing."""


class Chunk(NamedTuple):
    """Requests in order; int64[n] each. when: earliest clock of each [CK]."""

    address: np.ndarray
    write: np.ndarray
    when: np.ndarray


def simulate(
    memory: Memory, chunks: Iterable[Chunk], *, extra_ck: int = 0, log: Log | None = None, threads: int | None = None
) -> list[Tally]:
    """Serve all requests, then run `extra_ck` clocks more; returns what each channel counted.

    Each channel has its own front end and, where there is enough to do, a thread. A reference simulator's single front
    end, where a request that must wait blocks those behind it in every channel, is kept where its quirks are asked for;
    then one thread does it all. Addresses wrap at the capacity. Raises UserError if the controller cannot go on.
    """
    found = address_map(memory)
    wanted = log.wanted_ck() if log else (0, 0)
    coupled = memory.channels > 1 and memory.policy.quirks != "none"
    one = memory, log is not None, wanted
    front_end = FrontEnd(*one) if coupled else None
    channels = front_end.channels if front_end else [Channel(*one) for _ in range(memory.channels)]
    desk, number, short = _Desk(log) if log else None, 0, True
    fed: list[Future[None]] = []
    crew = _Crew(threads or min(len(channels), cores()))
    try:
        for chunk in chunks:
            chosen, requests = placed(found, chunk, number)  # while the channels are busy with the one before
            parts = [] if front_end else _split(chosen, requests, len(channels))
            number += len(chunk.address)
            short = short and number <= FEWEST and int(chunk.when.max(initial=0)) <= CLOCKS
            _wait(fed, channels, desk)
            if front_end:
                front_end.feed(chosen, requests)
            elif short or len(channels) == 1 and len(chunk.address) <= FEW:
                for channel, part in zip(channels, parts, strict=True):
                    channel.feed(part)
            else:
                fed = [crew.pool.submit(channel.feed, part) for channel, part in zip(channels, parts, strict=True)]
        _wait(fed, channels, desk)
        alone = not extra_ck and (short or coupled or len(channels) == 1)
        each = map if alone else crew.pool.map
        end_ck = max(each(Channel.settle, channels)) + extra_ck
        list(each(lambda channel: channel.finish(end_ck), channels))
    finally:
        for channel in channels:  # after an error or an interrupt
            channel.stopped = True
        crew.leave()
    if desk:
        desk.collect(channels, end_ck + 1)
    return [channel.tally() for channel in channels]


class _Crew:
    """Threads that are there from when they are needed: they and their module take longer than a few requests."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    @property
    def pool(self) -> "ThreadPoolExecutor":
        """All of them."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._threads)
        return self._pool

    def leave(self) -> None:
        """Wait for what they are at."""
        if self._pool:
            self._pool.shutdown()


def _wait(fed: "list[Future[None]]", channels: list[Channel], desk: "_Desk | None") -> None:
    """Until the channels have taken in what they were fed; then hand on what they have logged."""
    for future in fed:
        future.result()
    if desk:
        desk.collect(channels, min(channel.now for channel in channels))


def placed(found: AddressMap, chunk: Chunk, first: int) -> tuple[np.ndarray, Requests]:
    """The channel of each request, and the requests."""
    address, write, when = map(np.ascontiguousarray, chunk)
    place = np.empty((len(FIELDS), len(address)), np.int64)
    decode(found.piece, address, place)
    channel, bank, row, column = place
    number = np.arange(first, first + len(address))
    return channel, Requests(address, write, when, bank, row, column, number)


def _split(channel: np.ndarray, requests: Requests, channels: int) -> list[Requests]:
    """The requests of each channel."""
    if channels == 1:
        return [requests]
    chosen = [np.flatnonzero(channel == c) for c in range(channels)]
    return [Requests(*(column[rows] for column in requests)) for rows in chosen]


class _Desk:
    """Puts the channels' rows into one order and hands them on."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.rows = np.zeros((0, 7), np.int64)
        self.open = np.zeros((0, 3), np.int64)
        self.number = 0

    def collect(self, channels: list[Channel], before_ck: int) -> None:
        """Hand on the commands before a clock that all channels have reached, and the requests without a gap."""
        rows, done = [self.rows], [self.open]
        for c, channel in enumerate(channels):
            commands, requests = channel.take_logs()
            rows.append(np.insert(commands, 1, c, axis=1))
            done.append(requests)
        self.rows = np.concatenate(rows)
        if len(channels) > 1:
            self.rows = self.rows[np.lexsort((self.rows[:, 1], self.rows[:, 0]))]
            n = int(np.searchsorted(self.rows[:, 0], before_ck))
        else:
            n = len(self.rows)
        n = max(n, len(self.rows) - MOST_HELD)
        if n:
            self.log.commands(self.rows[:n])
            self.rows = self.rows[n:]
        self.open = np.concatenate(done)
        self.open = self.open[np.argsort(self.open[:, 0], kind="stable")]
        gap = np.flatnonzero(self.open[:, 0] != np.arange(self.number, self.number + len(self.open)))
        n = int(gap[0]) if len(gap) else len(self.open)
        if n:
            self.log.requests(self.open[:n])
            self.open, self.number = self.open[n:], self.number + n
