"""A timeline as inline SVG for notebooks: a lane for each resource, a bar for each operator, a time axis with its unit.

Text takes the colour of the page around it; the bars' colours read on white and on black. Nothing is fetched.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

from pimloom.arch.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US
from pimloom.systems.operator_kinds import OTHER, operator_kind

COLOURS = {
    "attention": "#6f8fd0",
    "K and V writes": "#3fa796",
    "QKV and projection": "#d98b45",
    "FFN": "#a778c9",
    "links": "#d0607c",
    "kernel launches": "#8d949c",
    "embedding and LM head": "#5aa9c4",
    OTHER: "#a89a3c",
}
UNITS = (("s", PS_PER_S), ("ms", PS_PER_MS), ("µs", PS_PER_US), ("ns", PS_PER_NS), ("ps", 1))
WIDTH_PX, RIGHT_PX, LANE_PX, BAR_PX, AXIS_PX, LEGEND_PX = 880, 34, 22, 14, 36, 20
CHARACTER_PX, LONGEST_LABEL = 6.7, 34  # of sans-serif at 12 px, a wide one
THIN_PX = 0.7  # of bars that are joined with their like
TICKS = 6


class Bar(NamedTuple):
    """An operator from `start_ps` to `end_ps`."""

    start_ps: int
    end_ps: int
    operator: str


class Box(NamedTuple):
    """A bar of the drawing: where, of which kind, and what it says when pointed at."""

    x: float
    width: float
    kind: str
    says: str


def timeline_svg(title: str, lanes: Mapping[str, Sequence[Bar]], until_ps: int) -> str:
    """The lanes from top to bottom, from 0 to `until_ps`; what lies behind is left out. title: for screen readers."""
    labels = {name: name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…" for name in lanes}
    unit, per_unit = next((name, ps) for name, ps in UNITS if until_ps >= ps or ps == 1)
    axis = f"time [{unit}]"
    left = round(CHARACTER_PX * max(map(len, [axis, *labels.values()]))) + 24
    scale = (WIDTH_PX - left - RIGHT_PX) / max(until_ps, 1)
    boxes = {
        name: list(_boxes([bar for bar in bars if bar.start_ps < until_ps], until_ps, scale, unit, per_unit))
        for name, bars in lanes.items()
    }
    used = {box.kind for row in boxes.values() for box in row}
    legend, top = _legend([kind for kind in COLOURS if kind in used], left)
    bottom = top + LANE_PX * len(lanes)
    pieces = [legend]
    for at in _ticks(until_ps / per_unit):
        x = left + at * per_unit * scale
        pieces.append(
            f'<path d="M{x:.1f} {top}V{bottom + 4}" stroke="currentColor" stroke-opacity="0.2"/>'
            f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{at:,.10g}</text>'
        )
    pieces.append(f'<text x="{left - 20}" y="{bottom + 17}" text-anchor="end">{axis}</text>')
    for nth, (name, row) in enumerate(boxes.items()):
        y = top + nth * LANE_PX
        pieces.append(
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(labels[name])}'
            f"<title>{escape(name)}</title></text>"
        )
        pieces += [
            f'<rect x="{left + box.x:.2f}" y="{y + (LANE_PX - BAR_PX) // 2}" width="{box.width:.2f}" '
            f'height="{BAR_PX}" fill="{COLOURS[box.kind]}"><title>{escape(box.says)}</title></rect>'
            for box in row
        ]
    height = bottom + AXIS_PX - 10
    look = 'font-size="12" fill="currentColor" font-family="sans-serif"'
    size = f'width="{WIDTH_PX}" height="{height}" viewBox="0 0 {WIDTH_PX} {height}"'
    named = f'role="img" aria-label="{escape(title)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {named} {size} {look}>{"".join(pieces)}</svg>'


def _boxes(bars: Sequence[Bar], until_ps: int, scale: float, unit: str, per_unit: int) -> Iterator[Box]:
    """Bars by start, the longer first, so that none hides another; thin neighbours of a kind are one."""
    joined: list[Bar] = []
    for bar in [*sorted(bars, key=lambda bar: (bar.start_ps, -bar.end_ps)), None]:
        if bar and joined and _like(joined, bar, scale):
            joined.append(bar)
            continue
        if joined:
            start, end = joined[0].start_ps, max(each.end_ps for each in joined)
            names = list(dict.fromkeys(each.operator for each in joined))
            said = names[0] if len(names) == 1 else f"{len(joined)} operators, {names[0]} to {names[-1]}"
            times = f"{start / per_unit:,.6g} to {end / per_unit:,.6g} {unit}"
            took = f"{(end - start) / per_unit:,.4g} {unit}"
            width = max((min(end, until_ps) - start) * scale, 0.4)
            yield Box(start * scale, width, operator_kind(names[0]), f"{said}: {times}, {took}")
        joined = [bar] if bar else []


def _like(joined: Sequence[Bar], bar: Bar, scale: float) -> bool:
    """Whether a bar is thin and begins where those before it end, which are of its kind."""
    before = joined[-1]
    gap = (bar.start_ps - before.end_ps) * scale
    thin = max(bar.end_ps - bar.start_ps, before.end_ps - before.start_ps) * scale < THIN_PX
    return thin and abs(gap) < THIN_PX and operator_kind(before.operator) == operator_kind(bar.operator)


def _legend(kinds: Sequence[str], left: int) -> tuple[str, int]:
    """Swatches with names in as many lines as they need, and the height that they take."""
    pieces, x, y = list[str](), left, 4
    for kind in kinds:
        width = 16 + round(CHARACTER_PX * len(kind)) + 14
        if x > left and x + width > WIDTH_PX:
            x, y = left, y + LEGEND_PX
        pieces.append(
            f'<rect x="{x}" y="{y}" width="11" height="11" fill="{COLOURS[kind]}"/>'
            f'<text x="{x + 16}" y="{y + 10}">{escape(kind)}</text>'
        )
        x += width
    return "".join(pieces), y + LEGEND_PX


def _ticks(last: float) -> list[float]:
    """Round numbers from 0 to `last`.

    >>> _ticks(11.3), _ticks(0.7), _ticks(1000)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [0.0, 0.2, 0.4, 0.6], [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0])
    """
    if last <= 0:
        return [0.0]
    rough = last / TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * (1 - 1e-9))
    return [float(f"{n * step:.10g}") for n in range(int(last / step + 1e-9) + 1)]
