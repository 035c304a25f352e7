"""The time limit of a point: an alarm of the operating system, which ends the process even inside compiled code.

Its clock stands still while a kernel is compiled: that is no part of any point.
"""

import signal
from threading import Lock

from pimloom.cycle_sim.compiled import library

FIRST_S = 5.0  # more for the first point of a process, which imports what is imported late


class Alarm:
    """The alarm of this process, which nothing here catches: it ends the process."""

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whoever started us may have ignored or blocked it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        self._left, self._more = 0.0, FIRST_S
        self._compiling, self._lock = 0, Lock()
        library.watch(self._stop, self._go_on)

    def set(self, limit_s: float | None) -> None:
        """Go off in `limit_s`; never if None."""
        if limit_s is not None:
            signal.setitimer(signal.ITIMER_REAL, limit_s + self._more)

    def off(self) -> None:
        """The point is done in time."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._more = 0.0

    def _stop(self) -> None:
        """Called by each thread that compiles."""
        with self._lock:
            self._compiling += 1
            if self._compiling == 1:
                self._left, _ = signal.setitimer(signal.ITIMER_REAL, 0)

    def _go_on(self) -> None:
        with self._lock:
            self._compiling -= 1
            if self._compiling == 0 and self._left > 0:
                signal.setitimer(signal.ITIMER_REAL, self._left)
