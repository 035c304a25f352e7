"""A figure of what is busy when: rows of bars over time, coloured by kind."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pimloom.reports.figures import tick
from pimloom.reports.page import Figure
from pimloom.reports.svg import INK, MUTED, PAPER, SERIES, clean, draw_svg

ORDER = (0, 1, 2, 3, 4, 5, 7, 6)  # neighbours in a legend differ


class Span(NamedTuple):
    """Something that lasts from `start` to `end`, of a kind that the legend names."""

    start: float
    end: float
    kind: str


def spans(
    title: str,
    rows: Mapping[str, Sequence[Span]],
    *,
    xlabel: str,
    marks: Mapping[str, float] | None = None,
    caption: str = "",
) -> Figure:
    """Bars of each row, rows from top to bottom. marks: names that stand above the drawing at these times.

    Raises ValueError if there is nothing to draw, a span ends before it starts, or there are too many kinds.
    """
    kinds = list(dict.fromkeys(span.kind for row in rows.values() for span in row))
    if not kinds or len(kinds) > len(SERIES):
        raise ValueError(f"figure {title!r} has {len(kinds)} kinds of spans; 1 to {len(SERIES)} can be told apart")
    if wrong := [span for row in rows.values() for span in row if not span.start <= span.end]:
        raise ValueError(f"figure {title!r}: {wrong[0]} ends before it starts")

    def draw(figure: Any, axes: Any) -> None:
        handles = {}
        for place, row in enumerate(rows.values()):
            for nth, kind in enumerate(kinds):
                if bars := [(s.start, s.end - s.start) for s in row if s.kind == kind]:
                    handles[kind] = axes.broken_barh(bars, (place - 0.38, 0.76), color=SERIES[ORDER[nth]], linewidth=0)
        for name, at in (marks or {}).items():
            axes.axvline(at, color=MUTED, lw=0.8, ls=":")
            axes.text(at, -0.62, f" {clean(name)}", color=MUTED, fontsize=9, va="bottom")
        axes.set_yticks(range(len(rows)), [clean(name) for name in rows], color=INK)
        axes.set_ylim(len(rows) - 0.4, -1.1 if marks else -0.6)
        axes.xaxis.set_major_formatter(lambda value, _: tick(value))
        axes.set_xlabel(clean(xlabel))
        ordered = [kind for kind in kinds if kind in handles]
        patches = [_swatch(SERIES[ORDER[kinds.index(kind)]]) for kind in ordered]
        figure.legend(patches, map(clean, ordered), loc="outside upper left", ncols=4)

    return Figure(title, draw_svg(f"{title}: over {xlabel}", draw, 1.5 + 0.3 * len(rows)), caption)


def _swatch(colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, edgecolor=PAPER)
