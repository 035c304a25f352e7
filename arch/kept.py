"""Texts of the house's own files, composed once: what stands in them is kept in the cache, by what it was made of."""

import os
import re
import time
from collections.abc import Callable, Container
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from pimloom.arch.cache import private_folder
from pimloom.arch.error import UserError
from pimloom.arch.scalar import scalar
from pimloom.arch.source import SET, short

HERE = Path(__file__).parent
MAKERS = tuple(HERE / name for name in ("kept.py", "scalar.py", "source.py", "yaml_text.py"))
OLD_S = 90 * 24 * 3600  # what is as old goes when something new is kept
_WORD = re.compile(r"[A-Za-z0-9][\w.]*", re.ASCII)  # always one plain scalar

Kept = TypeVar("Kept")


class Composed(NamedTuple):
    """A text's tree; and place, line from 1, comment and words as written of all that stands in it, in order."""

    tree: Any
    notes: list[tuple[str, int, str, str]]


def composed(file: str, text: str, root: str = "", free: Container[str] = ()) -> Composed:
    """A text and what stands where in it; arguments as of `Document`. Raises UserError with the line of what is
    wrong."""
    if file == SET and _WORD.fullmatch(text):
        with suppress(ValueError):  # said where all texts are composed
            return Composed(scalar(text), [(root, 0, "", short(text))])

    def make() -> Composed:
        from pimloom.arch.yaml_text import compose

        return compose(file, text, root, free)

    own = file.startswith(f"{HERE}{os.sep}") and os.pardir not in Path(file).parts
    return kept(text, Composed, make) if own and not (root or free) else make()


def top_level(text: str) -> dict[str, str]:
    """The values of one line at the top level of a text, as written. Raises ValueError if it is not YAML."""

    def make() -> dict[str, str]:
        from pimloom.arch.yaml_text import top_level

        return top_level(text)

    return kept(text, dict[str, str], make)


def kept(text: str, type_: type[Kept], make: Callable[[], Kept]) -> Kept:
    """What `make` makes of a text, which nothing else decides; where it cannot be kept it is made each time."""
    place = _place(text, type_)
    if place is None:
        return make()
    with suppress(OSError, ValueError):  # it is not there, or damaged
        return msgspec.json.decode(place.read_bytes(), type=type_)
    found = make()
    with suppress(OSError, UserError, ValueError):
        _keep(place, msgspec.json.encode(found))
    return found


def _place(text: str, type_: Any) -> Path | None:
    """Where a text is kept; None: there is no private folder for it, as where nobody has a home."""
    asked = sha256(_makers() + repr(type_).encode() + text.encode("utf-8", "surrogatepass"))
    folder = private_folder("texts")
    return folder / asked.hexdigest()[:32] if folder else None


@cache
def _makers() -> bytes:
    """A digest of what composes texts: our own modules, and the package that reads YAML, by when it was installed."""
    found = sha256()
    for path in MAKERS:
        found.update(path.read_bytes())
    spec = PathFinder.find_spec("yaml")
    if spec and spec.origin:
        its = os.stat(spec.origin)
        found.update(f"{its.st_mtime_ns} {its.st_size}".encode())
    return found.digest()


def _keep(place: Path, data: bytes) -> None:
    from pimloom.arch.files import write_atomic

    oldest = time.time() - OLD_S
    with os.scandir(place.parent) as entries:
        for old in [entry.path for entry in entries if entry.stat().st_mtime < oldest]:
            Path(old).unlink(missing_ok=True)
    write_atomic(place, data, own=True)
