"""What the engine found of a stream on a table: without refresh, and with one that falls due or still runs.

A stream that starts idle and closed runs as without refresh until a refresh is due, and beyond: a refresh that is due
only keeps rows from opening. So all refreshes that fall due behind one opening of a row and up to the next one, but not
after the clock in which REFab issues for the first of them, give one and the same run, as long as no other falls due
before that run ends; behind the last opening, no REFab at all does for every later one, too. One run of the engine
stands for all of them: `low` to `high`. Nothing is approximated;
`tests/test_runs.py` compares all clocks with the engine.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Row
from pimloom.arch.table import Table
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.dram.phases import Phase, Phases
from pimloom.cycle_sim.dram.stream import Engine, Issue, engine_of
from pimloom.cycle_sim.dram.words import NAMES

Watch = Callable[[np.ndarray, Issue, int, int], None]
RunIt = Callable[[int, int], Phase]  # clocks of the refresh due, and of one that still runs
NOT_RUNNING = -int(FAR)
ENGINE = (  # the files that decide a run
    "dram/kernels/device.py", "dram/kernels/rows.py", "dram/kernels/stream.py", "dram/phases.py", "dram/stream.py",
    "dram/words.py", "runs.py",
)  # fmt: skip
MOST_STREAMS = 50_000  # that are kept: some 150 MB; then all are found out again where they are needed
MOST_TABLES = 256  # whose engines are kept


class Run(NamedTuple):
    """A stream as it ran; clocks in CK from its start. Holds for refreshes due from `low` to `high`.

    running: clock of an earlier REFab, NOT_RUNNING without. idle: first clock with nothing under way; ready: in which a
    REFab would be legal; refreshed: of the last REFab; refreshes: how many issued.
    """

    running: int
    low: int
    high: int
    idle: int
    ready: int
    refreshed: int
    refreshes: int


class Stream:
    """All known runs of a stream, and the one without refresh. runs: int64 rows of `Run`, by running and low."""

    def __init__(self, table: Table, stream: np.ndarray, engine: Engine, watch: Watch | None) -> None:
        found = engine.issue([stream], refresh=False)
        if watch:
            watch(stream, found, int(FAR), NOT_RUNNING)
        self.idle_ck = found.idle_ck
        self.settled_ck = max(*(int(end.max(initial=0)) for end in found.end_ck), found.idle_ck)
        opens = table.rules.leaves[stream["cmd"]] == int(Row.OPEN)
        self._opens: list[int] = np.sort(found.issue_ck[0][opens]).tolist()
        self._refi, self._runs = table.rules.refi, list[Run]()
        self._room = np.zeros((0, len(Run._fields)), np.int64)  # doubles when it is full: a new run is cheap
        self.runs = self._room

    def find(self, due: int, running: int) -> Run | None:
        """The run with a refresh due and another one running, if it is known."""
        at = bisect_right(self._runs, (running, due, FAR)) - 1
        run = self._runs[at] if at >= 0 else None
        return run if run and run.running == running and run.low <= due <= run.high else None

    def add(self, run: Run) -> None:
        """Keep a run, unless one of the same beginning is there."""
        at, n = bisect_right(self._runs, (run.running, run.low, FAR)), len(self._runs)
        if at and self._runs[at - 1][:2] == run[:2]:
            return
        self._runs.insert(at, run)
        if n == len(self._room):
            self._room = np.concatenate([self._room, np.empty((max(n, 8), len(Run._fields)), np.int64)])
        self._room[at + 1 : n + 1] = self._room[at:n]
        self._room[at] = run
        self.runs = self._room[: n + 1]

    def compute(self, run: RunIt, due: int, running: int) -> list[Run]:
        """Run the engine until this run is known; the runs that are new."""
        new: list[Run] = []
        if running == NOT_RUNNING and due <= self.settled_ck < self._refi:
            at = bisect_right(self._opens, due - 1)  # rows opened before it falls due
            low = self._opens[at - 1] + 1 if at else due
            until = self._opens[at] if at < len(self._opens) else self.settled_ck
            if self.find(low, running) is None:
                new.append(self._run(run, low, running, until))
                self.add(new[-1])
        if self.find(due, running) is None:
            new.append(self._run(run, due, running, due))
            self.add(new[-1])
        return new

    def _run(self, run: RunIt, due: int, running: int, until: int) -> Run:
        """The run for a refresh due at `due`, and those up to `until` that are the same."""
        found, high = run(due, running), due
        n, last = found.refreshes, found.last_ck
        if n == 1 and due + self._refi > max(found.ended_ck, found.idle_ck):
            high = max(min(until, last), due)
        elif n == 0 and until == self.settled_ck:  # no row left to open, no REFab before the end: none later either
            high = max(until, due)
        return Run(running, due, high, found.idle_ck, found.ready_ck, last, n)


class Known:
    """Runs of streams on tables, shared by the machines of a process; `new` are those that were not there before."""

    def __init__(self) -> None:
        self.streams: dict[bytes, Stream] = {}
        self._waiting: dict[bytes, list[Run]] = {}
        self._engines: dict[int, tuple[Engine, bytes, Phases]] = {}
        self.new: list[tuple[bytes, Run]] = []

    def engine(self, table: Table) -> Engine:
        """The engine for a table, made once."""
        return self._of(table)[0]

    def phases(self, table: Table) -> Phases:
        """Its runs of single streams."""
        return self._of(table)[2]

    def _of(self, table: Table) -> tuple[Engine, bytes, Phases]:
        """The engine for a table, which keeps the table and so its id, and the table's digest."""
        if id(table) not in self._engines:
            if len(self._engines) >= MOST_TABLES:
                self._engines = {}
            engine = engine_of(table)
            self._engines[id(table)] = engine, table_digest(table.names, _bytes(table)), Phases(engine)
        return self._engines[id(table)]

    def add(self, runs: Iterable[tuple[bytes, Run]]) -> None:
        """Take runs that were found elsewhere: `(digest of table and stream, run)`."""
        for key, run in runs:
            if key in self.streams:
                self.streams[key].add(Run(*run))
            else:
                self._waiting.setdefault(key, []).append(Run(*run))

    def stream(self, table: Table, stream: np.ndarray, engine: Engine, watch: Watch | None) -> tuple[bytes, Stream]:
        """What is known of a stream on a table."""
        fields = b";".join(stream[name].tobytes() for name in NAMES)  # between them lie bytes that say nothing
        key = hashlib.blake2b(fields, key=self._of(table)[1], digest_size=16).digest()
        if key not in self.streams:
            if len(self.streams) >= MOST_STREAMS:
                self.streams = {}  # machines go on with what they hold
            found = self.streams[key] = Stream(table, stream, engine, watch)
            for run in self._waiting.pop(key, ()):
                found.add(run)
        return key, self.streams[key]


