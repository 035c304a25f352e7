"""Curves of many points without marks: what changes over time, and how values are spread.

Labels and checks are those of `pimloom.reports.figures`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pimloom.reports.figures import Handles, Points, check, check_count, scale
from pimloom.reports.figures import figure as finished
from pimloom.reports.page import Figure
from pimloom.reports.svg import SERIES

BINS = 240  # of a time axis: more are not seen


def curves(
    title: str, series: Points, *, xlabel: str, ylabel: str, caption: str = "", log_x: bool = False,
    steps: bool = False, top: float | None = None,
) -> Figure:  # fmt: skip
    """One line per series of (x, y) points, x rising. steps: a value holds until the next one; top: of the y axis."""
    xs, ys = ([point[axis] for points in series.values() for point in points] for axis in (0, 1))
    check(title, xs, {}, {"x": xlabel}, positive=log_x)
    check(title, ys, {}, {"y": ylabel})
    check_count(title, len(series) if all(series.values()) else 0)

    def draw(axes: Any) -> Handles:
        handles: Handles = {}
        for nth, (name, points) in enumerate(series.items()):
            look = {"color": SERIES[nth % len(SERIES)], "lw": 1.4, "ls": "-" if nth < len(SERIES) else "--"}
            (handles[name],) = axes.plot(*zip(*points, strict=True), drawstyle="steps-post" if steps else None, **look)
        scale(axes, log_x)
        axes.grid(axis="y")
        axes.set_ylim(bottom=0, top=top)
        return handles

    return finished(title, caption, xlabel, ylabel, draw)


class Over:
    """Times from `start` to `end` in equal parts, BINS or as many as there are `events`."""

    def __init__(self, start: float, end: float, events: int) -> None:
        self.edges = np.linspace(start, end if end > start else start + 1.0, max(min(events, BINS), 2) + 1)

    @property
    def width(self) -> float:
        """Of a part."""
        return float(self.edges[1] - self.edges[0])

    def summed(self, starts: np.ndarray, ends: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        """Amounts in each part, each spread evenly from its start to its end, which lie within all parts."""
        rates = amounts / (ends - starts)
        corners, changes = np.concatenate([starts, ends]), np.concatenate([rates, -rates])
        order = np.argsort(corners, kind="stable")
        at, rate = corners[order], np.cumsum(changes[order])
        until = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(at))])
        return np.diff(np.interp(self.edges, at, until))

    def mean(self, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Mean over time of what is `values` from starts to ends, and 0 else."""
        return self.summed(starts, ends, values * (ends - starts)) / self.width

    def points(self, values: Sequence[float] | np.ndarray) -> list[tuple[float, float]]:
        """As a curve of steps."""
        listed = [float(value) for value in values]
        return list(zip(self.edges.tolist(), [*listed, listed[-1]], strict=True))


def percentiles(values: np.ndarray, most: int = BINS) -> list[tuple[float, float]]:
    """(value, per cent of values up to it), linear between values as numpy has it."""
    shares = np.linspace(0.0, 1.0, min(len(values), most) if len(values) > 1 else 2)
    return list(zip(np.quantile(values, shares).tolist(), (100 * shares).tolist(), strict=True))
