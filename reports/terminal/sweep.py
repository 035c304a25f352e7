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
    first = found["workloads"][:MOST_WORKLOADS]
    rows = [row for workload in first for name in workload["best"] if (row := _row(workload, name))]
    if rows:
        show_rows((("objective", "best", ""), ("value", "value|r", ".6g"), ("point", "at", "")), rows)
    if any(workload["open"] for workload in first):
        show_line("fronts compare energies over the same cells only")
    if (more := len(found["workloads"]) - MOST_WORKLOADS) > 0:
        show_line(f"and the best of {more:,} more workloads: --json - has all")
    for message, count in list(found["errors"].items())[:MOST_ERRORS]:
        show_line(f"{count:,} failed: {message}")
    if found["elsewhere"]:
        show_line(
            f"{found['elsewhere']:,} rows of other values, models or versions of the code rest in {found['folder']}"
        )


def _row(workload: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The best of an objective, or why there is none; None without points."""
    if why := workload["open"].get(name):
        return {"objective": name, "value": None, "point": f"no point is best: {why}"}
    if (best := workload["best"][name]) is None:
        return None
    return {"objective": f"{best['direction']} {name}", "value": best["value"], "point": _point(best["point"])}


def _point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.items())


def _fronts(workloads: Sequence[object]) -> str:
    return "the front" if len(workloads) == 1 else f"the fronts of {len(workloads):,} workloads"
