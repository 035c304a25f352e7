"""How far a sweep has come, as JSON values."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from pimloom.sweeping.table import Opened


STATUS = ("wall_s",)  # columns of the table that `status_of` reads beside what judges a row


def status_of(opened: "Opened") -> dict[str, Any]:
    """What `pimloom sweep status --json` says; fields in docs/sweep.md."""
    from pimloom.sweeping.table import workload_of_each

    sweep, frame, runs = opened.known.sweep, opened.table.frame, opened.known.runs
    parts = [rows for _, rows in frame.groupby(workload_of_each(sweep, frame))] or [frame]
    workloads = [_of_workload(opened, rows) for rows in parts]
    failed = frame["error"].dropna()
    last = runs[-1] if runs else {}
    return {
        "name": sweep.name,
        "system": sweep.system,
        "method": sweep.method,
        "seed": sweep.seed,
        "asked": opened.asked,
        "finished": len(frame),
        "failed": len(failed),
        "feasible": int(frame["feasible"].sum()),
        "pareto": int(frame["pareto"].sum()),
        "simulated_s": float(frame["wall_s"].sum()),
        "best": workloads[0]["best"] if len(workloads) == 1 else dict.fromkeys(sweep.objectives),
        "open": workloads[0]["open"] if len(workloads) == 1 else {},
        "workloads": workloads,
        "errors": {str(text): int(count) for text, count in failed.value_counts().items()},
        "elsewhere": opened.elsewhere,
        "starts": len(runs),
        "last_start": {name: last.get(name) for name in ("started_utc", "host", "version", "code_digest")},
        "last_finished_utc": str(frame["finished_utc"].max()) if len(frame) else None,
        "damaged": opened.damaged,
    }


def _of_workload(opened: "Opened", frame: "pd.DataFrame") -> dict[str, Any]:
    """How far the points of one workload are, and the best of them."""
    from pimloom.sweeping.alike import reasons

    objectives = opened.table.objectives
    why = reasons(frame, objectives, opened.table.energies)
    return {
        "workload": {axis: plain(frame[axis].iloc[0]) for axis in opened.table.workload if len(frame)},
        "finished": len(frame),
        "failed": int(frame["error"].notna().sum()),
        "feasible": int(frame["feasible"].sum()),
        "pareto": int(frame["pareto"].sum()),
        "best": {n: None if n in why else _best(opened, frame, n, way) for n, way in objectives.items()},
        "open": why,
    }


def _best(opened: "Opened", frame: "pd.DataFrame", name: str, direction: str) -> dict[str, Any] | None:
    """The feasible point with the best value of an objective, the first of equals."""
    values = frame.loc[frame["feasible"], name].astype(float).dropna()
    if not len(values):
        return None
    label = values.idxmax() if direction == "max" else values.idxmin()
    point = {axis.column: plain(frame.at[label, axis.column]) for axis in opened.known.sweep.axes}
    return {"direction": direction, "value": float(values[label]), "point": point}


def plain(value: Any) -> Any:
    """A cell as a JSON value."""
    return value.item() if hasattr(value, "item") else value
