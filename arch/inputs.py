"""The files that a command has read, so that none of its outputs takes the place of one of them."""

import os
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from stat import S_ISREG

File = tuple[int, int]  # device and number: the same through any spelling and any link

_read: ContextVar[set[File] | None] = ContextVar("read", default=None)


def begin() -> None:
    """A command starts: nothing is read yet. Without it nothing is remembered."""
    _read.set(set())


def end() -> None:
    """No command runs any more: nothing is remembered."""
    _read.set(None)


def note(descriptor: int) -> None:
    """An open file is an input."""
    if (files := _read.get()) is not None:
        files.add(_file(os.fstat(descriptor)))


def note_named(path: str | Path | None) -> None:
    """A file that is an input will be read; if there is none, reading it will say so."""
    if path is not None and (files := _read.get()) is not None:
        with suppress(OSError, ValueError):
            files.add(_file(os.stat(path)))


def was_read(path: str | Path) -> bool:
    """Whether there is a file at `path` that is an input; pipes and devices are not."""
    files = _read.get()
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return files is not None and S_ISREG(found.st_mode) and _file(found) in files


def _file(found: os.stat_result) -> File:
    return found.st_dev, found.st_ino
