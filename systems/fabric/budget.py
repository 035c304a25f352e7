"""The link budget of an optical part: where the light of a lane goes."""

from typing import Any

from pimloom.arch.optics import Optics, link_budget


def budget_rows(part: Optics, nodes: int = 1) -> list[dict[str, Any]]:
    """Rows `item, db, dbm, worst_db, worst_dbm` to the node `nodes` places on, typical and at any temperature.

    `db` is what an item adds (a loss is negative), `dbm` the power behind it; of the last row, the receiver, `db` is
    the margin and `dbm` the power that it needs.
    """
    both = zip(link_budget(part, nodes), link_budget(part, nodes, worst=True), strict=True)
    return [{**line._asdict(), "worst_db": worst.db, "worst_dbm": worst.dbm} for line, worst in both]
