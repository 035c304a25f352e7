"""Figures of a report: bars, stacks, lines and ranges, as SVG that follows the page's light or dark theme.

Every axis names its unit in brackets, `Latency [ms]` or `Speed-up [-]`; only an axis of categories has none.
Wrong or missing labels, values that are not finite and series of unequal length raise ValueError.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from pimloom.reports.page import Figure, number
from pimloom.reports.svg import BAND, INK, MUTED, PAPER, SERIES, clean, draw_svg

Values = Mapping[str, Sequence[float | None]]
Points = Mapping[str, Sequence[tuple[float, float]]]

Handles = dict[str, Any]  # what was drawn for each series, by its name in the legend

MARKERS = "osD^vPXd"
DASHES = ("-", "--", "-.", ":")
MOST_SERIES = 2 * len(SERIES)
MOST_VALUE_LABELS = 24
MOST_POINT_TICKS = 10
APART = 1.25  # ratio of two ticks on a log axis whose labels do not touch
FEW_CATEGORIES = 4  # fewer leave room at the sides, so that bars stay bars
SHORT_LOG = 300  # a log axis with less than this between its ends is labelled 1, 2, 5
LONG_CATEGORIES = 95  # characters on the axis from which its labels lean


@dataclass(frozen=True)
class Range:
    """A row of `horizontal_ranges`: the published range (None where nothing is published), ours by name."""

    label: str
    low: float | None
    high: float | None
    ours: Mapping[str, float] = field(default_factory=dict)


def grouped_bars(
    title: str,
    categories: Sequence[str],
    series: Values,
    *,
    xlabel: str,
    ylabel: str,
    caption: str = "",
    log_y: bool = False,
) -> Figure:
    """For each category one bar per series, side by side; None leaves a gap."""
    check(title, chain(*series.values()), {"x": xlabel}, {"y": ylabel}, positive=log_y)
    check_series(title, series, len(categories))

    def draw(axes: Any) -> Handles:
        handles: Handles = {}
        width = 0.8 / len(series)
        for nth, (name, values) in enumerate(series.items()):
            left = (nth - (len(series) - 1) / 2) * width
            known = [(place + left, value) for place, value in enumerate(values) if value is not None]
            xs, ys = [x for x, _ in known], [y for _, y in known]
            handles[name] = bars = axes.bar(xs, ys, width * 0.94, **_fill(nth))
            if len(series) * len(categories) <= MOST_VALUE_LABELS:
                axes.bar_label(bars, [tick(y, 3) for y in ys], padding=2, fontsize=8.5, color=MUTED)
        scale(axes, log_y=log_y)
        _name_categories(axes, categories)
        return handles

    return figure(title, caption, xlabel, ylabel, draw)


def stacked_bars(
    title: str, categories: Sequence[str], series: Values, *, xlabel: str, ylabel: str, caption: str = ""
) -> Figure:
    """For each category one bar made of its parts, none of them negative."""
    check(title, chain(*series.values()), {"x": xlabel}, {"y": ylabel})
    check_series(title, series, len(categories))
    if any(value is not None and value < 0 for value in chain(*series.values())):
        raise ValueError(f"figure {title!r}: a part of a bar is negative")

    def draw(axes: Any) -> Handles:
        handles: Handles = {}
        base = [0.0] * len(categories)
        for nth, (name, values) in enumerate(series.items()):
            parts = [float(value or 0) for value in values]
            handles[name] = axes.bar(range(len(parts)), parts, 0.6, bottom=base, **_fill(nth))
            base = [low + part for low, part in zip(base, parts, strict=True)]
        scale(axes)
        _name_categories(axes, categories)
        return handles

    return figure(title, caption, xlabel, ylabel, draw)


def lines(
    title: str,
    series: Points,
    *,
    xlabel: str,
    ylabel: str,
    caption: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """One line with markers per series of (x, y) points; a few points on a log axis are its ticks."""
    xs, ys = ([point[axis] for points in series.values() for point in points] for axis in (0, 1))
    check(title, xs, {}, {"x": xlabel}, positive=log_x)
    check(title, ys, {}, {"y": ylabel}, positive=log_y)
    check_count(title, len(series) if all(series.values()) else 0)

    def draw(axes: Any) -> Handles:
        handles: Handles = {}
        for nth, (name, points) in enumerate(series.items()):
            dash = DASHES[nth // len(SERIES)]
            (handles[name],) = axes.plot(*zip(*points, strict=True), ls=dash, lw=2, ms=6, **_mark(nth))
        scale(axes, log_x, log_y)
        ticks = sorted(set(xs))
        if log_x and len(ticks) <= MOST_POINT_TICKS and all(b >= APART * a for a, b in pairwise(ticks)):
            axes.set_xticks(ticks)
        axes.grid(axis="y")
        return handles

    return figure(title, caption, xlabel, ylabel, draw)


def horizontal_ranges(
    title: str, rows: Sequence[Range], *, xlabel: str, ylabel: str, caption: str = "", log_x: bool = False
) -> Figure:
    """One row per quantity: the published range as a band, our values as points on it."""
    ours = list(dict.fromkeys(name for row in rows for name in row.ours))
    values = [value for row in rows for value in (row.low, row.high, *row.ours.values())]
    check(title, values, {"y": ylabel}, {"x": xlabel}, positive=log_x)
    check_count(title, max(len(ours), 1) if rows else 0)
    if wrong := [row.label for row in rows if (row.low is None) != (row.high is None)]:
        raise ValueError(f"figure {title!r}: range {wrong[0]!r} has only one end")

    def draw(axes: Any) -> Handles:
        handles: Handles = {}
        for place, row in enumerate(rows):
            if row.low is not None and row.high is not None:
                ends = [row.low, row.high], [place, place]
                (handles["published"],) = axes.plot(*ends, color=BAND, lw=15, solid_capstyle="butt")
                axes.plot(*ends, "|", color=MUTED, ms=15, mew=1.6)
            for name, value in row.ours.items():
                (handles[name],) = axes.plot(value, place, ls="", ms=8, **_mark(ours.index(name)))
        scale(axes, log_x)
        axes.grid(axis="x")
        axes.set_yticks(range(len(rows)), [clean(row.label) for row in rows], color=INK)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        return handles

    return figure(title, caption, xlabel, ylabel, draw, height_in=1.4 + 0.42 * len(rows))


def figure(
    title: str, caption: str, xlabel: str, ylabel: str, draw: Callable[[Any], Handles], height_in: float = 3.9
) -> Figure:
    def labelled(figure: Any, axes: Any) -> None:
        _legend(figure, draw(axes))
        axes.set_xlabel(clean(xlabel))
        axes.set_ylabel(clean(ylabel))

    return Figure(title, draw_svg(f"{title}: {ylabel} over {xlabel}", labelled, height_in), caption)


def _fill(nth: int) -> dict[str, object]:
    """The look of the n-th series of bars: a colour, hatched once the colours are used up."""
    hatch = "///" if nth >= len(SERIES) else None
    return {"color": SERIES[nth % len(SERIES)], "edgecolor": PAPER, "linewidth": 0.8, "hatch": hatch}


def _mark(nth: int) -> dict[str, object]:
    """The look of the n-th series of points: a colour and a shape."""
    marker = MARKERS[nth % len(MARKERS)]
    return {"color": SERIES[nth % len(SERIES)], "marker": marker, "mec": PAPER, "mew": 0.8}


def scale(axes: Any, log_x: bool = False, log_y: bool = False) -> None:
    """Set the scales, with plain numbers as ticks."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis, log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
        if log:
            axes.set(**{f"{axis.axis_name}scale": "log"})
            low, high = axis.get_view_interval()
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < SHORT_LOG * low else (1,)))
            axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: tick(value))


