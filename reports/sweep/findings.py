"""What a sweep's table says: which points are feasible, which are on the front, what decides the objectives."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from pimloom.reports.sweep.sensitivity import Indices, sensitivities
from pimloom.sweeping.alike import fair_front, reasons
from pimloom.sweeping.columns import Column, numbers_of, read_columns
from pimloom.sweeping.sweep_table import SweepTable
from pimloom.sweeping.workloads import Workload, groups_of, workloads_of

NOT_UNIFORM = "The points were chosen by a search, not evenly, so shares of a variance would say nothing."


@dataclass(frozen=True)
class Findings:
    """A table, read. Masks are bool, (n,). sensitivities: by objective, the indices or why there are none.

    front: of each workload by itself. open: of each workload, by objective that reads an energy, why no point is best.
    """

    columns: Mapping[str, Column]
    finished: np.ndarray
    feasible: np.ndarray
    front: np.ndarray
    sensitivities: Mapping[str, Indices | str]
    workloads: tuple[Workload, ...]
    failures: tuple[tuple[str, int], ...]
    open: tuple[Mapping[str, str], ...] = ()

    @property
    def count(self) -> int:
        return len(self.finished)


def study(table: SweepTable) -> Findings:
    """Read the whole table. Raises ValueError if an axis has no column or a direction is neither min nor max."""
    columns = read_columns(table.frame)
    if lost := [axis for axis in (*table.axes, *table.workload) if axis not in columns]:
        raise ValueError(f"the table has no column for the axis {lost[0]!r}")
    count = len(table.frame)
    finished = _finished(columns, count)
    feasible = finished & _true(columns, "feasible", count)
    objectives = {name: numbers_of(columns, name, count) for name in table.objectives}
    groups = groups_of(columns, table.workload, count)
    frame = table.frame.assign(**objectives, feasible=feasible)
    workloads = workloads_of(groups, objectives, table.objectives, feasible)
    why = tuple(reasons(frame.iloc[work.rows], table.objectives, table.energies) for work in workloads)
    return Findings(
        columns,
        finished,
        feasible,
        fair_front(frame, table.objectives, table.energies, feasible, groups),
        {
            name: sensitivities([columns[axis] for axis in table.axes], numbers, finished)
            if table.uniform
            else NOT_UNIFORM
            for name, numbers in objectives.items()
        },
        tuple(_without(work, each) for work, each in zip(workloads, why, strict=True)),
        _failures(columns),
        why,
    )


def _without(work: Workload, names: Collection[str]) -> Workload:
    """A workload whose best of these objectives is open."""
    return Workload(work.rows, {name: row for name, row in work.best.items() if name not in names})


def _finished(columns: Mapping[str, Column], count: int) -> np.ndarray:
    return columns["error"].codes < 0 if "error" in columns else np.ones(count, dtype=bool)


def _true(columns: Mapping[str, Column], name: str, count: int) -> np.ndarray:
    if name not in columns:
        return np.ones(count, dtype=bool)
    column = columns[name]
    if column.numeric:
        return column.numbers() == 1
    yes = np.array([level == "true" for level in column.levels] + [False])
    return yes[column.codes]


def _failures(columns: Mapping[str, Column]) -> tuple[tuple[str, int], ...]:
    if "error" not in columns:
        return ()
    error = columns["error"]
    counts = Counter(error.codes[error.codes >= 0].tolist())
    return tuple((str(error.levels[code]), times) for code, times in counts.most_common())
