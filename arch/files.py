"""Files appear whole or not at all, in the folder that was asked for."""

import csv
import errno
import io
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pimloom.arch.error import UserError
from pimloom.arch.inputs import was_read


def prepare_folder(path: str | Path) -> Path:
    """The folder `path`, created if missing and proved writable; UserError if that is impossible."""
    import tempfile

    folder = Path(path)
    with _in_one_line(f"cannot write to {_shown(folder)}", "choose another folder with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder


@contextmanager
def new_folders(path: str | Path) -> Iterator[None]:
    """Folders up to `path` that are made within go again, if they are empty, when what is within fails."""
    missing = [folder for folder in (Path(path), *Path(path).parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def write_atomic(path: str | Path, content: str | bytes, *, own: bool = False) -> None:
    """Replace the file `path` by `content` in one step; on failure the old file stays. own: as for `replacing`.

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


def write_json(path: str | Path, value: object) -> None:
    """Write `value` as JSON: sorted keys, final newline; NaN and infinity raise ValueError."""
    write_atomic(path, json_text(value))


def json_text(value: object) -> str:
    """The text that `write_json` writes; takes dataclasses and numpy scalars and arrays too."""
    look: dict[str, Any] = {"sort_keys": True, "indent": 2, "ensure_ascii": False}
    return json.dumps(value, allow_nan=False, default=_plain, **look) + "\n"


@contextmanager
def replacing(path: str | Path, *, own: bool = False) -> Iterator[BinaryIO]:
    """A file to write the new content of `path` to: it takes its place in the end, or goes on failure or interrupt.

    The new file has the old one's mode. A device or a pipe is written to, never replaced. own: the file is not the
    user's, and may have been read. Raises OSError (see `writing`), UserError for a file that the command has read.
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
    if not path.name:  # the root
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    temporary = path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        with open(temporary, "xb") as file:
            if path.is_file():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
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
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in JSON")
