"""How a sweep stops before its end: at the first interrupt in order, at the second at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pimloom.systems.interrupts import SIGNALS, Raised, end_at_once, remembered_by


@contextmanager
def going_on(folder: Path, say: Callable[[str], None]) -> Iterator[Raised]:
    """Say how to go on if the sweep is interrupted; gives what checks whether it is."""
    raised = Raised()
    try:
        with remembered_by(raised):
            yield raised
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped; all finished rows are kept in {folder}, the same command goes on")
        raise


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let an interrupt end this process at once; simulating processes end with it, and rows are whole or not there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end_at_once) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
