"""A new file that is there whole, and still there after a power cut; it never replaces one of another name.

`systems.files` is for outputs that a user may point at a device; these files are ours alone, in a folder of ours.
"""

import errno
import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

_LEFT_OVER = re.compile(r"\.[0-9a-f]{16}\.part")
_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)  # some network file systems keep names safe by themselves
_DAY_S = 24 * 3600


def put(path: Path, data: bytes) -> None:
    """Write `data` as the file `path`: beside it, synced, renamed, and the folder synced. OSError if impossible.

    When this returns, the file and its name are on the disk; if it raises, there is nothing, or the whole file.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync(path.parent)


def make_folder(folder: Path) -> None:
    """Make the folder and those above it, so that a power cut does not take them with their files. OSError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _sync(path.parent)


def remove_left_overs(folder: Path) -> None:
    """Remove what a killed `put` left in the folder, once it is a day old: by then no one is still writing it."""
    with suppress(OSError):
        for path in folder.iterdir():
            if _LEFT_OVER.fullmatch(path.name) and time.time() - path.lstat().st_mtime > _DAY_S:
                with suppress(OSError):
                    path.unlink()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        os.close(handle)
