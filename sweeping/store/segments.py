"""Rows in a folder that several machines may fill at once, without locks.

A batch of rows is a new immutable file (`segment_file`), there when its name is (`durable`). A file is deleted only
when all its rows are in another file that is on the disk and has a name of its own; so every row is in place at any
time, whoever merges what, and whoever dies when. A row may be in two files. A damaged file is reported and left.
"""

import errno
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from pimloom.arch.digest import hex_digest
from pimloom.arch.error import UserError, one_line
from pimloom.arch.units import MIB
from pimloom.sweeping.store.columns import table_of, united
from pimloom.sweeping.store.durable import make_folder, put, remove_left_overs
from pimloom.sweeping.store.segment_file import Damage, Name, Vanished, encode, parsed, read

_MERGED_AT_ONCE = 16
_LARGEST_MERGED_BYTES = 32 * MIB
_LARGEST_MERGED_CELLS = 10**7
_ABANDONED_S = 3600  # others' files may be merged at any age; but live writers had better find theirs
_TRIES = 8
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Segments:
    """Rows in the folder `folder`, each with a text or bytes in its column `key`. For one thread of one process.

    text: columns that are text even where all values are null. The folder is made by the first `append`.
    """

    def __init__(self, folder: Path, key: str, text: Sequence[str] = ()) -> None:
        self.folder = folder
        self.key = key
        self._text = text
        self._writer = secrets.token_hex(8)
        self._written = 0
        self._own: dict[int, list[str]] = {}
        self._seen: set[str] = set()
        self._complaints: dict[str, str] = {}

    @property
    def damaged(self) -> list[str]:
        """One line for each file that could not be read so far. Its rows count as not there; it stays."""
        return list(self._complaints.values())

    def append(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows. When this returns they are on the disk. UserError if that is impossible; then none is there.

        (Of more values than a file takes, some may be.) TypeError for a row without key, or values that are no scalars.
        """
        if not rows:
            return
        if not all(isinstance(row.get(self.key), str | bytes) for row in rows):
            raise TypeError(f"each row needs text or bytes in {self.key}")
        with _Failing(self):
            if not self._written:
                self._prepare()
            most = max(1, _LARGEST_MERGED_CELLS // max(1, *map(len, rows)))
            for first in range(0, len(rows), most):
                self._write(table_of(rows[first : first + most]), 0)
        self._merge_own()

    def fresh(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows in files that appeared since the last look, but for what this writer wrote; merged rows come again.

        columns: the columns wanted, all if None; the key is always there.
        """
        return self._look(self._seen, columns)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, in no order, some perhaps twice. columns: as for `fresh`."""
        return self._look(set(), columns)

    def count(self) -> int:
        """How many different keys there are. This is no look."""
        return len(self._united(self._gather(set(), [self.key]), [self.key])[self.key].unique())

    def _look(self, without: set[str], columns: Sequence[str] | None) -> pa.Table:
        tables = self._gather(without, columns)
        self._seen.update(tables)
        return self._united(tables, columns)

    def _united(self, tables: Mapping[str, pa.Table], columns: Sequence[str] | None) -> pa.Table:
        text = [name for name in self._text if columns is None or name in columns]
        return united(list(tables.values()), text if tables else [self.key, *text])

    def _prepare(self) -> None:
        """Make the folder; tidy up what writers of old have left."""
        make_folder(self.folder)
        remove_left_overs(self.folder)
        self._merge_abandoned()

    def _write(self, table: pa.Table, level: int) -> None:
        data = encode(table, self.key)
        name = str(Name(level, self._writer, self._written, hex_digest(data)))
        self._written += 1
        put(self.folder / name, data)
        self._seen.add(name)
        self._own.setdefault(level, []).append(name)

    def _merge_own(self) -> None:
        """Merge each level that is full into a file of the next."""
        for level in sorted(self._own):
            names = self._own[level]
            if len(names) >= _MERGED_AT_ONCE:
                self._own[level] = []
                self._merge(names, level + 1)

    def _merge_abandoned(self) -> None:
        """Merge old files of other writers, which have most likely died."""
        levels: dict[int, list[str]] = {}
        for name in self._names():
            if (known := parsed(name)) and self._age_s(name) > _ABANDONED_S:
                levels.setdefault(known.level, []).append(name)
        for level, names in levels.items():
            for first in range(0, len(names) - _MERGED_AT_ONCE + 1, _MERGED_AT_ONCE):
                self._merge(names[first : first + _MERGED_AT_ONCE], level + 1)

    def _merge(self, names: Sequence[str], level: int) -> None:
        """One file for those of `names` that can be read; they go when it is in place. No room: they stay."""
        with suppress(OSError):
            if sum(map(self._size, names)) > _LARGEST_MERGED_BYTES:
                return
            tables = {name: table for name in names if (table := self._table(name, None)) is not None}
            merged = united(list(tables.values()))
            if len(tables) > 1 and len(merged) * len(merged.column_names) <= _LARGEST_MERGED_CELLS:
                self._write(merged, level)
                for name in tables:
                    (self.folder / name).unlink(missing_ok=True)

    def _gather(self, without: set[str], columns: Sequence[str] | None) -> dict[str, pa.Table]:
        """Name -> rows of every file but those `without`; looks again where one is merged away meanwhile."""
        found: dict[str, pa.Table] = {}
        for attempt in range(_TRIES):
            names = [name for name in self._names() if name not in without]
            found = {name: found[name] for name in names if name in found}
            for name in names:
                if name not in found and (table := self._table(name, columns)) is not None:
                    found[name] = table
            if all(name in found or name in self._complaints for name in names):
                return found
            time.sleep(0.01 * 2**attempt)  # a network file system may list old names for a while
        return found

    def _table(self, name: str, columns: Sequence[str] | None) -> pa.Table | None:
        """The rows of a file; None if it is gone, or damaged, which is noted."""
        if name in self._complaints:
            return None
        try:
            return read(self.folder / name, self.key, columns)
        except Vanished:
            return None
        except Damage as error:
            self._complaints[name] = one_line(f"{self.folder.name}/{name} {error}; its rows count as not there")
            return None

    def _names(self) -> list[str]:
        """The files named like Parquet, sorted, once two looks agree: one may miss a file and what replaces it."""
        last = None
        for _ in range(_TRIES):
            names = _listed(self.folder)
            if names == last:
                break
            last = names
        return names

    def _size(self, name: str) -> int:
        with suppress(FileNotFoundError):
            return (self.folder / name).lstat().st_size
        return 0

    def _age_s(self, name: str) -> float:
        with suppress(OSError):
            return time.time() - (self.folder / name).lstat().st_mtime
        return 0.0


class _Failing:
    """Turns an OSError while rows are written into a UserError that says what is kept."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            folder, why = one_line(self.segments.folder), (error.strerror or str(error)).lower()
            kept = f"{self.segments.count()} rows are kept"
            if error.errno in _FULL:
                raise UserError(f"disk full at {folder}: {kept}; make room and start again") from error
            raise UserError(f"cannot write to {folder}: {why}; {kept}; make it writable and start again") from error


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise UserError(f"{one_line(folder)}: is a link, expected a folder; move what it points at here")


def _listed(folder: Path) -> list[str]:
    _refuse_link(folder)
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.name.endswith(".parquet"))
    except FileNotFoundError:
        return []
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"{one_line(folder)}: cannot be read: {why}; expected a folder of rows") from error
