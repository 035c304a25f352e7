"""Who simulates: the workers of a Dask cluster, an embedded one or any running scheduler's.

A task is a chunk of points, long enough that its way to the worker costs little. Every Dask worker gets a plugin that
knows what all points share and keeps one simulating process per thread.
"""

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from distributed import Client, Future, LocalCluster, WorkerPlugin, get_worker
from distributed.scheduler import KilledWorker

from pimloom.arch.error import UserError
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.sweeping.simulator import Answer, Simulator, SimulatorDied

PLUGIN = "pimloom-simulators"
DEATHS = 3  # times that a point may take its process or worker with it before it counts as failed
CONNECT_S = 10.0
LOOK_S = 2.0  # how often workers are counted
SPARE = 2  # chunks sent for each thread, so that none waits for us


class Chunk(NamedTuple):
    """Points of one task, by key."""

    points: Mapping[str, Mapping[str, Scalar]]


class Finished(NamedTuple):
    """One point's end: its answer, or why there is none; and on which host."""

    key: str
    answer: Answer | None
    failure: str
    wall_s: float
    host: str


class SchedulerLost(Exception):
    """The connection to the scheduler broke; what was sent to it must be sent again."""


class Simulators(WorkerPlugin):  # type: ignore[misc]
    """A Dask worker's simulators: as many as tasks that run at once."""

    name = PLUGIN

    def __init__(self, base: bytes) -> None:
        self._base = base

    def setup(self, worker: Any) -> None:
        """Begin, without a process yet."""
        self._idle: queue.LifoQueue[Simulator] = queue.LifoQueue()
        self._all: list[Simulator] = []
        self.host = worker.address

    def teardown(self, worker: Any) -> None:
        """End the processes."""
        for simulator in self._all:
            simulator.close()

    def take(self) -> Simulator:
        """One that nobody uses."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            self._all.append(Simulator(self._base))
            return self._all[-1]

    def give_back(self, simulator: Simulator) -> None:
        """Let others use it."""
        self._idle.put(simulator)


def simulate(chunk: Mapping[str, Mapping[str, Scalar]], limit_s: float | None, steps: Sequence[Any]) -> list[Finished]:
    """Run on a worker: every point of the chunk, whatever becomes of each."""
    from socket import gethostname

    crew: Simulators = get_worker().plugins[PLUGIN]
    simulator, host = crew.take(), gethostname()
    found = []
    try:
        for key, point in chunk.items():
            start = time.perf_counter()
            answer, failure = _try(simulator, point, limit_s, () if found else steps)
            found.append(Finished(key, answer, failure, time.perf_counter() - start, host))
    finally:
        crew.give_back(simulator)
    return found


def _try(
    simulator: Simulator, point: Mapping[str, Scalar], limit_s: float | None, steps: Sequence[Any]
) -> tuple[Answer | None, str]:
    for _ in range(DEATHS):
        try:
            return simulator.run(point, limit_s, steps), ""
        except SimulatorDied as death:
            if death.limit:
                return None, f"took longer than {limit_s:g} s, the limit of --timeout-per-point"
            why = str(death)
    return None, f"{why}, {DEATHS} times"


class Crew:
    """A connection to the cluster. Use as a context; `submit` chunks, `finished` gives what ended."""

    def __init__(self, base: bytes, scheduler: str | None, workers: int, limit_s: float | None) -> None:
        self._base, self._scheduler, self._workers, self._limit_s = base, scheduler, workers, limit_s
        self._cluster: LocalCluster | None = None
        self._client: Client | None = None
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._sent: dict[str, tuple[Future, Chunk]] = {}
        self._threads, self._looked = 0, -LOOK_S

    def __enter__(self) -> "Crew":
        for name in ("distributed", "tornado"):  # a lost worker or scheduler is ours to report
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()
        if self._cluster is not None:
            self._cluster.close()

    def connect(self) -> None:
        """Connect, or connect again after SchedulerLost. Raises UserError if nobody answers."""
        self._disconnect()
        if self._scheduler is None and self._cluster is None:
            shape: dict[str, Any] = {"n_workers": 1, "threads_per_worker": self._workers, "processes": False}
            self._cluster = LocalCluster(dashboard_address=None, **shape)
        try:
            self._client = Client(self._cluster or self._scheduler, timeout=CONNECT_S, set_as_default=False)
            self._client.register_plugin(Simulators(self._base))
        except (OSError, TimeoutError, ValueError, ImportError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(
                f"--scheduler {self._scheduler}: no Dask scheduler answers there ({said}); start one with "
                "`dask scheduler`, or leave the option out"
            ) from None

    def threads(self) -> int:
        """Points that the cluster simulates at once; 0 while it has no workers. Raises SchedulerLost."""
        if time.monotonic() - self._looked > LOOK_S:
            self._threads, self._looked = sum(self._ask("nthreads").values()), time.monotonic()
        return self._threads

    @property
    def wants(self) -> int:
        """Chunks that should be sent now."""
        return max(SPARE * self.threads(), 1) - len(self._sent)

    def submit(self, chunk: Chunk, steps: Sequence[Any] = ()) -> None:
        """Send a chunk. Raises SchedulerLost."""
        points = {key: dict(point) for key, point in chunk.points.items()}
        future = self._ask("submit", simulate, points, self._limit_s, list(steps), pure=False, retries=0)
        self._sent[future.key] = (future, chunk)
        future.add_done_callback(self._done.put)

    def finished(self, wait_s: float) -> list[Finished]:
        """What ended since the last call; waits for at most `wait_s` if nothing did. Raises SchedulerLost."""
        if self._client is None or self._client.status != "running":
            raise SchedulerLost
        found: list[Finished] = []
        try:
            found += self._result(self._done.get(timeout=wait_s))
            while True:
                found += self._result(self._done.get_nowait())
        except queue.Empty:
            return found

    def take_back(self) -> list[Chunk]:
        """The chunks that are not finished; they are forgotten here."""
        chunks = [chunk for _, chunk in self._sent.values()]
        self._sent.clear()
        self._done = queue.SimpleQueue()
        return chunks

    def _result(self, future: Future) -> list[Finished]:
        if future.key not in self._sent:
            return []
        if future.status in ("cancelled", "lost"):
            raise SchedulerLost
        _, chunk = self._sent.pop(future.key)
        if future.status == "finished":
            return future.result()
        error = future.exception()
        if isinstance(error, KilledWorker):
            if len(chunk.points) == 1:
                why = "every worker that simulated it ended; its memory may be too small"
                return [Finished(key, None, why, 0.0, "") for key in chunk.points]
            for key, point in chunk.points.items():  # one of them alone will be guilty
                self.submit(Chunk({key: point}))
            return []
        raise UserError(f"a worker cannot simulate: {type(error).__name__}: {error}; install the same pimloom there")

    def _ask(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Call the client; an answer that does not come means that the scheduler is lost."""
        if self._client is None or self._client.status != "running":
            raise SchedulerLost
        try:
            return getattr(self._client, what)(*arguments, **options)
        except (OSError, TimeoutError) as error:
            raise SchedulerLost from error

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            closing = threading.Thread(target=client.close, kwargs={"timeout": 2}, daemon=True)
            closing.start()
            closing.join(5)
