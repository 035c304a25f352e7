"""The files that a command reads: opens them, and records them so that no output replaces one of them."""

import errno
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
    """Raise UserError unless a path is one line of printable characters, because outputs print it."""
    if not str(path).isprintable():
        raise UserError(f"{one_line(path)}: expected a name of printable characters on one line; rename the file")


@contextmanager
def open_input(path: Path) -> Iterator[io.BufferedReader]:
    """Open an input file or pipe for reading. A line on stderr says if the command waits for a pipe.

    Raises UserError if it cannot be opened or read. Other exceptions in the `with` block pass unchanged.
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
        raise UserError(_unreadable(path, error)) from None


def unreadable(error: OSError) -> UserError | None:
    """The error of an input, or of a folder on the way to it, that the user has no right to read; None if the error is
    another one, such as that of an output."""
    if error.errno not in (errno.EACCES, errno.EPERM) or error.filename is None:
        return None
    path = os.fsdecode(error.filename)
    try:
        os.stat(path)
        if os.access(path, os.R_OK, effective_ids=True):
            return None
    except PermissionError:
        pass
    except (OSError, ValueError):
        return None
    return UserError(_unreadable(path, error))


def _unreadable(path: str | Path, error: Exception) -> str:
    return f"{path}: cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}"


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for a writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _wait(path: Path, descriptor: int) -> None:
    """Wait until a program writes to a named pipe."""
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
    """The result of `read` for a path; for a pipe the cached result of the same command."""
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
