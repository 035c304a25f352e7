"""The time limit of a point: an alarm of the operating system, which ends the process even inside compiled code.

Its clock stands still while numba compiles, or loads what it has compiled: that is no part of any point.
"""

import signal
from typing import Any

from numba.core.event import Listener, register

FIRST_S = 5.0  # more for the first point of a process, which imports what is imported late


class Alarm(Listener):
    """The alarm of this process, which nothing here catches: it ends the process."""

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whoever started us may have ignored or blocked it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        self._depth, self._left, self._more = 0, 0.0, FIRST_S
        register("numba:compiler_lock", self)  # type: ignore[no-untyped-call]

    def set(self, limit_s: float | None) -> None:
        """Go off in `limit_s`; never if None."""
        if limit_s is not None:
            signal.setitimer(signal.ITIMER_REAL, limit_s + self._more)

    def off(self) -> None:
        """The point is done in time."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._more = 0.0

    def on_start(self, event: Any) -> None:
        """Numba's compiler begins: stop the clock. It may begin within itself."""
        self._depth += 1
        if self._depth == 1:
            self._left, _ = signal.setitimer(signal.ITIMER_REAL, 0)

    def on_end(self, event: Any) -> None:
        """Numba's compiler is done: let the clock go on."""
        self._depth -= 1
        if self._depth == 0 and self._left > 0:
            signal.setitimer(signal.ITIMER_REAL, self._left)
