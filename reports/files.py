"""Files appear whole or not at all, in the folder that was asked for."""

import csv
import io
import json
import math
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pimloom.arch.error import UserError


def prepare_folder(path: str | Path) -> Path:
    """The folder `path`, created if missing and proved writable; UserError if that is impossible."""
    folder = Path(path)
    with _in_one_line(f"cannot write to {_shown(folder)}", "choose another folder with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Replace the file `path` by `content` in one step; on failure the old file stays.

    A device or a pipe (`/dev/null`, `/dev/stdout`) is written to, never replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    with writing(path), replacing(path) as file:
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
    writer.writerow(f"{key} [{units[key]}]" if key in units else key for key in keys)
    for number, row in enumerate(rows, start=1):
        if set(row) != set(keys):
            raise ValueError(f"row {number} has the columns {sorted(row)}, the first row has {sorted(keys)}")
        writer.writerow(_csv_cell(row[key], f"row {number}, column {key}") for key in keys)
    return out.getvalue()


def write_json(path: str | Path, value: object) -> None:
    """Write `value` as JSON: sorted keys, final newline; NaN and infinity raise ValueError."""
    write_atomic(path, json_text(value))


def json_text(value: object) -> str:
    """The text that `write_json` writes; takes dataclasses and numpy scalars and arrays too."""
    look: dict[str, Any] = {"sort_keys": True, "indent": 2, "ensure_ascii": False}
    return json.dumps(value, allow_nan=False, default=_plain, **look) + "\n"


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write the new content of `path` to: it takes its place in the end, or goes on failure or interrupt.

    A device or a pipe is written to, never replaced. Raises OSError (see `writing`).
    """
    path = Path(path)
    device = path.is_absolute() and path.parts[1:2] in (("dev",), ("proc",))  # /dev/stdout may be a file underneath
    if device or path.exists() and not (path.is_file() or path.is_dir()):
        with path.open("ab") as file:
            yield file
        return
    path = path.resolve()
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


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
    """The cell as written."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}")
    if isinstance(value, str):
        return csv_text(value)
    return float(value) if isinstance(value, float) else value


def csv_text(text: str) -> str:
    """The text of a cell; what a spreadsheet would run as a formula gets a leading apostrophe."""
    if text[:1] in ("=", "+", "-", "@", "\t", "\r") and len(text) > 1 and not _is_number(text):
        return f"'{text}"
    return text


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
