"""The link budget of an optical part as a figure."""

from pimloom.arch.optics import Optics
from pimloom.reports.figures import grouped_bars
from pimloom.reports.page import Figure
from pimloom.systems.fabric.budget import budget_rows


def budget_figure(part: Optics, nodes: int = 1) -> Figure:
    """Losses of the items, and the margin that is left [dB]."""
    rows = [{**row, "item": row["item"].replace("receiver, margin", "margin")} for row in budget_rows(part, nodes)[1:]]
    last = len(rows) - 1

    def heights(key: str) -> list[float]:
        return [row[key] if place == last else -row[key] for place, row in enumerate(rows)]

    optical = part.optical
    caption = (
        f"A lane starts with {optical.transmit_dbm:g} dBm and needs {optical.sensitivity_dbm:g} dBm; "
        "every bar but the last is lost on the way, and the last is what is left over."
    )
    return grouped_bars(
        "Insertion-loss budget of a lane",
        [row["item"] for row in rows],
        {"typical": heights("db"), "at any temperature": heights("worst_db")},
        xlabel="Item",
        ylabel="Loss, margin [dB]",
        caption=caption,
    )
