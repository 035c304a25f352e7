"""A process that simulates design points, one after the other: messages in on stdin, rows out on stdout.

A point may crash its process or never end; the worker that started it goes on with a new one. Messages are lines of
JSON. The process ends when its worker is gone, even in the middle of a point, and when nobody has asked for long.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from fcntl import F_GETFL, F_SETFL, F_SETOWN, fcntl
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from pimloom.arch.error import one_line
from pimloom.arch.units import MIB
from pimloom.cycle_sim.cores import CORES
from pimloom.sweeping.crew.shared_steps import SharedSteps
from pimloom.sweeping.definition.sweep import Scalar

if TYPE_CHECKING:
    from pimloom.cycle_sim.runs import Known, Run

COMMAND = (sys.executable, "-P", "-m", "pimloom.sweeping.crew.simulator")  # -P: no imports from the current folder
MOST_RUNS = 500_000  # some 200 MB
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # the other cores have points of their own
# glibc else gives large arrays back at once, and every page of the next ones is a fault. Dask's nanny makes it worse:
# its workers inherit a trim threshold of 64 KiB.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB), "MALLOC_TRIM_THRESHOLD_": str(1024 * MIB)}
IDLE_S = 60.0  # after which a process that nobody asks ends
_SAID_BYTES = 4096  # of its last words, how many are looked at


class Task(msgspec.Struct):
    """One point; limit_s: its most wall time, None for none. steps: sub-problems that others have solved."""

    point: dict[str, Scalar]
    limit_s: float | None
    steps: list[bytes]


class Answer(msgspec.Struct):
    """Its row, without `wall_s`, `host` and `finished_utc`; the sub-problems it solved; seconds it took; digest of the
    code that simulated."""

    row: dict[str, Any]
    steps: bytes
    wall_s: float
    code: str


class SimulatorDied(Exception):
    """The process ended before it answered: `idle` before it began, `limit` by the alarm of the point's time limit."""

    def __init__(self, code: int, said: str = "") -> None:
        self.idle, self.limit = code == 0, code == -signal.SIGALRM
        name = f"exit code {code}" if code >= 0 else _signal_name(-code)
        super().__init__(f"the process that simulated it ended with {name}{said and f' ({said})'}")


class SimulatorClosed(Exception):
    """The worker is closing."""


class Simulator:
    """The worker's side: starts the process when it is first needed, and again after it died."""

    def __init__(self, base: bytes, shared: SharedSteps) -> None:
        self._base, self._shared = base, shared
        self._decoder = msgspec.json.Decoder(Answer)
        self._lock = threading.Lock()  # `close` comes from another thread than `run`
        self._closed = False
        self._process: _Process | None = None

    def run(self, point: Mapping[str, Scalar], limit_s: float | None) -> Answer:
        """Simulate one point. Raises SimulatorDied; after `close` SimulatorClosed."""
        with self._lock:
            if self._closed:
                raise SimulatorClosed
            process = self._process = self._process or _Process(self._base)
        steps, process.heard = self._shared.since(process.heard, process)
        line = process.ask(msgspec.json.encode(Task(dict(point), limit_s, steps)))
        if line.endswith(b"\n"):
            answer = self._decoder.decode(line)
            self._shared.add(answer.steps, process)
            return answer
        with self._lock:
            if self._closed:
                raise SimulatorClosed
            self._process = None
        raise process.death()

    def close(self) -> None:
        """End the process, and whatever runs in it."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()


class _Process:
    """A running simulator, its pipes, and what it says."""

    def __init__(self, base: bytes) -> None:
        ours, self._lifeline = os.pipe()  # nothing is ever written to it; it closes with this process
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [*COMMAND, str(ours)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self._said,
                pass_fds=(ours,),
                start_new_session=True,  # an interrupt at the terminal is for the sweep
                env=os.environ | ONE_THREAD | KEEP_MEMORY,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(ours)
        self._first = base + b"\n"
        self.heard = 0  # of what simulators share

    def ask(self, message: bytes) -> bytes:
        """The line that answers; less than a line if the process ends."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout
        try:
            stdin.write(self._first + message + b"\n")
            stdin.flush()
            self._first = b""
            return stdout.readline()
        except BrokenPipeError:
            return b""

    def kill(self) -> None:
        """End it; `ask` returns."""
        self._process.kill()
        self._process.wait()

    def death(self) -> SimulatorDied:
        """How it ended. Waits for it, and frees what it had."""
        code = self._process.wait()
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _SAID_BYTES))
        words = [line for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        self._said.close()
        os.close(self._lifeline)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                assert pipe
                pipe.close()
        return SimulatorDied(code, one_line(words[-1]) if words and code > 0 else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Memory:
    """What this process knows of command streams; it forgets all of it when it is too much."""

    def __init__(self) -> None:
        from pimloom.cycle_sim.runs import Known

        self._known, self._count = Known(), 0

    def known(self, steps: list[bytes]) -> "Known":
        """All of it, with what others have solved."""
        from pimloom.cycle_sim.runs import Known, unpack

        if self._count > MOST_RUNS:
            self._known, self._count = Known(), 0
        for packed in steps:
            runs = unpack(packed)
            self._known.add(runs)
            self._count += len(runs)
        return self._known

    def keep(self, solved: "list[tuple[bytes, Run]]") -> bytes:
        """Count what is new, and pack it for others."""
        from pimloom.cycle_sim.runs import pack

        self._count += len(solved)
        return pack(solved)


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """The process's side: the first line is the base of all points, each further one a task."""
    from pimloom.sweeping.crew.alarm import Alarm
    from pimloom.sweeping.point.code import code_digest
    from pimloom.sweeping.point.evaluate import evaluate
    from pimloom.sweeping.point.shared import Base

    base, alarm, code = msgspec.json.decode(asked.readline(), type=Base), Alarm(), code_digest()
    memory = _Memory()
    decoder = msgspec.json.Decoder(Task)
    while line := asked.readline():
        task = decoder.decode(line)
        alarm.set(task.limit_s)
        start = time.perf_counter()
        found = evaluate(base, task.point, memory.known(task.steps))
        solved = memory.keep(found.steps)
        wall_s = time.perf_counter() - start
        alarm.off()
        answers.write(msgspec.json.encode(Answer(found.row, solved, wall_s, code)) + b"\n")
        answers.flush()
        if not select.select([asked], [], [], IDLE_S)[0]:  # one task at a time: none is in the buffer
            return


def main() -> None:
    """Serve on stdin and stdout; what simulations print goes to stderr."""
    CORES.set(1)
    end_with(int(sys.argv[-1]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)


def end_with(lifeline: int) -> None:
    """End this process by a signal of the operating system when the other end of the pipe `lifeline` closes.

    No thread watches for that: one would wait for compiled code that does not let go of Python's lock.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGIO})
    fcntl(lifeline, F_SETOWN, os.getpid())
    fcntl(lifeline, F_SETFL, fcntl(lifeline, F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # gone already
        os._exit(1)


if __name__ == "__main__":
    main()
