"""The table of a sweep: its rows with objectives, feasibility and the front."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pimloom.sweeping.alike import energies_of, fair_front
from pimloom.sweeping.columns import read_columns
from pimloom.sweeping.definition.expression import judging, parse, parse_constraint
from pimloom.sweeping.definition.grid import count_points
from pimloom.sweeping.definition.sweep import Sweep
from pimloom.sweeping.folder import Known, reopen
from pimloom.sweeping.point.results import BOUND, UNKNOWN
from pimloom.sweeping.point.row import result_columns
from pimloom.sweeping.store.sweep_rows import SweepRows
from pimloom.sweeping.sweep_table import SweepTable
from pimloom.sweeping.workloads import groups_of


class Opened(NamedTuple):
    """A sweep's folder with its table. elsewhere: rows of the folder that are not of this sweep."""

    known: Known
    table: SweepTable
    elsewhere: int
    damaged: list[str]

    @property
    def asked(self) -> int:
        """Points of the grid, or the budget of the search."""
        return count_points(self.known.sweep)


def open_table(folder: Path, columns: Collection[str] | None = None) -> Opened:
    """Read a sweep's folder. columns: result columns that are wanted, all if None; what judges a row is always there.

    Raises UserError.
    """
    known = reopen(folder)
    rows = SweepRows(folder, known.sweep, known.base)
    wanted = None if columns is None else {*columns, *judging(known.sweep), UNKNOWN, BOUND}
    sweep, frame = known.sweep, judged(known.sweep, rows.frame(wanted))
    table = SweepTable(
        title=sweep.name,
        frame=frame,
        axes=tuple(axis.column for axis in sweep.axes),
        objectives=dict(sweep.objectives),
        constraints=sweep.constraints,
        uniform=all(run.get("method", sweep.method) in ("grid", "random") for run in known.runs),
        facts=_facts(known, frame),
        meanings={column.name: column.meaning for column in result_columns(known.base)},
        workload=workload_axes(sweep),
        energies=energies_of(sweep),
    )
    return Opened(known, table, rows.elsewhere, rows.damaged)


def judged(sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column for each objective that is an expression, `feasible` and `pareto` (both bool).

    feasible: did not fail, and holds all constraints. pareto: feasible, and no feasible point of the same workload is
    better in one objective and at least as good in all; energies are compared over the same cells of the ledger only.
    """
    frame, column_of = frame.copy(deep=False), sweep.column_of
    for text in sweep.objectives:
        if text not in frame:
            frame[text] = parse(text, "objectives").values(frame, column_of)
    feasible = frame["error"].isna().to_numpy(bool)
    for text in sweep.constraints:
        feasible = feasible & parse_constraint(text, "constraints").holds_all(frame, column_of).to_numpy(bool)
    frame["feasible"] = feasible
    groups = workload_of_each(sweep, frame)
    frame["pareto"] = fair_front(frame, sweep.objectives, energies_of(sweep), feasible, groups)
    return frame


def workload_axes(sweep: Sweep) -> tuple[str, ...]:
    """The columns of the axes that are work; points are compared where they have the same values."""
    return tuple(axis.column for axis in sweep.axes if axis.is_work)


def workload_of_each(sweep: Sweep, frame: pd.DataFrame) -> np.ndarray:
    """The number of each row's workload, int, in the order in which they first appear."""
    axes = workload_axes(sweep)
    return groups_of(read_columns(frame[list(axes)]), axes, len(frame))


def _facts(known: Known, frame: pd.DataFrame) -> Mapping[str, str]:
    sweep, base = known.sweep, known.base
    failed = int(frame["error"].notna().sum())
    facts = {
        "system": sweep.system,
        "workload": ", ".join(f"{key} {value}" for key, value in sweep.workload.items()),
        "LM head": base.head_note,
        "set": ", ".join(f"{key} = {value}" for key, value in sweep.set.items()),
        "method": sweep.method if sweep.budget is None else f"{sweep.method}, budget {sweep.budget:,}",
        "seed": str(sweep.seed),
        "points": f"{count_points(sweep):,} asked, {len(frame):,} finished, {failed:,} failed",
        "simulation time": f"{frame['wall_s'].sum():,.1f} s",
        "starts": str(len(known.runs)),
        "code": base.code,
        "packages": ", ".join(f"{name} {number}" for name, number in _packages(known).items()),
    }
    return {name: text for name, text in facts.items() if text}


def _packages(known: Known) -> Mapping[str, object]:
    found = known.runs[-1].get("packages") if known.runs else None
    version = known.runs[-1].get("version", "") if known.runs else ""
    return {"pimloom": version, **(found if isinstance(found, dict) else {})}
