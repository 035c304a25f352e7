"""What networks cost and draw, as figures, without faults and with them."""

from collections.abc import Sequence

from pimloom.reports.figures import lines, stacked_bars
from pimloom.reports.page import Figure
from pimloom.systems.fabric.cost import Row

CAPTION = "Bandwidth of a GPU, each way. Prices and powers are those commonly quoted for the paper's table."


def cost_figure(rows: Sequence[Row]) -> Figure:
    """Stacked bars of `part_rows`: what a GB/s costs, by part."""
    return _by_part("Price of a network", rows, "usd_per_gb_s", "Price [$ per GB/s]", CAPTION)


def power_figure(rows: Sequence[Row]) -> Figure:
    """Stacked bars of `part_rows`: what the network of a GPU draws, by part."""
    return _by_part("Power of a network", rows, "w_per_gpu", "Power [W per GPU]", "Fibre takes none.")


def _by_part(title: str, rows: Sequence[Row], key: str, ylabel: str, caption: str) -> Figure:
    names = list(dict.fromkeys(row["arch"] for row in rows))
    series = {
        part: [next((row[key] for row in rows if (row["arch"], row["part"]) == (name, part)), None) for name in names]
        for part in dict.fromkeys(row["part"] for row in rows)  # all, so that a part has one colour in every figure
    }
    return stacked_bars(title, names, series, xlabel="Architecture", ylabel=ylabel, caption=caption)


def aggregate_figure(rows: Sequence[Row]) -> Figure:
    """Lines of `aggregate_rows`: cost per GPU of the cluster against the fault ratio."""
    series: dict[str, list[tuple[float, float]]] = {}
    several = len({row["tp"] for row in rows}) > 1
    for row in rows:
        name = f"{row['arch']}, TP {row['tp']}" if several else row["arch"]
        series.setdefault(name, []).append((100 * row["fault_ratio"], row["aggregate_usd_per_gpu"]))
    return lines(
        "Cost with faults",
        series,
        xlabel="Node-fault ratio [%]",
        ylabel="Network and idle GPUs [$ per GPU]",
        caption=f"A GPU is taken to cost {rows[0]['gpu_usd']:,.0f} $; the paper's price is unknown.",
    )
