"""What `pimloom sweep` prints: how far a sweep is, and the best that it has found."""

from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.reports.terminal.tables import show_line, show_rows

MOST_ERRORS = 5
MOST_WORKLOADS = 10


def show_status(found: Mapping[str, Any]) -> None:
    """Print it."""
    show_line(
        f"{found['name']}: {found['finished']:,} of {found['asked']:,} points finished, {found['failed']:,} failed, "
        f"{found['feasible']:,} feasible, {found['pareto']:,} on {_fronts(found['workloads'])}; "
        f"{found['simulated_s']:,.1f} s of simulation; in folder {found['folder']}"
    )
    for line in found["damaged"]:
        show_line(line)
    rows = [
        {"objective": f"{best['direction']} {name}", "value": best["value"], "point": _point(best["point"])}
        for workload in found["workloads"][:MOST_WORKLOADS]
        for name, best in workload["best"].items()
        if best is not None
    ]
    if rows:
        show_rows((("objective", "best", ""), ("value", "value|r", ".6g"), ("point", "at", "")), rows)
    if (more := len(found["workloads"]) - MOST_WORKLOADS) > 0:
        show_line(f"and the best of {more:,} more workloads: --json - has all")
    for message, count in list(found["errors"].items())[:MOST_ERRORS]:
        show_line(f"{count:,} failed: {message}")
    if found["elsewhere"]:
        show_line(
            f"{found['elsewhere']:,} rows of other values, models or versions of the code rest in {found['folder']}"
        )


def _point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.items())


def _fronts(workloads: Sequence[object]) -> str:
    return "the front" if len(workloads) == 1 else f"the fronts of {len(workloads):,} workloads"
