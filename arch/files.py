"""Output files appear complete or not at all, and all files of one command appear at the same time."""

import csv
import errno
import io
import json
import math
import os
import signal
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from pimloom.arch.error import GateError, UserError
from pimloom.arch.inputs import was_read

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Outputs:
    """The files that one command has written under temporary names, and the folders that it has made."""

    def __init__(self) -> None:
        self.files: list[tuple[Path, Path]] = []  # written, place
        self.folders: list[Path] = []
        self.process = os.getpid()

    def appear(self) -> None:
        """Rename all files to their places, or none; interrupts are delayed until the end. Raises UserError."""
        many = len(self.files) > 1
        old = [(place, _beside(place)) for _, place in self.files if many and place.exists()]
        replaced: list[Path] = []
        with uninterrupted():
            try:
                for place, name in old:
                    with writing(place):
                        _name_too(place, name)
                for written, place in self.files:
                    replaced.append(place)
                    with writing(place):
                        os.replace(written, place)
            except BaseException:
                for place in replaced:
                    with suppress(OSError):
                        os.replace(was, place) if (was := dict(old).get(place)) else place.unlink()
                raise
            finally:
                for _, name in old:
                    with suppress(OSError):
                        name.unlink()
            self.files, self.folders = [], []

    def drop(self) -> None:
        """Remove files that are not renamed, and new folders that are empty."""
        for written, _ in self.files:
            with suppress(OSError):
                written.unlink()
        for folder in reversed(self.folders):
            with suppress(OSError):
                folder.rmdir()


