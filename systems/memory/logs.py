"""Logs of a simulated memory as CSV, plain, `.gz` or `.zst`, written while it runs; each is a context manager.

    with CommandLog(path, memory) as commands, RequestLog(other) as requests:
        simulate(memory, requests.watch(chunks), log=Tee(commands, requests))

A file appears whole when its `with` block ends, and not at all on an error or an interrupt.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from pimloom.arch.compressed import compressing
from pimloom.arch.files import replacing, writing
from pimloom.arch.memory import Memory
from pimloom.cycle_sim.dram.kernels.device import COMMANDS, PRE, PREAB, REFAB, REFPB, SRE, SRX
from pimloom.cycle_sim.memory.simulate import EVERY_CK, Chunk, Log
from pimloom.systems.memory.digits import DECIMAL, HEXADECIMAL, LONGEST_CELL, WORD, word_table, write_lines

COMMAND_COLUMNS = ("cycle", "command", "channel", "rank", "bank_group", "bank", "row", "column")
REQUEST_COLUMNS = ("index", "op", "address", "accept_cycle", "done_cycle")
OPS = ("READ", "WRITE")
BY_ENGINE = 1  # `by` of a command that the refresh engine issued
ROWS = 1 << 14  # formatted at once


class Tee:
    """Hands everything on to several logs."""

    def __init__(self, *logs: Log) -> None:
        self.logs = logs

    def wanted_ck(self) -> tuple[int, int]:
        """See `Log`."""
        wanted = [(first, end) for first, end in (log.wanted_ck() for log in self.logs) if first < end]
        return (min(first for first, _ in wanted), max(end for _, end in wanted)) if wanted else (0, 0)

    def commands(self, rows: np.ndarray) -> None:
        """See `Log`."""
        for log in self.logs:
            log.commands(rows)

    def requests(self, rows: np.ndarray) -> None:
        """See `Log`."""
        for log in self.logs:
            log.requests(rows)


class Passing:
    """Keeps the requests that pass until they are asked for, in the same order."""

    def __init__(self) -> None:
        self._kept: deque[Chunk] = deque()

    def watch(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The same chunks, noted as they pass."""
        for chunk in chunks:
            self._kept.append(chunk)
            yield chunk

    def take(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of the next n requests, and whether each is a write."""
        found = [Chunk(*np.zeros((3, 0), np.int64))]
        while n:
            first = self._kept.popleft()
            found.append(Chunk(*(column[:n] for column in first)))
            if n < len(first.address):
                self._kept.appendleft(Chunk(*(column[n:] for column in first)))
            n -= len(found[-1].address)
        return np.concatenate([chunk.address for chunk in found]), np.concatenate([chunk.write for chunk in found])


class CsvLog:
    """A CSV file of integers: its columns, and how each is written."""

    def __init__(self, path: str | Path, columns: tuple[str, ...], kinds: tuple[int, ...], words: tuple[str, ...]):
        self.path, self._columns = Path(path), columns
        self._kinds, self._words = np.array(kinds), word_table(words)
        self._text = np.empty(ROWS * len(columns) * LONGEST_CELL, np.uint8)
        self._files = ExitStack()

    def __enter__(self) -> Self:
        with writing(self.path), ExitStack() as files:
            file = files.enter_context(replacing(self.path))
            self._out = files.enter_context(compressing(file, self.path.suffix))
            self._out.write((",".join(self._columns) + "\n").encode())
            self._files = files.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with writing(self.path):
            self._files.__exit__(kind, error, trace)

    def write(self, table: np.ndarray) -> None:
        """Write some rows, int64[n, columns]."""
        with writing(self.path):
            self._out.write(self._text[: write_lines(table, self._kinds, self._words, self._text)].data)


class CommandLog(CsvLog):
    """The commands: COMMAND_COLUMNS, -1 = not applicable.

    Pseudo channels count as ranks. REFab, PREab, SRE and SRX name only channel and rank (the first one where they reach
    further); the refresh engine's PRE and REFpb name no row and column. As DRAMsim3 writes it, the engine's commands
    name no channel, and an SRX has the place of the request that it wakes the rank for.
    """

    def __init__(self, path: str | Path, memory: Memory) -> None:
        kinds = (DECIMAL, WORD, *[DECIMAL] * 6)
        super().__init__(path, COMMAND_COLUMNS, kinds, COMMANDS)
        self._size = memory.table.rules.size.tolist()
        self._dramsim3 = memory.policy.quirks == "dramsim3"

    def wanted_ck(self) -> tuple[int, int]:
        """See `Log`."""
        return EVERY_CK

    def commands(self, rows: np.ndarray) -> None:
        """See `Log`."""
        for first in range(0, len(rows), ROWS):
            self.write(self._table(rows[first : first + ROWS]))

    def requests(self, rows: np.ndarray) -> None:
        """See `Log`."""

    def _table(self, rows: np.ndarray) -> np.ndarray:
        clock, channel, command, bank, row, column, by = rows.T
        engine = by == BY_ENGINE
        if self._dramsim3:
            whole = (command == REFAB) | (command == PREAB) | (command == SRE)
            channel = np.where(engine, -1, channel)
        else:
            whole = (command == REFAB) | (command == PREAB) | (command == SRE) | (command == SRX)
        no_row = whole | engine & ((command == PRE) | (command == REFPB))
        place = [np.where(whole, -1, part) for part in coordinates(bank, self._size)[1:]]
        cells = [np.where(no_row, -1, cell) for cell in (row, column)]
        return np.stack([clock, command, channel, coordinates(bank, self._size)[0], *place, *cells], axis=1)


class RequestLog(CsvLog, Passing):
    """The requests: REQUEST_COLUMNS, in the order of the trace; `watch` the chunks that are simulated."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, REQUEST_COLUMNS, (DECIMAL, WORD, HEXADECIMAL, DECIMAL, DECIMAL), OPS)
        Passing.__init__(self)

    def wanted_ck(self) -> tuple[int, int]:
        """See `Log`."""
        return 0, 0

    def commands(self, rows: np.ndarray) -> None:
        """See `Log`."""

    def requests(self, rows: np.ndarray) -> None:
        """See `Log`."""
        for first in range(0, len(rows), ROWS):
            number, accept, done = rows[first : first + ROWS].T
            address, write = self.take(len(number))
            self.write(np.stack([number, write, address, accept, done], axis=1))


def coordinates(bank: np.ndarray, size: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rank (pseudo channels included), bank group of the rank, bank of the group; size: as in `Rules`."""
    of_rank, of_group = size[4] // size[2], size[4] // size[3]
    return bank // of_rank, bank % of_rank // of_group, bank % of_group
