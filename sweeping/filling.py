"""Fill the store of a sweep: send points to the crew, keep what comes back, survive what goes wrong."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from pimloom.arch.error import UserError
from pimloom.sweeping.crew.chunk import Chunk, SchedulerLost
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.sweeping.point.row import row_of
from pimloom.sweeping.point.shared import Base
from pimloom.sweeping.stopping import ending_at_once

if TYPE_CHECKING:
    from pimloom.sweeping.crew.cluster import Crew
    from pimloom.sweeping.crew.worker import Finished

CHUNK_S = 0.5  # simulation time of a chunk: its way to a worker and back costs some 5 ms
MOST_POINTS = 256  # of a chunk
LAST_POINTS = 15  # whose median is how long a point takes: the first of a process takes longer
LEAST = 8  # the last chunks are smaller, so that all workers end together; by so much at most
FLUSH_S = 0.5  # rows of fast points are kept together; a slower point's row at once
WAIT_S = 0.5
RETRY_S = 5.0  # how long one try to find a lost scheduler takes

Points = Mapping[str, Mapping[str, Scalar]]  # key -> design point


class Rows(Protocol):
    """Where rows and solved sub-problems go."""

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Keep rows; they are safe when it returns."""

    def append_steps(self, steps: list[bytes]) -> None:
        """Keep solved sub-problems."""

    def others(self) -> set[str]:
        """Keys of points whose rows others have put there since this start began."""


@dataclass
class Counts:
    """What this start has done; skipped: finished points whose rows others have put there."""

    finished: int = 0
    skipped: int = 0
    failed: int = 0
    simulated_s: float = 0.0


