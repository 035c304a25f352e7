"""One segment: a table as a Parquet file whose name says what the bytes must be.

`LEVEL-WRITER-NUMBER-DIGEST.parquet`: how often the rows were merged, the random name of the writer, its count of files,
and the BLAKE2b digest of the file. So a cut, a flipped bit or a foreign file is found out wherever it is, footer
included, which the checksums of Parquet's pages do not cover.
"""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pimloom.arch.digest import hex_digest
from pimloom.arch.inputs import note
from pimloom.arch.units import MIB
from pimloom.sweeping.store.columns import BYTES, TEXT, TYPES

LARGEST_BYTES = 256 * MIB
LARGEST_CELLS = 10**8
_LARGEST_COLUMNS = 4096
_NAME = re.compile(r"(\d{1,2})-([0-9a-f]{16})-(\d{8})-([0-9a-f]{32})\.parquet", re.ASCII)


class Damage(Exception):
    """Why a file is no segment that can be read."""


class Vanished(Exception):
    """The file is gone: its rows are in a newer segment."""


class Name(NamedTuple):
    """What the name of a segment says."""

    level: int
    writer: str
    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.level}-{self.writer}-{self.number:08d}-{self.digest}.parquet"


def parsed(name: str) -> Name | None:
    """The parts of a segment's file name, or None if it is none."""
    match = _NAME.fullmatch(name)
    return Name(int(match[1]), match[2], int(match[3]), match[4]) if match else None


def encode(table: pa.Table, key: str) -> bytes:
    """The table as Parquet. Every type in it is one of `columns.TYPES`, which Parquet gives back as they were."""
    out = pa.BufferOutputStream()
    repeated = [field.name for field in table.schema if field.type in (TEXT, BYTES) and field.name != key]
    pq.write_table(
        table, out, use_dictionary=repeated, store_schema=False, write_statistics=False, write_page_checksum=True
    )
    return out.getvalue().to_pybytes()


def read(path: Path, key: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of the segment at `path`; of `columns`, those that it has, and `key`. Raises Damage or Vanished."""
    name = parsed(path.name)
    if name is None:
        raise Damage("is not a file of this store")
    data = _bytes(path)
    if hex_digest(data) != name.digest:
        raise Damage("is damaged: its bytes are not those that were written")
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _check(file.schema_arrow, file.metadata.num_rows, key)
        wanted = [n for n in file.schema_arrow.names if columns is None or n in columns or n == key]
        table = file.read(wanted, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damage("is damaged: it is not Parquet that we can read") from error
    if table[key].null_count:
        raise Damage(f"is damaged: it has rows without {key}")
    return table


def _bytes(path: Path) -> bytes:
    """The content of a file that is neither a link nor larger than a segment can be."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            note(file.fileno())
            if os.fstat(file.fileno()).st_size > LARGEST_BYTES:
                raise Damage(f"is larger than {LARGEST_BYTES} bytes, which no file of this store is")
            return file.read(LARGEST_BYTES)
    except FileNotFoundError:
        raise Vanished from None
    except OSError as error:
        if error.errno == errno.ESTALE:  # NFS: removed on another machine while open here
            raise Vanished from None
        raise Damage(f"cannot be read: {(error.strerror or str(error)).lower()}") from error


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _check(schema: pa.Schema, rows: int, key: str) -> None:
    names = schema.names
    if len(names) > _LARGEST_COLUMNS or len(names) * rows > LARGEST_CELLS:
        raise Damage(f"has {rows} rows of {len(names)} columns, more than any file of this store")
    if len(set(names)) < len(names) or key not in names or schema.field(key).type not in (TEXT, BYTES):
        raise Damage(f"is damaged: it lacks a column {key}, or has a column twice")
    for field in schema:
        if field.type not in TYPES:
            raise Damage(f"has a column of type {field.type}, which no file of this store has")
