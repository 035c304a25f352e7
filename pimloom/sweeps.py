"""`pimloom.sweeps`: sweeps in folders, as `pimloom sweep` has them; `pimloom.sweep` simulates one and returns its rows.

The only error is `pimloom.UserError`. A folder and its table are explained in docs/sweep.md.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.edge import ask, public

if TYPE_CHECKING:
    from pimloom.answer import Answer

__all__ = ["export", "report", "run", "status"]


@public
def run(
    file: str | Path,
    *,
    out: str | Path | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    timeout_per_point: float | None = None,
    retry_failed: bool = False,
    wait: float = 60.0,
) -> "Answer":
    """Simulate the points of a sweep that its folder does not have yet; returns its status.

    out: the folder, else `file` less its suffix. scheduler: of Dask, such as tcp://host:8786; workers: processes here
    instead, one per core if None. timeout_per_point: most seconds of a point. wait: seconds for a scheduler that is
    lost in the middle.
    """
    from pimloom.commands.sweep import run as command

    return ask(command, locals())


@public
def status(folder: str | Path) -> "Answer":
    """How far a sweep is: points asked, `finished` and `failed`, the best so far, its starts."""
    from pimloom.commands.sweep import standing
    from pimloom.commands.sweep import status_ as command

    return ask(command, locals(), standing)


@public
def export(folder: str | Path, *, parquet: str | Path | None = None, csv: str | Path | None = None) -> None:
    """Write all rows of a sweep as Parquet, CSV, or both; `feasible` and `pareto` say which are good, and best."""
    from pimloom.commands.sweep import export as command

    ask(command, locals())


@public
def report(folder: str | Path, *, out: str | Path | None = None) -> Path:
    """Draw a sweep into one HTML file; returns it. out: a folder, else `folder`/report."""
    from pimloom.commands.sweep import report as command

    return ask(command, locals())
