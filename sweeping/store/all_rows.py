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
        self._finished: set[str] = set()

    @property
    def damaged(self) -> list[str]:
        """One line for each file of rows that could not be read so far. Its points count as not done."""
        return self._segments.damaged

    def append(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Add finished rows: on the disk when this returns. UserError (disk full) if that is impossible."""
        self._segments.append(rows)
        self._finished.update(str(row[POINT]) for row in rows)

    def keys(self) -> set[str]:
        """Keys of all finished points. The caller may change the set."""
        self.refresh()
        return set(self._finished)

    def refresh(self) -> set[str]:
        """Keys that others have finished since the last look at the folder; reads only new files."""
        new = set(self._segments.fresh([POINT])[POINT].to_pylist()) - self._finished
        self._finished |= new
        return new

    def frame(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """The rows, one for each key, in the order of the keys. This is a look at the folder, too.

        columns: those wanted, with the texts that are always there; all if None. Types: see `columns.frame_of`.
        """
        table = _once(self._segments.read(None if columns is None else [*dict.fromkeys((*TEXT_COLUMNS, *columns))]))
        self._finished.update(table[POINT].to_pylist())
        return frame_of(table)


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
