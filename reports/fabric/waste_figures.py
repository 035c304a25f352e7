"""Figures of GPU waste: against the fault ratio, over time on a trace, and the largest job that always fits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pimloom.arch.units import H_PER_DAY
from pimloom.reports.figures import grouped_bars, lines
from pimloom.reports.page import Figure
from pimloom.systems.fabric.faults.trace import Trace
from pimloom.systems.fabric.waste import Plan, Row, forms_groups, replay

WEEK_H = 7 * H_PER_DAY
HOPELESS = "no group of this size fits its units"


def waste_over_time(
    plan: Plan, trace: Trace, tp: int, step_h: float = WEEK_H
) -> tuple[list[float], dict[str, list[float]]]:
    """Days in the middle of steps of `step_h`, and the waste ratio of each fabric in them.

    Time-weighted, mean of the draws; the last step may be shorter.
    """
    plan = replace(plan, tps=[tp])
    edges = np.append(np.arange(0, trace.horizon_h, step_h), trace.horizon_h)
    sums = np.zeros((len(plan.fabrics), len(edges) - 1))
    for draw in range(plan.draws):
        one = replay(plan, trace, draw)
        at_h = np.concatenate([[0], np.cumsum(one.weight_h)])
        for nth, usable in enumerate(one.usable):
            lost = np.cumsum((one.healthy - usable) / plan.cluster.gpus * one.weight_h)
            sums[nth] += np.diff(np.interp(edges, at_h, np.concatenate([[0], lost])))
    means = sums / np.diff(edges) / plan.draws
    days = (edges[:-1] + edges[1:]) / 2 / H_PER_DAY
    return days.tolist(), {fabric.name: row.tolist() for fabric, row in zip(plan.fabrics, means, strict=True)}


def time_figure(plan: Plan, trace: Trace, tp: int) -> Figure:
    """Weekly waste of each fabric on the trace; those that can form no group of `tp` are left out."""
    fabrics = [fabric for fabric in plan.fabrics if forms_groups(fabric, plan.cluster, tp)]
    days, found = waste_over_time(replace(plan, fabrics=fabrics), trace, tp)
    return lines(
        f"GPU waste over time, TP-{tp}",
        _together({name: [(x, 100 * y) for x, y in zip(days, row, strict=True)] for name, row in found.items()}),
        xlabel="Time [days]",
        ylabel="Waste [% of all GPUs]",
        caption=_caption(plan, f"{trace.name}, means of weeks, {plan.draws} draws", fabrics),
    )


def ratio_figure(plan: Plan, rows: Sequence[Row], tp: int) -> Figure:
    """Waste against the node-fault ratio, of the rows of `iid_rows`; fabrics that can form no group are left out."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["tp"] == tp and row["note"] is None:
            series.setdefault(row["arch"], []).append((100 * row["fault_ratio"], 100 * row["waste_ratio_mean"]))
    fabrics = [fabric for fabric in plan.fabrics if fabric.name in series]
    return lines(
        f"GPU waste against faulty nodes, TP-{tp}",
        _together(series),
        xlabel="Faulty nodes [%]",
        ylabel="Waste [% of all GPUs]",
        caption=_caption(plan, f"nodes fail alone, {plan.draws} draws", fabrics),
    )


def job_figure(plan: Plan, rows: Sequence[Row]) -> Figure:
    """The largest job that always fits, as a share of all GPUs, of the rows of `trace_rows`; a bar for each TP."""
    names = list(dict.fromkeys(row["arch"] for row in rows))
    known = {(row["arch"], row["tp"]): row["usable_gpus_min"] for row in rows}
    gpus = plan.cluster.gpus
    series = {
        f"TP-{tp}": [None if (least := known[name, tp]) is None else 100 * least / gpus for name in names]
        for tp in dict.fromkeys(row["tp"] for row in rows)
    }
    return grouped_bars(
        "Largest job that always fits",
        [name.removeprefix("infinitehbd-") for name in names],
        series,
        xlabel="Fabric",
        ylabel="GPUs usable at the worst time [% of all GPUs]",
        caption=_caption(plan, f"mean of {plan.draws} draws; no bar where no group fits", plan.fabrics),
    )


def _together(series: Mapping[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Lines that lie on one another as one, with both names."""
    names: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for name, points in series.items():
        names.setdefault(tuple(points), []).append(name)
    return {", ".join(same): list(points) for points, same in names.items()}


def _caption(plan: Plan, what: str, shown: Sequence[object]) -> str:
    cluster = plan.cluster
    text = f"{cluster.gpus:,} GPUs in nodes of {cluster.gpus_per_node}; {what}; seed {plan.seed}."
    missing = [fabric.name for fabric in plan.fabrics if fabric not in shown]
    return f"{text} Not shown, for {HOPELESS}: {', '.join(missing)}." if missing else text
