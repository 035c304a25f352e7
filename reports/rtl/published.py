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


def beside_litedram() -> str:
    """A sentence with the published clock rates of a free controller on the FPGA family of `fmax_mhz`."""
    fmax, clock = (published()[name] for name in ("litedram_fmax", "litedram_clock"))
    return f"LiteDRAM on an ECP5, with a CPU: Fmax {fmax.value:g} MHz, shipped at {clock.value:g} MHz; {fmax.source}"


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