_outputs: ContextVar[_Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Files written in this context appear at its end, all at once; if it fails, none appears, and new empty folders
    are removed.

    Nested contexts belong to the outer one. GateError, or a reader of stdout that ends, does not count as a failure.
    """
    if _own_outputs():
        yield
        return
    outputs = _Outputs()
    before = _outputs.set(outputs)
    try:
        yield
        outputs.appear()
    except BaseException as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if isinstance(cause, GateError | BrokenPipeError):
            outputs.appear()
        raise
    finally:
        _outputs.reset(before)
        outputs.drop()


@contextmanager
def at_once() -> Iterator[None]:
    """Files written in this context are read by the command itself: each appears at once."""
    before = _outputs.set(None)
    try:
        yield
    finally:
        _outputs.reset(before)


def appear() -> None:
    """Let all files written so far appear now, before the command prints. Raises UserError."""
    if outputs := _own_outputs():
        outputs.appear()


def _own_outputs() -> _Outputs | None:
    """The outputs of this process; None in a forked process."""
    outputs = _outputs.get()
    return outputs if outputs and outputs.process == os.getpid() else None


def _name_too(place: Path, name: Path) -> None:
    """Give a file a second name."""
    try:
        os.link(place, name)
    except OSError:  # a file system without links, or another user's file
        import shutil

        shutil.copy2(place, name)


def _beside(place: Path) -> Path:
    return place.with_name(f".{os.urandom(8).hex()}.part")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals until the end of this context. Other threads than the main one receive none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) is not None}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def prepare_folder(path: str | Path) -> Path:
    """The folder `path`, created if missing and proved writable; UserError if that is impossible."""
    import tempfile

    folder = Path(path)
    with _in_one_line(f"cannot write to {_shown(folder)}", "choose another folder with --out"):
        if outputs := _own_outputs():
            outputs.folders += reversed([path for path in (folder, *folder.parents) if not path.exists()])
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder


def write_atomic(path: str | Path, content: str | bytes, *, own: bool = False) -> None:
    """Replace the file `path` by `content` in one step, see `replacing`; on failure the old file stays.

    A device or a pipe (`/dev/null`, `/dev/stdout`) is written to, never replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    with writing(path), replacing(path, own=own) as file:
        file.write(data)


def write_table_csv(
    path: str | Path, rows: Sequence[Mapping[str, object]], units: Mapping[str, str] | None = None
) -> None:
    """Write `rows`, all with the same keys, as CSV.

    A column is named by its key, which carries its unit (`latency_s`), or by `key [unit]` where `units`
    gives one. None is an empty cell, floats keep every digit, NaN and infinity raise ValueError.
    """
    write_atomic(path, table_csv(rows, units or {}))


def table_csv(rows: Sequence[Mapping[str, object]], units: Mapping[str, str]) -> str:
    """The text that `write_table_csv` writes."""
    if not rows:
        raise ValueError("a table needs at least one row")
    keys = list(rows[0])
    if stray := set(units) - set(keys):
        raise ValueError(f"units name columns that the table lacks: {', '.join(sorted(stray))}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(inert(f"{key} [{units[key]}]" if key in units else key) for key in keys)
    for number, row in enumerate(rows, start=1):
        if set(row) != set(keys):
            raise ValueError(f"row {number} has the columns {sorted(row)}, the first row has {sorted(keys)}")
        writer.writerow(_csv_cell(row[key], f"row {number}, column {key}") for key in keys)
    return out.getvalue()


def inert(text: str) -> str:
    """A cell's text as CSV takes it: what a spreadsheet would run as a formula gets a leading apostrophe."""
    if text[:1] in ("=", "+", "-", "@", "\t", "\r") and len(text) > 1:
        return text if _is_number(text) else f"'{text}"
    return text


def write_json(path: str | Path, value: object, *, own: bool = False) -> None:
    """Write `value` as JSON: sorted keys, final newline; NaN and infinity raise ValueError. own: see `replacing`."""
    write_atomic(path, json_text(value), own=own)


def json_text(value: object) -> str:
    """The text that `write_json` writes; takes dataclasses and numpy scalars and arrays too."""
    look: dict[str, Any] = {"sort_keys": True, "indent": 2, "ensure_ascii": False}
    return json.dumps(value, allow_nan=False, default=_plain, **look) + "\n"


@contextmanager
def replacing(path: str | Path, *, own: bool = False) -> Iterator[BinaryIO]:
    """A file to write the new content of `path` to: it takes its place in the end, with other outputs of the command
    (see `together`), or goes on failure or interrupt.

    The new file has the old one's mode. A device or a pipe is written to, never replaced. own: the file is not the
    user's, takes its place at once, and may have been read. Raises OSError (see `writing`), UserError for a file that
    the command has read.
    """
    path = Path(path)
    if not own:
        check_not_read(path)
    device = path.is_absolute() and path.parts[1:2] in (("dev",), ("proc",))  # /dev/stdout may be a file underneath
    if device or path.exists() and not (path.is_file() or path.is_dir()):
        with path.open("ab") as file:
            yield file
        return
    path = path.resolve()
    if not path.name or path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    temporary = _beside(path)
    try:
        with open(temporary, "xb") as file:
            if path.is_file():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not own and (outputs := _own_outputs()):
            outputs.files.append((temporary, path))
        else:
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def check_not_read(path: str | Path, option: str = "cannot write") -> None:
    """Raise UserError for an output that is an input of the same command, under any name."""
    if was_read(path):
        raise UserError(f"{option} {_shown(Path(path))}: it is an input of this command; name another file")


def writing(path: str | Path) -> AbstractContextManager[None]:
    """Turns an OSError while the file `path` is written into a UserError that names it."""
    return _in_one_line(f"cannot write {_shown(Path(path))}", "choose another place")


@contextmanager
def _in_one_line(what: str, remedy: str) -> Iterator[None]:
    """Turn an OSError into a UserError that says what failed, why, and what to do instead."""
    try:
        yield
    except FileExistsError as error:
        raise UserError(f"{what}: a file of that name is in the way; {remedy}") from error
    except OSError as error:
        raise UserError(f"{what}: {(error.strerror or str(error)).lower()}; {remedy}") from error


def _shown(path: Path) -> str:
    text = str(path)
    return text if text.isprintable() else repr(text)


def _csv_cell(value: object, place: str) -> object:
    """The cell as written; see `inert`."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}")
    if isinstance(value, str):
        return inert(value)
    return float(value) if isinstance(value, float) else value


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return math.isfinite(float(text))
    return False


def _plain(value: Any) -> object:
    from dataclasses import asdict, is_dataclass  # takes as long to load as the rest

    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in JSON")
