"""Interrupts that come where Python raises nothing, in `__del__` or in a callback of compiled code, are not lost."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pimloom.arch.files import SIGNALS as SIGNALS

SHOW_CURSOR = "\x1b[?25h"
Handler = Callable[[int, FrameType | None], Any]
Hook = Callable[["sys.UnraisableHookArgs"], Any]


class Raised:
    """What handlers of signals raised: where an object is collected, as the futures of a pool are, it is lost."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def check(self) -> None:
        """Raise what was raised and did not get here."""
        if self._errors:
            raise self._errors[0]

    @property
    def interrupted(self) -> bool:
        """Whether there was an interrupt."""
        return any(isinstance(error, KeyboardInterrupt) for error in self._errors)

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
def remembered_by(raised: Raised) -> Iterator[None]:
    """What the handlers of signals raise meanwhile is kept in `raised`, which can raise it again."""
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


def end_at_once(number: int, _: object) -> None:
    """A signal's handler."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
        sys.stderr.flush()
    os._exit(128 + number)
