"""The published figures that stand beside ours, from paper.csv."""

import csv
from pathlib import Path
from typing import NamedTuple


class Published(NamedTuple):
    """One line of paper.csv; value is None where nothing is known."""

    id: str
    quantity: str
    technology: str
    value: float | None
    unit: str
    tag: str
    source: str


def published() -> dict[str, Published]:
    """All lines of paper.csv by id."""
    with (Path(__file__).parent / "paper.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        row["id"]: Published(
            **{name: text for name, text in row.items() if name != "value"},
            value=float(row["value"]) if row["value"] else None,
        )
        for row in rows
    }
