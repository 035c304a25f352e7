"""What runs on a Dask worker: its simulating processes, and the task that hands them a chunk of points."""

import hashlib
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from distributed import WorkerPlugin, get_worker

from pimloom.sweeping.crew.shared_steps import SharedSteps
from pimloom.sweeping.crew.simulator import Answer, Simulator, SimulatorClosed, SimulatorDied
from pimloom.sweeping.definition.sweep import Scalar

DEATHS = 3  # times that a point may take its process or worker with it before it counts as failed
LONG_S = 1.0  # a chunk that takes longer comes back before it is done, so that others can have the rest


class Finished(NamedTuple):
    """One point's end: its answer, or why there is none; and on which host."""

    key: str
    answer: Answer | None
    failure: str
    wall_s: float
    host: str


class NoSimulators(Exception):
    """The worker was never told what all points share: its scheduler is a new one."""


class Simulators(WorkerPlugin):
    """A worker's simulators of one sweep: as many as tasks that run at once.

    Several that fill the same sweep share them. Nobody removes them, since any of us may be killed, but processes that
    nobody asks end.
    """

    idempotent = True

    def __init__(self, base: bytes, steps: list[bytes]) -> None:
        self._base, self._first = base, steps
        self.name = f"pimloom-{hashlib.blake2b(base, digest_size=16).hexdigest()}"

    def setup(self, worker: Any) -> None:
        """Begin, without a process yet."""
        self.shared = SharedSteps(self._first)
        self._lock = threading.Lock()
        self._closed = False
        self._idle: queue.LifoQueue[Simulator] = queue.LifoQueue()
        self._all: list[Simulator] = []

    def teardown(self, worker: Any) -> None:
        """End the processes; no new one comes."""
        with self._lock:
            self._closed = True
            for simulator in self._all:
                simulator.close()

    def take(self) -> Simulator:
        """One that nobody uses. Raises SimulatorClosed."""
        with self._lock:
            if self._closed:
                raise SimulatorClosed
            try:
                return self._idle.get_nowait()
            except queue.Empty:
                self._all.append(Simulator(self._base, self.shared))
                return self._all[-1]

    def give_back(self, simulator: Simulator) -> None:
        """Let others use it."""
        self._idle.put(simulator)


def learn(name: str, steps: list[bytes], dask_worker: Any) -> None:
    """Run on a worker: tell the simulators `name` what those of other workers have solved."""
    crew = dask_worker.plugins.get(name)
    if isinstance(crew, Simulators):
        for step in steps:
            crew.shared.add(step)


def simulate(name: str, chunk: Mapping[str, Mapping[str, Scalar]], limit_s: float | None) -> list[Finished]:
    """Run on a worker, by the simulators `name`: points of the chunk, whatever becomes of each.

    Those that are not in the result have not begun: the chunk took long, or the worker closes. Raises NoSimulators.
    """
    from socket import gethostname

    crew = get_worker().plugins.get(name)
    if not isinstance(crew, Simulators):
        raise NoSimulators
    host, found, began = gethostname(), list[Finished](), time.perf_counter()
    try:
        simulator = crew.take()
    except SimulatorClosed:
        return []
    try:
        for key, point in chunk.items():
            start = time.perf_counter()
            answer, failure = _try(simulator, point, limit_s)
            found.append(Finished(key, answer, failure, time.perf_counter() - start, host))
            if time.perf_counter() - began > LONG_S:
                break
    except SimulatorClosed:
        pass
    finally:
        crew.give_back(simulator)
    return found


def _try(simulator: Simulator, point: Mapping[str, Scalar], limit_s: float | None) -> tuple[Answer | None, str]:
    """The answer, or why there is none. Raises SimulatorClosed."""
    why, deaths = "", 0
    while deaths < DEATHS:
        try:
            return simulator.run(point, limit_s), ""
        except SimulatorDied as death:
            if death.limit:
                return None, f"took longer than {limit_s:g} s, the limit of --timeout-per-point"
            deaths, why = deaths + (not death.idle), str(death)
    return None, f"{why}, {DEATHS} times"