class Filling:
    """Simulates points with a crew that starts when the first is needed. Use as a context: rows are kept on any end."""

    def __init__(
        self,
        base: Base,
        rows: Rows,
        start_crew: "Callable[[], Crew]",
        *,
        heard: Callable[[Counts], None] = lambda counts: None,
        say: Callable[[str], None] = lambda text: None,
        check: Callable[[], None] = lambda: None,
        lost_s: float = 60.0,
    ) -> None:
        self._base, self._rows, self._start_crew = base, rows, start_crew
        self._heard, self._say, self._check, self._lost_s = heard, say, check, lost_s
        self._crew: Crew | None = None
        self._waiting: list[dict[str, Any]] = []
        self._steps: list[bytes] = []
        self._flushed = time.monotonic()
        self._again: list[Chunk] = []
        self._points: dict[str, Mapping[str, Scalar]] = {}  # sent and not finished
        self._size, self._took_s = 1, deque[float](maxlen=LAST_POINTS)
        self._threads = 1
        self._alone = False  # without any worker
        self.counts = Counts()

    def __enter__(self) -> "Filling":
        return self

    def __exit__(self, *_: object) -> None:
        with ending_at_once():
            try:
                self.flush()
            finally:
                if self._crew is not None:
                    self._crew.__exit__(None, None, None)

    def fill(self, blocks: Iterable[Points]) -> None:
        """Simulate the points of all blocks but what others finish meanwhile; all their rows are kept when it returns.

        Raises UserError.
        """
        chunks, more = self._chunks(iter(blocks)), True
        while more or self._again or self._points:
            self._check()
            try:
                more = self._send(chunks)
                if self._points:
                    assert self._crew is not None
                    self._take(self._crew.finished(WAIT_S))
                    self._again += self._crew.left_over()
                    self._look_for_workers(self._crew)
            except SchedulerLost:
                self._find_again()
            if self._waiting and time.monotonic() - self._flushed > FLUSH_S:
                self.flush()
        self.flush()

    def skip(self, points: int) -> None:
        """Count points whose rows were there already."""
        self.counts.finished += points
        self.counts.skipped += points
        self._heard(self.counts)

    def flush(self) -> None:
        """Put all rows that are here into the store."""
        if self._waiting:
            self._rows.append(self._waiting)
            self._waiting = []  # not before: an interrupt meanwhile would lose them
        if self._steps:
            steps, self._steps = self._steps, []
            self._rows.append_steps(steps)
            if self._crew is not None:
                self._crew.share(steps)
        self._flushed = time.monotonic()
        self._heard(self.counts)

    def _chunks(self, blocks: Iterator[Points]) -> Iterator[Chunk]:
        """The points in chunks of the size that is right by then, the last ones smaller."""
        ready: dict[str, Mapping[str, Scalar]] = {}
        for block in blocks:
            ready |= block
            while len(self._without_others(ready)) >= self._size * self._threads:
                yield _cut(ready, self._size)
        while self._without_others(ready):
            share = len(ready) // self._threads
            yield _cut(ready, min(self._size, max(share, -(-self._size // LEAST))))

    def _without_others(self, ready: dict[str, Mapping[str, Scalar]]) -> dict[str, Mapping[str, Scalar]]:
        """The same points; those that others have finished are taken out and count as skipped."""
        if done := ready.keys() & self._rows.others():
            for key in done:
                del ready[key]
            self.skip(len(done))
        return ready

    def _send(self, chunks: Iterator[Chunk]) -> bool:
        """Send as many chunks as are wanted; whether there may be more."""
        while True:
            if self._crew is not None and not self._crew.wants > 0:
                return True
            chunk = self._again.pop() if self._again else next(chunks, None)
            if chunk is None:
                return False
            if self._crew is None:
                self._crew = self._start_crew()
            self._points |= chunk.points
            self._again.append(chunk)  # should the scheduler be lost just now
            self._crew.submit(chunk)
            self._again.pop()

    def _take(self, ended: "list[Finished]") -> None:
        for one in ended:
            point = self._points.pop(one.key, None)
            if point is None:
                continue
            row = self._row(one, point)
            self._waiting.append(row)
            self.counts.finished += 1
            self.counts.failed += row["error"] is not None
            self.counts.simulated_s += one.wall_s
            self._took_s.append(one.wall_s)
            if one.answer is not None and one.answer.steps:
                self._steps.append(one.answer.steps)
        if ended:
            wanted = int(CHUNK_S / max(median(self._took_s), 1e-6))
            self._size = max(1, min(wanted, 2 * self._size, MOST_POINTS))

    def _row(self, one: "Finished", point: Mapping[str, Scalar]) -> dict[str, Any]:
        """The row to keep. Raises UserError if the worker's pimloom is another one."""
        if one.answer is None:
            return row_of(self._base, point, None, one.failure, one.wall_s) | {"host": one.host}
        if one.answer.code != self._base.code:
            raise UserError(
                f"the worker on {one.host} has another pimloom (code {one.answer.code}, here {self._base.code}); "
                "install the same version on all machines"
            )
        return one.answer.row

    def _find_again(self) -> None:
        """Wait for a lost scheduler, then send what it had once more. Raises UserError if it stays away."""
        assert self._crew is not None
        self._again += self._crew.take_back()
        self.flush()
        self._say(f"the scheduler is lost; waiting {self._lost_s:g} s for it (all finished rows are kept)")
        deadline = time.monotonic() + self._lost_s
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            try:
                self._crew.connect(min(left, RETRY_S))
            except UserError:
                time.sleep(min(left, WAIT_S))
                continue
            self._say("the scheduler is back")
            return
        raise UserError(
            f"--scheduler {self._crew.scheduler}: was lost and did not come back in {self._lost_s:g} s (--wait); "
            "all finished rows are kept, the same command goes on"
        )

    def _look_for_workers(self, crew: "Crew") -> None:
        """Say once that there are none, and that there are again."""
        self._threads = max(1, crew.threads())
        alone = crew.threads() == 0
        if alone and not self._alone:
            self._say(f"no workers; waiting for them (`dask worker {crew.scheduler}` starts one)")
        elif self._alone and not alone:
            self._say(f"workers for {crew.threads()} points at once")
        self._alone = alone


def _cut(ready: dict[str, Mapping[str, Scalar]], size: int) -> Chunk:
    """Take the first points out."""
    return Chunk({key: ready.pop(key) for key in list(islice(ready, size))})
