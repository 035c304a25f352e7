"""The rows of a sweep in its folder: finished points, with what came out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pimloom.sweeping.store.arrays import array_of
from pimloom.sweeping.store.columns import frame_of
from pimloom.sweeping.store.segments import Segments

if TYPE_CHECKING:
    import pandas

POINT, ERROR, CODE, FINISHED = "point", "error", "code_digest", "finished_utc"
TEXT_COLUMNS = (POINT, ERROR, "spec_digest", CODE, "version", "host", FINISHED)


def open_store(folder: str | Path) -> "Store":
    """The store in the sweep's folder; nothing is made before the first `append`, nothing read before it is asked."""
    return Store(Path(folder))


class Store:
    """Finished rows, in `folder/rows/`. For one thread of one process; other processes and machines may have theirs.

    A row is a flat dict with its key in `point`. Of rows with the same key, which can only come about where two
    machines computed the same point, one counts: one without an error before one with, then the one finished first.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._segments = Segments(folder / "rows", POINT, TEXT_COLUMNS)
        self._finished: dict[str | None, set[str]] = {}

    @property
    def damaged(self) -> list[str]:
        """One line for each file of rows that could not be read so far. Its points count as not done."""
        return self._segments.damaged

    def append(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Add finished rows: on the disk when this returns. UserError (disk full) if that is impossible."""
        self._segments.append(rows)
        for row in rows:
            self._finished.setdefault(_text(row.get(CODE)), set()).add(str(row[POINT]))

    def keys(self, code_digest: str | None = None) -> set[str]:
        """Keys of the finished points of a version of the code, of all if None. The caller may change the set."""
        self.refresh()
        if code_digest is not None:
            return set(self._finished.get(code_digest, ()))
        return set().union(*self._finished.values())

    def refresh(self) -> set[str]:
        """Keys, of any version of the code, that others have finished since the last look; reads only new files."""
        table, new = self._segments.fresh([POINT, CODE]), set()
        for point, code in zip(table[POINT].to_pylist(), table[CODE].to_pylist(), strict=True):
            known = self._finished.setdefault(code, set())
            if point not in known:
                known.add(point)
                new.add(point)
        return new

    def frame(self, code_digest: str | None = None, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """The rows of a version of the code, of all if None, one for each key, in the order of the keys.

        columns: those wanted, with the texts that are always there; all if None. Types: see `columns.frame_of`.
        """
        wanted = None if columns is None else [*dict.fromkeys((*TEXT_COLUMNS, *columns))]
        table = self._segments.read(wanted)
        if code_digest is not None:
            table = table.filter(pc.equal(table[CODE], code_digest))
        return frame_of(_once(table))

    def rows_of(self, keys: Sequence[str]) -> list[dict[str, object]]:
        """The rows of these keys, in their order, as plain values (null is None); keys without a row are left out."""
        table, wanted = self._segments.read(), set(keys)
        places = [place for place, point in enumerate(table[POINT].to_pylist()) if point in wanted]
        found = table.take(array_of(places, pa.int64())).to_pylist()
        first = {row[POINT]: row for row in sorted(found, key=rank, reverse=True)}
        return [first[key] for key in keys if key in first]


def rank(row: Mapping[str, object]) -> tuple[bool, bool, str]:
    """Lowest for the row that counts, as in `_once`."""
    finished = row[FINISHED]
    return row[ERROR] is not None, finished is None, str(finished)


def _once(table: pa.Table) -> pa.Table:
    """The row that counts of each key, in the order of the keys."""
    failed = pc.is_valid(table[ERROR])
    keys = pa.Table.from_arrays([table[POINT], failed, table[FINISHED]], ["point", "failed", "finished"])
    order = pc.sort_indices(keys, [("point", "ascending"), ("failed", "ascending"), ("finished", "ascending")])
    table = table.take(order)
    points = table[POINT].combine_chunks()
    if len(points) < 2:
        return table
    first = pc.not_equal(points.slice(1), points.slice(0, len(points) - 1))
    return table.filter(pa.concat_arrays([array_of([True], pa.bool_()), first]))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
