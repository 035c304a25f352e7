"""HTML of a result for notebooks: escaped, of one piece, in the colours of the page around it."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from numbers import Real
from typing import Any

from pimloom.arch.name_units import unit_of_name

MOST_ROWS = 20
MOST_BARS = 12
LONGEST_TEXT = 80
DRAWN = ("s", "cycles", "ps", "J", "pJ")  # units of the parts that are drawn as bars
WHOLES = ("stages_cyc", "operators_cyc")  # beside names with `_by_`: what their parts add up to means something
NAME_PX, BAR_PX, VALUE_PX, LINE_PX = 190, 260, 190, 18
FILL = "#6f8fd0"  # reads on white and on black
CELL = "text-align:{};padding:1px 8px;white-space:nowrap"


def page(
    title: str, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] | None, drawings: Sequence[str] = ()
) -> str:
    """A table of the plain fields in `about`, bars of parts of a time or an energy, a table of `rows`, and `drawings`,
    which are HTML."""
    plain, parts = dict[str, Any](), dict[str, Mapping[str, float]]()
    for name, value in _flat(about):
        if isinstance(value, Mapping):
            parts[name] = value
        else:
            plain[name] = value
    pieces = [f'<div class="pimloom"><b>{escape(title)}</b>']
    if plain:
        pieces.append(_table(["", "value", "unit"], [[k, _shown(v), unit_of_name(k) or ""] for k, v in plain.items()]))
    pieces += [bars(name, some) for name, some in parts.items()]
    if rows is not None:
        pieces.append(_rows(rows))
    pieces += drawings
    return "".join(pieces) + "</div>"


def bars(name: str, parts: Mapping[str, float]) -> str:
    """A bar for each part, the largest first, and one for all that would be too many; values in the unit of `name`."""
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    if len(ordered) > MOST_BARS:
        rest = ordered[MOST_BARS - 1 :]
        ordered = [*ordered[: MOST_BARS - 1], (f"{len(rest)} others", sum(value for _, value in rest))]
    total = sum(parts.values())
    most = max((value for _, value in ordered), default=0) or 1
    unit = unit_of_name(name) or ""
    lines = []
    for nth, (label, value) in enumerate(ordered):
        y = nth * LINE_PX
        width = max(value, 0) / most * BAR_PX
        share = f" ({100 * value / total:.1f} %)" if total else ""
        lines.append(
            f'<text x="{NAME_PX - 6}" y="{y + 13}" text-anchor="end">{escape(_short(label, 26))}</text>'
            f'<rect x="{NAME_PX}" y="{y + 3}" width="{width:.1f}" height="{LINE_PX - 6}" fill="{FILL}"/>'
            f'<text x="{NAME_PX + width + 5:.1f}" y="{y + 13}">{escape(_shown(value))}{share}</text>'
        )
    size = f'width="{NAME_PX + BAR_PX + VALUE_PX}" height="{LINE_PX * len(ordered)}"'
    look = 'font-size="12" fill="currentColor" font-family="sans-serif"'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {look}>{"".join(lines)}</svg>'
    return f"<div>{escape(name)}{escape(f' [{unit}]') if unit else ''}</div>{drawing}"


def _flat(about: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Fields with dotted names; parts of a time or an energy stay together, lists are told by their length."""
    for key, value in about.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            numbers = bool(value) and all(_is_number(each) for each in value.values())
            if numbers and unit_of_name(name) in DRAWN and ("_by_" in key or key in WHOLES):
                yield name, value
            else:
                yield from _flat(value, f"{name}.")
        elif isinstance(value, list | tuple) and value:
            yield name, f"{len(value):,} values"
        else:
            yield name, value


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    flat = [dict(_flat(row)) for row in rows[:MOST_ROWS]]
    columns = list(dict.fromkeys(name for row in flat for name, value in row.items() if not isinstance(value, Mapping)))
    table = _table(columns, [[_shown(row.get(name)) for name in columns] for row in flat])
    more = len(rows) - MOST_ROWS
    return table + (f"<div>and {more:,} more rows</div>" if more > 0 else "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th style="{CELL.format("left")}">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(_cell(text) for text in row) + "</tr>" for row in rows)
    look = "border-collapse:collapse;color:inherit;background:none"
    return f'<table style="{look}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(text: str) -> str:
    side = "right" if text[:1].isdigit() or text[:1] == "-" and text[1:2].isdigit() else "left"
    return f'<td style="{CELL.format(side)}">{escape(_short(text, LONGEST_TEXT))}</td>'


def _shown(value: object) -> str:
    """
    >>> [_shown(value) for value in (None, True, 1234567, 0.000123456789, "a")]
    ['–', 'yes', '1,234,567', '0.000123457', 'a']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
