"""Programs that ran before: where points of a report come to the same program, only the first of them runs it.

The machine computes what a program leaves from its arrays and those of its channels, and from nothing else, so equal
arrays leave equal results.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic

_KNOWN: ContextVar[Path | None] = ContextVar("KNOWN", default=None)  # where results are kept, None: nowhere


class Left(NamedTuple):
    """What a program left. op: int64 (operators, 3), start, end [CK] and requests; account: as in `kernels.core`;
    tally: int64 (channels, commands); held: writes that were answered and are still in the controllers."""

    op: np.ndarray
    account: np.ndarray
    tally: np.ndarray
    held: np.ndarray


@contextmanager
def kept_in(folder: Path | None) -> Iterator[None]:
    """Inside, what programs leave is kept in a folder, and taken from there; other processes may share it. None: all
    run."""
    before = _KNOWN.set(folder)
    try:
        yield
    finally:
        _KNOWN.reset(before)


def file_of(arrays: tuple[object, ...], channels: int) -> Path | None:
    """Where the results of these arrays are, or are to be kept; None: nowhere."""
    if (folder := _KNOWN.get()) is None:
        return None
    digest = sha256(str(channels).encode())
    for x in _each(arrays):
        digest.update(f"{x.dtype} {x.shape}".encode())
        if x.any():
            digest.update(np.ascontiguousarray(x).data)
    return folder / f"{digest.hexdigest()}.npz"


def _each(arrays: tuple[object, ...]) -> Iterator[np.ndarray]:
    for x in arrays:
        if isinstance(x, tuple):
            yield from _each(x)
        else:
            yield np.asarray(x)


def recall(file: Path | None) -> Left | None:
    """The results that a file keeps; None if there are none."""
    if file is None or not file.exists():
        return None
    with np.load(file, allow_pickle=False) as found:
        return Left(**{name: found[name] for name in Left._fields})


def keep(file: Path | None, left: Left) -> None:
    """Keep results; where there is no room, they are not kept."""
    if file is None:
        return
    made = io.BytesIO()
    np.savez(made, **left._asdict())
    with suppress(UserError, OSError):
        write_atomic(file, made.getvalue(), own=True)
