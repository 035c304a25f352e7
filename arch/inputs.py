"""The files that a command reads: how they are opened, and that none of its outputs takes the place of one of them."""

import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from stat import S_ISFIFO, S_ISREG

from pimloom.arch.error import UserError, one_line

PATIENCE_MS = 500  # until it is said that a pipe is waited for
File = tuple[int, int]  # device and number: the same through any spelling and any link

_read: ContextVar[set[File] | None] = ContextVar("read", default=None)
_pipes: ContextVar[dict[File, bytes] | None] = ContextVar("pipes", default=None)


def check_path(path: str | Path) -> None:
    """UserError unless a path is one line of printable characters: files name what is in them, in every output."""
    if not str(path).isprintable():
        raise UserError(f"{one_line(path)}: expected a name of printable characters on one line; rename the file")


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """A file or pipe that is an input, open for reading; a line on stderr says if a pipe is waited for.

    Raises UserError for what cannot be opened or read; what else fails in the `with` block is not touched.
    """
    check_path(path)
    try:
        with open(path, "rb", opener=_at_once) as file:
            note(file.fileno())
            if S_ISFIFO(os.fstat(file.fileno()).st_mode) and os.path.exists(os.path.realpath(path)):
                _wait(path, file.fileno())
            os.set_blocking(file.fileno(), True)
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, expected a file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for who writes to a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _wait(path: Path, descriptor: int) -> None:
    """Until somebody writes to a pipe that has a name."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(PATIENCE_MS):
        print(f"pimloom: note: {path} is an empty pipe; waiting for a program that writes to it", file=sys.stderr)
        poll.poll()


def begin() -> None:
    """A command starts: nothing is read yet. Without it nothing is remembered."""
    _read.set(set())
    _pipes.set({})


def end() -> None:
    """No command runs any more: nothing is remembered."""
    _read.set(None)
    _pipes.set(None)


def once(path: Path, read: Callable[[], bytes]) -> bytes:
    """What `read` finds at a path; of a pipe what it found there before, in the same command."""
    pipes = _pipes.get()
    if pipes is not None and path.is_fifo():
        key = _file(os.stat(path))
        if key not in pipes:
            pipes[key] = read()
        return pipes[key]
    return read()


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
