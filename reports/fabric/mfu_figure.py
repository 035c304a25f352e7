"""MFU of a model against the number of GPUs, as a figure."""

from collections.abc import Sequence

from pimloom.reports.figures import lines
from pimloom.reports.page import Figure
from pimloom.systems.fabric.mfu import Row


def mfu_figure(rows: Sequence[Row]) -> Figure:
    """Lines of `mfu_rows`: MFU against the number of GPUs."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        series.setdefault(row["arch"], []).append((row["gpus"], 100 * row["mfu"]))
    first = rows[0]
    return lines(
        "MFU against scale",
        series,
        xlabel="Cluster [GPUs]",
        ylabel="MFU [%]",
        log_x=True,
        caption=f"{first['model']}, {first['batch']} sequences a step, {first['schedule']}, the best split of each.",
    )
