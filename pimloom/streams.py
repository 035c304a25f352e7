"""Standard streams that are closed, full, or that nobody reads."""

import io
import os
import sys
from typing import Any

STDERR = 2


class Forgiving(io.FileIO):
    """A stream whose reader may be gone or whose disk may be full: what cannot be written is lost without a word."""

    def write(self, data: Any) -> int:
        """Write, or pretend to."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(memoryview(data))


def mend_streams() -> None:
    """Make the streams of this process such that an error on them is an `OSError` of stdout, or nothing on stderr.

    A closed stream would hand its number to the first file that is opened. Messages never change the exit code.
    """
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdout is None:  # closed: a write to what is opened for reading fails, as it should
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        raw = io.BufferedWriter(Forgiving(STDERR, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=True, write_through=True)
