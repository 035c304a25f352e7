"""Private cache folders. Machine code and tools are loaded from them, so only the user may write there."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISVTX, S_IWGRP, S_IWOTH

from pimloom.arch.error import UserError

MOST_LINKS = 40  # on the way to a folder, as the kernel has it
PRIVATE = 0o700
OTHERS = S_IWGRP | S_IWOTH
REMEDY = "set PIMLOOM_CACHE to a private folder"


def cache_folder(room: str) -> Path:
    """The folder of one kind of results (`kernels`, `proofs`), mode 700, below the first of $PIMLOOM_CACHE,
    $XDG_CACHE_HOME/pimloom and ~/.cache/pimloom that nobody else can write; else below a temporary folder, which is
    removed when the process ends.

    A line on stderr says why another folder than the first is used; processes that this one starts use it, too. Raises
    UserError if $PIMLOOM_CACHE, or the temporary folder, cannot be made.
    """
    found, refused = _first(room)
    if found and not refused:
        return found
    base = found.parent if found else _temporary()
    until = "" if found else " until this command ends"
    print(f"pimloom: note: {'; '.join(refused)}; compiled code is cached in {base}{until}; {REMEDY}", file=sys.stderr)
    os.environ["PIMLOOM_CACHE"] = str(base)
    return found or _made(base, room)


def private_folder(room: str) -> Path | None:
    """As `cache_folder`, without messages; None if there is no private folder, or it cannot be made. Cached for each
    environment of a process."""
    return _private(room, *map(os.environ.get, ("PIMLOOM_CACHE", "XDG_CACHE_HOME", "HOME")))


@lru_cache
def _private(room: str, *_: str | None) -> Path | None:
    with suppress(OSError, UserError):
        return _first(room)[0]
    return None


def _first(room: str) -> tuple[Path | None, list[str]]:
    """The first private folder, and why earlier ones are not private."""
    refused = list[str]()
    for name, base in _bases():
        try:
            return _made(base, room), refused
        except OSError as error:
            if name == "PIMLOOM_CACHE":
                raise UserError(f"cannot keep results in {base}: {error.strerror}; {REMEDY}") from None
            refused.append(f"{base} cannot be made ({error.strerror})")
        except _Unsafe as error:
            refused.append(str(error))
    return None, refused or ["there is no home folder"]


def _bases() -> Iterator[tuple[str, Path]]:
    """The folders that the environment names. Relative paths are ignored, as in the XDG specification."""
    if own := os.environ.get("PIMLOOM_CACHE"):
        yield "PIMLOOM_CACHE", Path(own)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        yield "XDG_CACHE_HOME", Path(xdg, "pimloom")
    with suppress(RuntimeError):  # nobody's home
        yield "HOME", Path.home() / ".cache" / "pimloom"


class _Unsafe(Exception):
    """Others can put files into a folder; the message says why."""


def _made(base: Path, room: str) -> Path:
    """A private folder in `base`; both are made if missing. Raises _Unsafe, OSError."""
    if not base.is_absolute():
        raise _Unsafe(f"{base} is a relative path")
    _make(base)
    folder = base / room
    _make(folder)
    if os.stat(folder).st_mode & 0o077:
        os.chmod(folder, PRIVATE)
    return folder


def _make(folder: Path) -> None:
    """Make a private folder, and its parents. Raises _Unsafe unless it belongs to the user, only the user can write to
    it, and only the user or the system can replace a folder or link on its path."""
    for path in (*reversed(folder.parents), folder):
        with suppress(FileExistsError):
            if not os.path.lexists(path):
                os.mkdir(path, PRIVATE)
    system = {0, os.stat("/").st_uid}
    *above, last = _way(folder)
    for path in above:
        found = os.lstat(path)
        if found.st_uid not in {*system, os.geteuid()}:
            raise _Unsafe(f"{path} belongs to another user")
        if S_ISDIR(found.st_mode) and not found.st_mode & S_ISVTX:
            _check_mode(path, found.st_mode, S_IWOTH if _is_own_group(found) else OTHERS)
    found = os.lstat(last)
    if not S_ISDIR(found.st_mode):
        raise NotADirectoryError(None, "a file is in the way", str(last))
    if found.st_uid != os.geteuid():
        raise _Unsafe(f"{last} belongs to another user")
    _check_mode(last, found.st_mode, OTHERS)


def _check_mode(path: Path, mode: int, writers: int) -> None:
    if mode & writers:
        raise _Unsafe(f"others can write to {path} (mode {mode & 0o7777:o})")


def _way(folder: Path) -> list[Path]:
    """All folders and links on a path, from the root to the folder itself."""
    found, at, rest, links = [Path("/")], Path("/"), [*reversed(folder.parts[1:])], 0
    while rest:
        step = rest.pop()
        at = at.parent if step == ".." else at / step
        found.append(at)
        if S_ISLNK(os.lstat(at).st_mode):
            target, links = Path(os.readlink(at)), links + 1
            if links > MOST_LINKS:
                raise OSError(None, "too many links", str(folder))
            at = Path("/") if target.is_absolute() else at.parent
            rest += [step for step in reversed(target.parts) if step != "/"]
            if not rest:
                found.append(at)
    return found


def _is_own_group(found: os.stat_result) -> bool:
    """Whether a folder is writable for its group, whose only member is the user."""
    if not found.st_mode & S_IWGRP:
        return False
    import grp
    import pwd

    with suppress(KeyError):
        us = pwd.getpwuid(os.geteuid())
        return found.st_gid == us.pw_gid and not {*grp.getgrgid(found.st_gid).gr_mem} - {us.pw_name}
    return False


def _temporary() -> Path:
    """A new private folder, which is removed when this process ends."""
    import atexit
    import shutil
    import tempfile

    try:
        made = Path(tempfile.mkdtemp(prefix="pimloom-")).resolve()
    except OSError as error:
        raise UserError(f"cannot keep results in a temporary folder: {error.strerror}; {REMEDY}") from None
    ours = os.getpid()

    def remove() -> None:
        if os.getpid() == ours:  # and not in a process that is forked
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made