PACKED = np.dtype([("key", "V16"), *((name, "<i8") for name in Run._fields)])


def pack(runs: Sequence[tuple[bytes, Run]]) -> bytes:
    """Runs as bytes, 72 each."""
    packed = np.zeros(len(runs), PACKED)
    for at, (key, run) in enumerate(runs):
        packed[at] = (np.void(key), *run)
    return packed.tobytes()


def unpack(packed: bytes) -> list[tuple[bytes, Run]]:
    """The runs that `pack` packed; none of what is cut off."""
    whole = len(packed) // PACKED.itemsize
    rows = np.frombuffer(packed, PACKED, whole)
    numbers = np.stack([rows[name] for name in Run._fields], axis=1).tolist() if whole else []
    return [(bytes(key), Run(*run)) for key, run in zip(rows["key"], numbers, strict=True)]


@lru_cache(maxsize=256)
def table_digest(names: tuple[str, ...], rules: bytes) -> bytes:
    """Digest of a compiled table, and of the engine's code: runs outlive it in the folder of a sweep."""
    return hashlib.blake2b(repr(names).encode() + rules, key=engine_digest(), digest_size=16).digest()


@cache
def engine_digest() -> bytes:
    """Digest of the code that decides a run, of which a table says nothing."""
    code = [(Path(__file__).parent / name).read_bytes() for name in ENGINE]
    return hashlib.blake2b(b"\0".join(code), digest_size=16).digest()


def _bytes(table: Table) -> bytes:
    return b"".join(np.asarray(value).tobytes() + b";" for value in table.rules)
