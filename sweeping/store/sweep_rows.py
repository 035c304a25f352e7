"""The rows of one sweep among all that its folder holds."""

import hashlib
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pimloom.sweeping.crew.shared_steps import MOST_BYTES
from pimloom.sweeping.definition.expression import judging
from pimloom.sweeping.definition.numbered import Grid, is_within
from pimloom.sweeping.definition.sweep import Scalar, Sweep
from pimloom.sweeping.point.digests import digest_of
from pimloom.sweeping.point.row import columns_of_row
from pimloom.sweeping.point.shared import Base
from pimloom.sweeping.store.all_rows import ERROR, FINISHED, POINT, TEXT_COLUMNS, open_store, rank
from pimloom.sweeping.store.segments import Segments

if TYPE_CHECKING:
    import pandas as pd

LOOK_S = 0.2  # how often the folder is searched for rows of others


class SweepRows:
    """Rows whose base is the sweep's and whose point lies within its axes.

    Those of an older model, of another workload, or of values that the sweep no longer has stay in the folder unseen.
    """

    def __init__(self, folder: Path, sweep: Sweep, base: Base) -> None:
        self._sweep, self._base, self._store = sweep, base, open_store(folder)
        self._steps, self._steps_bytes = Segments(folder / "steps", "key"), 0
        self._reader = Segments(folder / "rows", POINT, TEXT_COLUMNS)
        self._read: dict[str, dict[str, Any]] = {}
        self._others: set[str] = set()
        self._looked = -LOOK_S
        self.elsewhere = 0  # rows in the folder that are not of the sweep, once `frame` was called
        self.lot = secrets.randbits(32)  # what orders the work of this start

    def frame(self, columns: Collection[str] | None = None) -> "pd.DataFrame":
        """All rows of the sweep, in the order of the axes' values.

        columns: those wanted beside the axes and the texts of every row; all if None.
        """
        from pimloom.sweeping.store.order import in_order

        wanted = columns_of_row(self._base) if columns is None else [*self._whose, *TEXT_COLUMNS, *columns]
        everything = self._store.frame(wanted)
        frame = everything[self._is_mine(everything)]
        self.elsewhere = len(everything) - len(frame)
        lacking = [name for name in wanted if name not in frame]  # of a sweep without rows: all
        return in_order(self._sweep, frame.assign(**dict.fromkeys(lacking)))

    @cached_property
    def finished(self) -> "pd.DataFrame":
        """The points that had a row when first asked for: axes, `point` and `error` only, in no order."""
        frame = self._store.frame(self._whose)
        return frame[self._is_mine(frame)]

    @property
    def _whose(self) -> list[str]:
        """The columns that tell whether a row is the sweep's."""
        return [*(axis.column for axis in self._sweep.axes), "base_digest"]

    @property
    def damaged(self) -> list[str]:
        """One line for each file that could not be read."""
        return self._store.damaged

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Keep rows; they are safe when it returns. Raises UserError."""
        self._store.append(rows)

    def append_steps(self, steps: list[bytes]) -> None:
        """Keep solved sub-problems, as `cycle_sim.runs.pack` has them. Raises UserError."""
        self._steps_bytes += sum(map(len, steps))
        if self._steps_bytes <= MOST_BYTES:
            packed, code = b"".join(steps), self._base.code
            key = hashlib.blake2b(packed, key=code.encode(), digest_size=16).digest()
            self._steps.append([{"key": key, "code": code, "steps": packed}])

    def steps(self) -> list[bytes]:
        """All sub-problems that this version of the code has solved and that are kept."""
        rows = self._steps.read(["key", "code", "steps"]).to_pylist()
        found = {row["key"]: row.get("steps") for row in rows if row.get("code") == self._base.code}
        packed = [step for step in found.values() if isinstance(step, bytes)]
        self._steps_bytes = sum(map(len, packed))
        return packed

    def others(self) -> set[str]:
        """Keys of points that others have finished since this start began, as of a moment ago."""
        if time.monotonic() - self._looked > LOOK_S:
            self._others |= self._store.refresh()
            self._looked = time.monotonic()
        return self._others

    def numbers(self, grid: Grid, *, failed: bool) -> np.ndarray:
        """Numbers of the grid's points that have a row; failed ones among them or not. Shape (rows,), int64."""
        frame = self.finished
        return grid.numbers(frame if failed or not len(frame) else frame[frame["error"].isna()])

    def known(self, keys: Collection[str], *, failed: bool) -> dict[str, dict[str, Any]]:
        """What a search looks at of the rows of these keys that there are, but for the axes, failed ones or not.

        Reads only files that came since the last look.
        """
        for row in self._reader.fresh(self._looked_at).to_pylist():
            before = self._read.get(row[POINT])
            if before is None or rank(row) < rank(before):
                self._read[row[POINT]] = row
        found = {key: self._read[key] for key in keys if key in self._read}
        return {key: row for key, row in found.items() if failed or row[ERROR] is None}

    @cached_property
    def _looked_at(self) -> list[str]:
        """The columns by which a search judges a row, but for the axes, of which the folder may hold other types."""
        return [POINT, ERROR, FINISHED, *sorted(judging(self._sweep) - self._sweep.column_of.keys())]

    def _is_mine(self, frame: "pd.DataFrame") -> np.ndarray:
        mine = np.ones(len(frame), bool)
        for axis in self._sweep.axes:
            if axis.column not in frame:
                return np.zeros(len(frame), bool)
            mine &= is_within(axis, frame[axis.column])
        if "base_digest" not in frame:
            return np.zeros(len(frame), bool)
        from pimloom.sweeping.store.order import with_own_values

        names, within = self._base.named, np.flatnonzero(mine)
        axes = [axis for axis in self._sweep.axes if axis.place in names]
        own = with_own_values(axes, frame[[*(axis.column for axis in axes), "base_digest"]].iloc[within])
        mine[:] = False
        for digest, same in own.groupby("base_digest").indices.items():
            mine[within[same]] = self._belongs(str(digest), own.iloc[same], names)
        return mine

    def _belongs(self, digest: str, rows: "pd.DataFrame", names: Sequence[str]) -> np.ndarray:
        """Which rows of one base digest have the digest that their names should have."""
        columns = [self._base.columns[name] for name in names]
        if not columns:
            return np.full(len(rows), digest == digest_of(self._base, {}))
        fits = np.zeros(len(rows), bool)
        for values, same in rows.groupby(columns).indices.items():
            each = values if isinstance(values, tuple) else (values,)
            point: Mapping[str, Scalar] = dict(zip(names, each, strict=True))
            fits[same] = digest == digest_of(self._base, point)
        return fits
