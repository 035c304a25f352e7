"""Threads that help the machine through long windows."""

from collections.abc import Callable
from threading import Lock, Thread
from types import TracebackType

import numpy as np

from pimloom.cycle_sim.compiled.kernel import PLAIN, bind
from pimloom.cycle_sim.cores import raise_if_stopped
from pimloom.cycle_sim.npu_pim.kernels import machine
from pimloom.cycle_sim.npu_pim.kernels.core import Program
from pimloom.cycle_sim.npu_pim.kernels.crew import HELPERS, LONG, N_CREW, N_STOPPED, NEXT, THROUGH
from pimloom.cycle_sim.npu_pim.kernels.fields import Channel

LONG_CK = 512  # clocks of all channels together: less, one thread has done before another is awake


class Crew:
    """A machine, and threads beside the caller's that sleep until its channels have much to do."""

    def __init__(self, program: Program, channels: Channel, helpers: int) -> None:
        self._channels, self._numbers = channels, np.zeros(N_CREW, np.int64)
        helpers = 0 if PLAIN else helpers
        self._numbers[[NEXT, HELPERS, LONG]] = len(channels.state), helpers, LONG_CK
        self._go_on = bind(machine.run_all, program, channels, self._numbers, False)
        helps = [bind(machine.run_all, program, channels, self._numbers, True) for _ in range(helpers)]
        self._asleep = [Lock() for _ in range(helpers)]
        self._over = False
        self._error: BaseException | None = None
        self._threads = [
            Thread(target=self._help, args=pair, daemon=True) for pair in zip(self._asleep, helps, strict=True)
        ]

    def __enter__(self) -> "Crew":
        try:
            for lock, thread in zip(self._asleep, self._threads, strict=True):
                lock.acquire()
                thread.start()
        except RuntimeError:  # no more threads: those that run are enough
            self._numbers[HELPERS] = sum(thread.is_alive() for thread in self._threads)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._over = True
        self._wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def run(self) -> int:
        """Run all operators; returns a code of `kernels.machine`. Raises Stopped."""
        raise_if_stopped()
        while (code := self._go_on()) in (machine.ASLEEP, machine.PAUSED):
            if code == machine.ASLEEP:
                self._wake()
            raise_if_stopped()
        if self._error:
            raise self._error
        return int(code)

    def _wake(self) -> None:
        for lock in self._asleep:
            if lock.locked():
                lock.release()

    def _help(self, asleep: Lock, go_on: Callable[[], None]) -> None:
        while True:
            asleep.acquire()
            if self._over:
                return
            try:
                go_on()
            except BaseException as error:  # the machine is not to wait for this thread
                self._error = error
                self._numbers[[N_STOPPED, THROUGH]] = 1, len(self._channels.state)
