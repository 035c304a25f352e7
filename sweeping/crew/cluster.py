"""Who simulates: the workers of a Dask cluster, an embedded one or any running scheduler's.

A task is a chunk of points, long enough that its way to the worker costs little. Every Dask worker gets a plugin that
knows what all points share and keeps one simulating process per thread.
"""

import gc
import logging
import queue
import threading
import time
import warnings
from contextlib import suppress
from typing import Any

import dask
from distributed import Client, Future, LocalCluster, Worker
from distributed.scheduler import KilledWorker

from pimloom.arch.error import UserError, one_line
from pimloom.sweeping.crew.chunk import Chunk, SchedulerLost, no_scheduler
from pimloom.sweeping.crew.worker import Finished, NoSimulators, Simulators, learn, simulate

CONNECT_S = 10.0
LOOK_S = 2.0  # how often workers are counted
SPARE = 2  # chunks sent for each thread, so that none waits for us


class Crew:
    """A connection to the cluster. Use as a context; `submit` chunks, `finished` gives what ended."""

    def __init__(
        self, base: bytes, steps: list[bytes], scheduler: str | None, workers: int, limit_s: float | None
    ) -> None:
        self._simulators, self._limit_s = Simulators(base, steps), limit_s
        self.scheduler, self._workers = scheduler, workers
        self._cluster: LocalCluster | None = None
        self._client: Client | None = None
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._sent: dict[str, tuple[Future, Chunk]] = {}
        self._left: list[Chunk] = []
        self._threads, self._looked = 0, -LOOK_S

    def __enter__(self) -> "Crew":
        _hush("distributed", "tornado", "asyncio")  # a lost worker or scheduler is ours to report
        warnings.filterwarnings("ignore", module="distributed")
        try:
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            for worker in cluster.workers.values():  # what still runs has no one to tell
                if isinstance(plugin := worker.plugins.get(self._simulators.name), Simulators):
                    plugin.teardown(worker)
        self._disconnect()
        if cluster is not None:
            cluster.close()

    def connect(self, within_s: float | None = None) -> None:
        """Connect, or connect again after SchedulerLost. Raises UserError if nobody answers."""
        self._disconnect()
        self._looked = -LOOK_S
        if self.scheduler is None and self._cluster is None:
            self._cluster = _local_cluster(self._workers)
        self._client = self._new_client(within_s or CONNECT_S)
        try:
            self._client.register_plugin(self._simulators)
        except Exception as error:
            raise UserError(f"the workers of {self.scheduler} cannot simulate: {_said(error)}; {REMEDY}") from None

    def _new_client(self, within_s: float) -> Client:
        options: dict[str, Any] = {"timeout": within_s, "set_as_default": False}
        try:
            return Client(self._cluster or self.scheduler, **options)  # type: ignore[no-untyped-call]
        except Exception as error:  # Dask has many for an address that is none
            why = _said(error)
        # Beware: a client that failed closes itself when it is collected; in the middle of another one's start, which
        # holds the same lock, it would wait for ever.
        gc.collect()
        raise UserError(no_scheduler(str(self.scheduler), why))

    def threads(self) -> int:
        """Points that the cluster simulates at once; 0 while it has no workers. Raises SchedulerLost."""
        if time.monotonic() - self._looked > LOOK_S:
            self._threads, self._looked = sum(self._ask("nthreads").values()), time.monotonic()
        return self._threads

    @property
    def wants(self) -> int:
        """Chunks that should be sent now."""
        return max(SPARE * self.threads(), 1) - len(self._sent)

    def share(self, steps: list[bytes]) -> None:
        """Tell all workers what one has solved; the embedded one knows. Waits for nobody, and may reach nobody."""
        client, name = self._client, self._simulators.name

        async def tell() -> None:
            with suppress(Exception):  # a worker that does not hear of it solves it again
                assert client is not None
                await client.run(learn, name, steps, asynchronous=True, on_error="ignore")

        if self._cluster is None and client is not None and client.status == "running" and client.loop and steps:
            client.loop.add_callback(tell)

    def submit(self, chunk: Chunk) -> None:
        """Send a chunk. Raises SchedulerLost."""
        points = {key: dict(point) for key, point in chunk.points.items()}
        arguments = (self._simulators.name, points, self._limit_s)
        future = self._ask("submit", simulate, *arguments, pure=False, retries=0)
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

    def left_over(self) -> list[Chunk]:
        """Points that were sent, and came back as they were, since the last call."""
        left, self._left = self._left, []
        return left

    def take_back(self) -> list[Chunk]:
        """The chunks that are not finished; they are forgotten here."""
        chunks = [chunk for _, chunk in self._sent.values()] + self.left_over()
        self._sent.clear()
        self._done = queue.SimpleQueue()
        return chunks

    def _result(self, future: Future) -> list[Finished]:
        if future.key not in self._sent:
            return []
        if future.status in ("cancelled", "lost"):
            raise SchedulerLost
        if future.status == "finished":
            try:
                found: list[Finished] = future.result(timeout=CONNECT_S)
            except Exception as error:  # its worker went before the result came
                raise SchedulerLost from error
            _, chunk = self._sent.pop(future.key)
            done = {one.key for one in found}
            if rest := {key: point for key, point in chunk.points.items() if key not in done}:
                self._left.append(Chunk(rest))
            return found
        fault = future.exception()  # type: ignore[no-untyped-call]
        if isinstance(fault, NoSimulators):
            raise SchedulerLost
        _, chunk = self._sent.pop(future.key)
        if not isinstance(fault, KilledWorker):
            raise UserError(f"a worker cannot simulate: {type(fault).__name__}: {_said(fault)}; {REMEDY}")
        if len(chunk.points) > 1:  # one of them alone will be guilty
            self._left += [Chunk({key: point}) for key, point in chunk.points.items()]
            return []
        why = "every worker that simulated it ended; its memory may be too small"
        return [Finished(key, None, why, 0.0, "") for key in chunk.points]

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


REMEDY = "install the same pimloom there"


LOOPBACK = "127.0.0.1:0"  # Dask opens ports for its web pages even where there are none; else on all interfaces
QUIET = {
    "distributed.worker.profile.enabled": False,  # Dask's profiler alone takes some percent of a core
    "distributed.admin.tick.interval": "500ms",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


class _Alone(Worker):
    """A worker without web pages."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options | {"dashboard": False})


def _local_cluster(workers: int) -> LocalCluster:
    """Workers as threads of this process, each with its simulating process. Raises UserError."""
    shape: dict[str, Any] = {"n_workers": 1, "threads_per_worker": workers, "processes": False, "memory_limit": 0}
    shape |= {"protocol": "inproc://", "worker_class": _Alone, "worker_dashboard_address": LOOPBACK}
    shape |= {"scheduler_kwargs": {"dashboard": False, "dashboard_address": LOOPBACK}}
    try:
        with dask.config.set(QUIET):
            return LocalCluster(**shape)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, RuntimeError) as error:
        raise UserError(f"cannot start {workers} workers here: {_said(error)}; try fewer with --workers") from None


def _hush(*names: str) -> None:
    """No log lines of these and of all below them, some of which have a level of their own."""
    for name in [*names, *logging.root.manager.loggerDict]:
        if name.split(".")[0] in names:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _said(error: BaseException | None) -> str:
    """Why, in one line without a dot."""
    lines = str(error).splitlines()
    return one_line(lines[0]).rstrip(".") if lines and lines[0].strip() else type(error).__name__
