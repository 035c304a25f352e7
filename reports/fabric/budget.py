"""The link budget of an optical part: where the light of a lane goes."""

from typing import Any

from pimloom.arch.optics import Optics, link_budget
from pimloom.reports.figures import grouped_bars
from pimloom.reports.page import Figure


def budget_rows(part: Optics, nodes: int = 1) -> list[dict[str, Any]]:
    """Rows `item, db, dbm, worst_db, worst_dbm` to the node `nodes` places on, typical and at any temperature.

    `db` is what an item adds (a loss is negative), `dbm` the power behind it; of the last row, the receiver, `db` is
    the margin and `dbm` the power that it needs.
    """
    both = zip(link_budget(part, nodes), link_budget(part, nodes, worst=True), strict=True)
    return [{**line._asdict(), "worst_db": worst.db, "worst_dbm": worst.dbm} for line, worst in both]


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
