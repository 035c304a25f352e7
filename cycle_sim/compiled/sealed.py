"""Files of machine code that end with a keyed digest of their name and content: read once, and as they were written."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG

SEAL_BYTES, KEY_BYTES = 32, 32
AS_IT_IS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # no link, and no wait for a pipe


def write_sealed(file: Path, code: bytes, key: bytes) -> None:
    """Write machine code and its digest, in one step. key: b"" in a wheel. Raises UserError."""
    from pimloom.arch.files import write_atomic

    write_atomic(file, code + _seal(file.name, code, key), own=True)


def open_sealed(file: Path, key: Callable[[], bytes]) -> tuple[int, bytes] | None:
    """A descriptor of a file, open for reading, and the machine code in it, whose digest is right; else None."""
    try:
        descriptor = os.open(file, AS_IT_IS)
    except OSError:
        return None
    with suppress(OSError):
        if S_ISREG(os.fstat(descriptor).st_mode):
            with open(descriptor, "rb", closefd=False) as opened:
                data = opened.read()
            code, seal = data[:-SEAL_BYTES], data[-SEAL_BYTES:]
            if code and seal == _seal(file.name, code, key()):
                return descriptor, code
    os.close(descriptor)
    return None


def _seal(name: str, code: bytes, key: bytes) -> bytes:
    return blake2b(name.encode() + b"\0" + code, key=key, digest_size=SEAL_BYTES).digest()


def remove_sealed(file: Path) -> None:
    """Remove a file, or a folder in its place."""
    import shutil

    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)


def own_key(folder: Path) -> bytes:
    """The user's key of a folder of kernels, which is made if there is none. Raises OSError, UserError."""
    from pimloom.arch.files import write_atomic

    file = folder / "key"
    if key := _key_in(file):
        return key
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        if (key := _key_in(file)) is None:
            key = os.urandom(KEY_BYTES)
            remove_sealed(file)
            write_atomic(file, key, own=True)
        return key
    finally:
        os.close(held)


def _key_in(file: Path) -> bytes | None:
    with suppress(OSError), open(os.open(file, AS_IT_IS), "rb") as opened:
        about, key = os.fstat(opened.fileno()), opened.read(KEY_BYTES + 1)
        if S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and len(key) == KEY_BYTES:
            return key
    return None
