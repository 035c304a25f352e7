"""Traffic across ToRs against the fault ratio, and the time of a placement against its size, as figures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pimloom.reports.figures import lines
from pimloom.reports.page import Figure


def cross_tor_figure(rows: Iterable[Mapping[str, Any]], group_nodes: int, job: float, gpus_per_node: int = 4) -> Figure:
    """The curves of one group size and job from `cross_tor_rows`."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if (row["group_nodes"], row["job_ratio"]) == (group_nodes, job) and row["cross_tor_mean"] is not None:
            series.setdefault(row["algorithm"], []).append((100 * row["fault_ratio"], 100 * row["cross_tor_mean"]))
    title = f"Pairs across ToRs, TP-{group_nodes * gpus_per_node}, job of {job:.0%} of the nodes"
    caption = (
        "Share of the pairs of nodes of equal rank in neighbouring groups of a block of ToRs that are in two ToRs; "
        "mean over random draws of faulty nodes."
    )
    return lines(title, series, xlabel="Faulty nodes [%]", ylabel="Pairs across ToRs [%]", caption=caption)


def speed_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Time against size from `speed_rows` of one or more algorithms, beside n log n through each one's largest."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        series.setdefault(row["algorithm"], []).append((row["nodes"], row["seconds"]))
    for name, points in list(series.items()):
        most, seconds = points[-1]
        scale = seconds / (most * np.log(most))
        series[f"{name}, n log n"] = [(n, float(scale * n * np.log(n))) for n, _ in points]
    title = "Time of one placement"
    caption = (
        "Measured when this page was made, so it differs from run to run; n log n is drawn through the last point."
    )
    return lines(title, series, caption=caption, xlabel="Cluster [nodes]", ylabel="Time [s]", log_x=True, log_y=True)
