"""Healthy GPUs that no group can use, by fabric, TP and share of faulty nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.arch.name_units import counted
from pimloom.arch.units import H_PER_DAY
from pimloom.reports.terminal.fabric.faults import show_notes
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.fabric.faults.trace import Trace
from pimloom.systems.fabric.waste import Plan

SWEEP_COLUMNS = 11  # fault ratios that fit side by side


def show_waste(rows: Sequence[Mapping[str, Any]], plan: Plan, trace: Trace | None) -> None:
    """Print the share of GPUs that faults leave idle, by fabric."""
    if trace is not None:
        show_notes(trace.notes)
    cluster = plan.cluster
    where = f"{cluster.gpus:,} GPUs in nodes of {cluster.gpus_per_node}"
    how = "nodes fail alone" if trace is None else f"{trace.name}, {trace.horizon_h / H_PER_DAY:g} days"
    show_line(
        f"GPU waste: healthy GPUs in no group of TP GPUs, in % of all. {where}; {how}; {counted(plan.draws, 'draw')}."
    )
    if plan.job_gpus is None and trace is None and len({row["fault_ratio"] for row in rows} - {None}) > 1:
        _show_sweep(rows)
    else:
        _show_each(rows, plan, trace is None)
    for note in dict.fromkeys(f"{row['arch']}, TP-{row['tp']}: {row['note']}" for row in rows if row["note"]):
        show_line(note)


def _show_each(rows: Sequence[Mapping[str, Any]], plan: Plan, alone: bool) -> None:
    """All figures of a fabric and TP on a line."""
    percent = ("fault_ratio", "waste_ratio_mean", "waste_ratio_p50", "waste_ratio_p99", "job_wait_ratio")
    shown = [dict(row) | {key: None if row[key] is None else 100 * row[key] for key in percent} for row in rows]
    columns = [
        ("arch", "arch", ""),
        ("tp", "TP|r", ""),
        ("fault_ratio", "faulty, asked|r" if alone else "faulty|r", ".2f"),
        ("waste_ratio_mean", "waste|r", ".2f"),
        ("waste_ratio_p50", "P50|r", ".2f"),
        ("waste_ratio_p99", "P99|r", ".2f"),
        ("usable_gpus_min", "usable at worst|r" if alone else "always usable|r", ",.0f"),
    ]
    if plan.job_gpus is not None:
        columns.append(("job_wait_ratio", f"{plan.job_gpus} GPUs wait|r", ".1f"))
    show_rows(columns, shown)


def _show_sweep(rows: Sequence[Mapping[str, Any]]) -> None:
    """Mean waste, a column for each fault ratio."""
    ratios = [ratio for ratio in dict.fromkeys(row["fault_ratio"] for row in rows) if ratio is not None]
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        mean = row["waste_ratio_mean"]
        line = lines.setdefault((row["arch"], row["tp"]), {"arch": row["arch"], "tp": row["tp"]})
        line[str(row["fault_ratio"])] = None if mean is None else 100 * mean
    show_line("Mean waste by the share of nodes that are down, both in %:")
    for low in range(0, len(ratios), SWEEP_COLUMNS):
        part = ratios[low : low + SWEEP_COLUMNS]
        numbers = [(str(ratio), f"{100 * ratio:.6g}|r", ".2f") for ratio in part]
        nothing = dict.fromkeys(map(str, part))
        columns = [("arch", "arch", ""), ("tp", "TP|r", ""), *numbers]
        show_rows(columns, [nothing | line for line in lines.values()])