def tick(value: float, digits: int = 6) -> str:
    """A number in a drawing, without trailing zeros.

    >>> tick(0.25), tick(1500.0), tick(2e9), tick(-0.0)
    ('0.25', '1,500', '2 × 10⁹', '0')
    """
    mantissa, times, power = number(float(value), digits).partition(" × ")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + times + power


def _name_categories(axes: Any, categories: Sequence[str]) -> None:
    lean = sum(map(len, categories)) > LONG_CATEGORIES
    look: dict[str, object] = {"rotation": 25, "ha": "right", "rotation_mode": "anchor"} if lean else {}
    axes.set_xticks(range(len(categories)), [clean(name) for name in categories], color=INK, **look)
    axes.grid(axis="y")
    spare = 0.6 + max(0, FEW_CATEGORIES - len(categories)) / 2
    axes.set_xlim(-spare, len(categories) - 1 + spare)


def _legend(figure: Any, handles: Handles) -> None:
    """Name the series above the drawing, in as many columns as fit; a single one needs no legend."""
    if len(handles) < 2:
        return
    names = [clean(name) for name in handles]
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles.values(), names, loc="outside upper left", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def check(
    title: str,
    values: Iterable[float | None],
    words: Mapping[str, str],
    units: Mapping[str, str],
    positive: bool = False,
) -> None:
    """Title and labels are there, labels of numbers end in a unit, values can be drawn."""
    if not title.strip():
        raise ValueError("a figure needs a title")
    for axis, label in {**words, **units}.items():
        if not label.strip():
            raise ValueError(f"figure {title!r}: the {axis} axis needs a label")
        if axis in units and not re.search(r"\S \[[^\[\]\s][^\[\]]*\]$", label):
            raise ValueError(f"figure {title!r}: {axis} label {label!r} must end in a unit, like [µs] or [-]")
    for value in values:
        if value is not None and (not math.isfinite(value) or (positive and value <= 0)):
            raise ValueError(f"figure {title!r}: cannot draw {value}" + " on a log axis" * positive)


def check_series(title: str, series: Values, length: int) -> None:
    """Every series has one value per category."""
    check_count(title, len(series) if length else 0)
    for name, values in series.items():
        if len(values) != length:
            problem = f"series {name!r} has {len(values)} values for {length} categories"
            raise ValueError(f"figure {title!r}: {problem}")


def check_count(title: str, count: int) -> None:
    if not count:
        raise ValueError(f"figure {title!r} has nothing to draw")
    if count > MOST_SERIES:
        raise ValueError(f"figure {title!r} has {count} series; at most {MOST_SERIES} can be told apart")
