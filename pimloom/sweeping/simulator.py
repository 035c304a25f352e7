"""A process that simulates design points, one after the other: messages in on stdin, rows out on stdout.

A point may crash its process or never end; the worker that started it goes on with a new one. A point's time limit is
an alarm of the operating system, which ends the process even inside compiled code, and when the worker is gone, too.
Messages are lines of JSON.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from pimloom.sweeping.definition.sweep import Scalar

COMPILE_S = 300.0  # beyond a point's limit, for a machine's first point, which compiles the engines
WATCH_S = 1.0  # how soon a simulator notices that its worker is gone


class Task(msgspec.Struct):
    """One point; limit_s: its most wall time, None for none. steps: sub-problems that others have solved."""

    point: dict[str, Scalar]
    limit_s: float | None
    steps: list[tuple[bytes, list[int]]]


class Answer(msgspec.Struct):
    """Its row, without `wall_s`, `host` and `finished_utc`; the sub-problems it solved; seconds it took; digest of the
    code that simulated."""

    row: dict[str, Any]
    steps: list[tuple[bytes, list[int]]]
    wall_s: float
    code: str


class SimulatorDied(Exception):
    """The process ended before it answered; `limit` says whether by the alarm of the point's time limit."""

    def __init__(self, code: int) -> None:
        self.limit = code == -signal.SIGALRM
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        super().__init__(f"the process that simulated it ended with {name}")


class Simulator:
    """The worker's side: starts the process when it is first needed, and again after it died."""

    def __init__(self, base: bytes) -> None:
        self._base = base
        self._decoder = msgspec.json.Decoder(Answer)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, point: Mapping[str, Scalar], limit_s: float | None, steps: Sequence[Any] = ()) -> Answer:
        """Simulate one point. Raises SimulatorDied."""
        process = self._process or self._start()
        assert process.stdin and process.stdout
        try:
            _send(process.stdin, msgspec.json.encode(Task(dict(point), limit_s, list(steps))))
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            self._process = None
            process.stdout.close()
            raise SimulatorDied(process.wait())
        return self._decoder.decode(line)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pimloom.sweeping.simulator"]
        pipe = subprocess.PIPE  # a session of its own: an interrupt at the terminal is for the sweep
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        assert self._process.stdin
        _send(self._process.stdin, self._base)
        return self._process


def _send(pipe: Any, message: bytes) -> None:
    pipe.write(message + b"\n")
    pipe.flush()


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """The process's side: the first line is the base of all points, each further one a task."""
    from pimloom.cycle_sim.runs import Known, Run
    from pimloom.sweeping.point.code import code_digest
    from pimloom.sweeping.point.evaluate import evaluate
    from pimloom.sweeping.point.shared import Base

    base, compiled = msgspec.json.decode(asked.readline(), type=Base), False
    known = Known()
    decoder = msgspec.json.Decoder(Task)
    for line in asked:
        task = decoder.decode(line)
        if task.limit_s is not None:
            more = 0 if compiled else COMPILE_S
            signal.setitimer(signal.ITIMER_REAL, task.limit_s + more)
        start = time.perf_counter()
        known.add((key, Run(*run)) for key, run in task.steps)
        found = evaluate(base, task.point, known)
        wall_s = time.perf_counter() - start
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(
            answers,
            msgspec.json.encode(
                Answer(found.row, [(key, list(run)) for key, run in found.steps], wall_s, code_digest())
            ),
        )


def main() -> None:
    """Serve on stdin and stdout; what simulations print goes to stderr."""
    worker = os.getppid()
    threading.Thread(target=_end_with, args=(worker,), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)


def _end_with(worker: int) -> None:
    """End this process when the worker that started it is gone, even in the middle of a point."""
    while os.getppid() == worker:
        time.sleep(WATCH_S)
    os._exit(1)


if __name__ == "__main__":
    main()
