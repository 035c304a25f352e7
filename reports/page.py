"""A report page: what a study says, and the one HTML file that shows it.

A study fills the dataclasses below; `render` turns them into HTML that needs nothing from outside. All text
is escaped. Only `pimloom.reports.figures` makes `Markup`, so only its SVG reaches the page as it is.
In paragraphs, captions and notes, `text between backticks` is set as code; an empty line starts a paragraph.
"""

import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeGuard

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
VERDICTS = ("FAIL", "deviates", "report only", "pass")  # in the order in which a table sorts them
MISSING = "–"
SHORT = 12  # characters of a cell that are not broken
LONG = 40  # a longer text has a wide column on a narrow screen, too
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Figure:
    """A drawing, made by a function of `pimloom.reports.figures`."""

    kind: ClassVar[str] = "figure"
    title: str
    svg: Markup
    caption: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its cells, its heading, and how numbers look.

    Numbers show `digits` significant digits, or follow `format`, such as `,.2f`. With `verdict=True` the
    cells are words of VERDICTS, shown as badges. Numbers stand right unless `align` says otherwise.
    """

    key: str
    label: str
    unit: str = ""
    align: Literal["", "left", "right"] = ""
    digits: int = 4
    format: str = ""
    verdict: bool = False


@dataclass(frozen=True)
class TableData:
    """A sortable table; every row has a value, or None, for every column."""

    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]
    caption: str = ""


@dataclass(frozen=True)
class Notes:
    """A list of sentences, such as the assumptions behind a result."""

    kind: ClassVar[str] = "notes"
    title: str
    items: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A chapter of the page; `anchor` is its address after the `#`."""

    title: str
    anchor: str
    intro: str = ""
    blocks: Sequence[Figure | TableData | Notes] = ()


class Card(NamedTuple):
    """One number for the top of the page."""

    label: str
    value: object
    unit: str = ""
    note: str = ""


class ClaimLine(NamedTuple):
    """One figure of a claim: our value and the published one, as printed. basis: as of a check; a figure that is not
    predicted is marked and not judged."""

    what: str
    ours: str
    published: str
    unit: str = ""
    basis: str = "predicted"


@dataclass(frozen=True)
class Claim:
    """The headline claim of a paper, the first card of its study: whether it is reproduced, and one sentence why.
    missed: a prediction lies outside; neither: it cannot be judged.

    heading, theirs: over the card and over the published values, where these are another's than the paper's.
    """

    lines: Sequence[ClaimLine]
    reproduced: bool
    why: str
    heading: str = "The paper's headline claim"
    theirs: str = "published"
    missed: bool = False


@dataclass(frozen=True)
class Page:
    """A whole report, the claim before the other cards. `facts` close it: version, digest, seed, command line."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    summary_cards: Sequence[Card | tuple[str, object, str, str]] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    claim: Claim | None = None


@dataclass(frozen=True)
class Cell:
    """A cell as the template shows it: text, the value it sorts by, and its look."""

    text: str
    sort: str
    look: str


def render(page: Page) -> str:
    """The page as one HTML document.

    Raises ValueError for what would mislead a reader: a value that is not finite, a row without one of the
    columns, an unknown verdict, two sections with one anchor, one figure twice.
    """
    _check(page)
    style, script, icon = ((TEMPLATES / name).read_text() for name in ("style.css", "sort.js", "icon.svg"))
    html = (
        _environment()
        .get_template("report.html.j2")
        .render(
            page=page,
            cards=[Card(*card) for card in page.summary_cards],
            style=Markup(style),
            script=Markup(script),
            script_hash=b64encode(sha256(script.encode()).digest()).decode(),
            icon=b64encode(icon.encode()).decode(),
            logo=Markup(icon),
        )
    )
    return html.encode("utf-8", "replace").decode()


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # commands with a figure alone do without

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"prose": prose, "number": number, "cell": _cell, "looks": _looks}
    return made


def number(value: object, digits: int = 4, format: str = "") -> str:
    """A value as text: `digits` significant digits with thousands commas, words as they are.

    >>> number(1234567), number(0.0123), number(-2.5, 2), number(6.02214e23), number(True), number(None)
    ('1,234,567', '0.01230', '−2.5', '6.022 × 10²³', 'yes', '–')
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, Real):
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number to show")
    text = f"{value:{format}}" if format else _significant(value, digits)
    return text.replace("-", "−", 1) if text.startswith("-") else text


def prose(text: str) -> Markup:
    """Escaped paragraphs with `code` between backticks."""
    paragraphs = (str(escape(part.strip())) for part in re.split(r"\n\s*\n", text.strip()))
    return Markup("".join(f"<p>{_code(part)}</p>" for part in paragraphs if part))


def _code(escaped: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)


def _significant(value: Real, digits: int) -> str:
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if value == 0:
        return "0"
    mantissa, power = f"{float(value):.{digits - 1}e}".split("e")
    exponent = int(power)
    if -4 <= exponent <= 6:
        return f"{float(value):,.{max(digits - 1 - exponent, 0)}f}"
    return f"{mantissa} × 10{str(exponent).translate(SUPERSCRIPT)}"


def _cell(value: object, column: Column, look: str) -> Cell:
    if column.verdict and value is not None:
        verdict = str(value)
        return Cell(verdict, str(VERDICTS.index(verdict)), f"badge {verdict.replace(' ', '-').lower()}")
    if _is_number(value):
        return Cell(number(value, column.digits, column.format), repr(float(value)), look)
    text = number(value)
    size = "" if look != "left" else " short" if len(text) <= SHORT else " long" if len(text) > LONG else ""
    return Cell(text, "" if value is None else str(value), look + size)


def _looks(table: TableData) -> list[tuple[Column, str]]:
    """Each column with the side on which it stands: right if there is a number in it."""
    return [(column, column.align or _side(table.rows, column.key)) for column in table.columns]


def _side(rows: Sequence[Mapping[str, object]], key: str) -> str:
    return "right" if any(_is_number(row[key]) for row in rows) else "left"


def _is_number(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check(page: Page) -> None:
    anchors = [section.anchor for section in page.sections]
    if bad := [anchor for anchor in anchors if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", anchor)]:
        raise ValueError(f"anchor {bad[0]!r} must be lower-case words joined by hyphens")
    _check_unique(anchors, "anchor")
    blocks = [block for section in page.sections for block in section.blocks]
    _check_unique([str(block.svg) for block in blocks if isinstance(block, Figure)], "figure")
    for block in blocks:
        if isinstance(block, TableData):
            _check_table(block)


def _check_unique(values: Sequence[str], what: str) -> None:
    value, times = Counter(values).most_common(1)[0] if values else ("", 1)
    if times > 1:
        raise ValueError(f"one {what} stands on the page {times} times: {value[:120]}")


def _check_table(table: TableData) -> None:
    for place, row in enumerate(table.rows, start=1):
        for column in table.columns:
            where = f"table {table.title!r}, row {place}, column {column.key!r}"
            if column.key not in row:
                raise ValueError(f"{where} is missing")
            value = row[column.key]
            if isinstance(value, Real) and not math.isfinite(value):
                raise ValueError(f"{where} is {value}")
            if column.verdict and value is not None and value not in VERDICTS:
                raise ValueError(f"{where} must be one of {', '.join(VERDICTS)}, not {value!r}")
