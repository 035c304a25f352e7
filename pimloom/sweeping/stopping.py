"""How a sweep stops before its end: at the first interrupt in order, at the second at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = "\x1b[?25h"
Handler = Callable[[int, FrameType | None], Any]
Hook = Callable[["sys.UnraisableHookArgs"], Any]


class Raised:
    """What handlers of signals raised: where an object is collected, as Dask's futures are, none can stop a sweep."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def check(self) -> None:
        """Raise what was raised and did not get here."""
        if self._errors:
            raise self._errors[0]

    def remembering(self, handler: Handler) -> Handler:
        """The handler, what it raises remembered."""

        def handle(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                self._errors.append(error)
                raise

        return handle

    def silent(self, hook: Hook) -> Hook:
        """The hook for what Python could not raise, silent about what `check` will raise."""
        return lambda found: None if any(found.exc_value is error for error in self._errors) else hook(found)


@contextmanager
def going_on(folder: Path, say: Callable[[str], None]) -> Iterator[Raised]:
    """Say how to go on if the sweep is interrupted; gives what checks whether it is."""
    raised = Raised()
    try:
        with _remembered_by(raised):
            yield raised
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped; all finished rows are kept in {folder}, the same command goes on")
        raise


@contextmanager
def _remembered_by(raised: Raised) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # no handler runs there
        yield
        return
    hook = sys.unraisablehook
    before = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    for number, handler in before.items():
        signal.signal(number, raised.remembering(handler))
    sys.unraisablehook = raised.silent(hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let an interrupt end this process at once; simulating processes end with it, and rows are whole or not there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end_at_once) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once(number: int, _: object) -> None:
    """A signal's handler."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
        sys.stderr.flush()
    os._exit(128 + number)
