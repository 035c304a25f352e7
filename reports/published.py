"""Published values of a study: the lines of its paper.csv, and how far our values lie from them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NEAR = 0.10  # of a headline claim that has no tolerance of its own [design]


@dataclass(frozen=True)
class Published:
    """One line of a paper.csv. basis: that of a check against it, one of `reproduction.BASES`."""

    id: str
    quantity: str
    version: str
    low: float | None
    high: float | None
    unit: str
    tag: str
    source: str
    basis: str = ""

    @property
    def text(self) -> str:
        """The value or range as one would print it."""
        if self.low is None and self.high is None:
            return "qualitative"
        low, high = ("" if v is None else f"{v:g}" for v in (self.low, self.high))
        if self.low is None:
            return f"≤ {high}"
        if self.high is None:
            return f"≥ {low}"
        return low if low == high else f"{low} to {high}"

    def deviation(self, ours: Sequence[float]) -> float | None:
        """Percent by which our value, or the worse end of our range, lies outside the published range; 0 inside."""
        if self.low is None and self.high is None:
            return None
        below = min(min(ours) / self.low, 1.0) if self.low is not None else 1.0
        above = max(max(ours) / self.high, 1.0) if self.high is not None else 1.0
        return _tenths(below if 1 - below > above - 1 else above)

    def meets(self, ours: Sequence[float]) -> bool:
        """Whether both ends of our range lie within NEAR of the published ones; of a bound, on its side of it."""
        ends = ((self.low, min(ours, default=0.0)), (self.high, max(ours, default=0.0)))
        if None in (self.low, self.high):
            return bool(ours) and self.deviation(ours) == 0
        return bool(ours) and all(theirs and abs(mine / theirs - 1) <= NEAR for theirs, mine in ends)


def read_published(folder: Path) -> dict[str, Published]:
    """All lines of the folder's paper.csv by id."""
    with (folder / "paper.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        row["id"]: Published(
            **{k: v for k, v in row.items() if k not in ("low", "high")},
            low=float(row["low"]) if row["low"] else None,
            high=float(row["high"]) if row["high"] else None,
        )
        for row in rows
    }


def span(values: Sequence[float], pattern: str) -> str:
    """A value, or the least and greatest of several, as one would print them."""
    low, high = f"{min(values):{pattern}}", f"{max(values):{pattern}}"
    return low if low == high else f"{low} to {high}"


def _tenths(ratio: float) -> float:
    return round(100 * (ratio - 1), 1) + 0.0  # no minus zero
