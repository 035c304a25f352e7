"""The report of a sweep: one HTML file that works offline, and the points beside it as CSV."""

import math
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pimloom.arch.files import prepare_folder, together, write_atomic
from pimloom.reports.page import TEMPLATES, number, prose
from pimloom.reports.sweep.csv_files import write_points
from pimloom.reports.sweep.findings import Findings, study
from pimloom.reports.sweep.headline import bests, cards, counted, headline, open_lines
from pimloom.reports.sweep.payload import ordered, payload, role_of, script_safe, without_values
from pimloom.reports.sweep.sensitivity import Indices
from pimloom.reports.sweep.units import meaning_of, unit_of
from pimloom.sweeping.sweep_table import SweepTable

__all__ = ["SweepTable", "write_report"]

SCRIPTS = ("data", "hover", "plot", "front", "parallel", "heat", "shares", "table", "start")


def write_report(table: SweepTable, folder: Path) -> Path:
    """Write `index.html`, `points.csv` and `pareto.csv` into `folder`, which is made if missing; the HTML's path.

    Raises UserError if a file cannot be written, ValueError for a table without one of its axes.
    """
    with together():
        folder = prepare_folder(folder)
        findings = study(table)
        write_points(folder / "points.csv", findings.columns, np.arange(findings.count))
        write_points(folder / "pareto.csv", findings.columns, np.flatnonzero(findings.front))
        write_atomic(folder / "index.html", render(table, findings))
    return folder / "index.html"


def render(table: SweepTable, findings: Findings) -> bytes:
    """The page as UTF-8. Its policy allows no request and no script but its own."""
    plots, tables, table_style = _libraries()
    script = "\n".join((TEMPLATES / f"sweep_{name}.js").read_text() for name in SCRIPTS)
    icon = (TEMPLATES / "icon.svg").read_text()
    html = (
        _environment()
        .get_template("sweep.html.j2")
        .render(
            table=table,
            findings=findings,
            headline=headline(table, findings),
            cards=cards(table, findings),
            bests=bests(table, findings),
            open_lines=open_lines(findings),
            indices=[_indices(name, found) for name, found in findings.sensitivities.items()],
            definitions=_definitions(table, findings),
            empty=without_values(table, findings),
            counted=counted,
            style=Markup("\n".join((TEMPLATES / name).read_text() for name in ("style.css", "sweep.css"))),
            table_style=Markup(table_style),
            table_script=Markup(tables),
            data=Markup(payload(table, findings)),
            plots=Markup(plots),
            script=Markup(script),
            hashes=[b64encode(sha256(text.encode()).digest()).decode() for text in (plots, script)],
            icon=b64encode(icon.encode()).decode(),
            logo=Markup(icon),
        )
    )
    return html.encode("utf-8", "replace")


@cache
def _libraries() -> tuple[str, str, str]:
    """Plotly's script; that of DataTables as a text, and its style."""
    from plotly.offline import get_plotlyjs

    bundle = files("itables").joinpath("html")
    tables, style = (bundle.joinpath(f"dt_bundle.{kind}").read_text() for kind in ("js", "css"))
    return _fits_a_script(get_plotlyjs()), script_safe(tables), style


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"prose": prose, "number": number}
    return made


def _fits_a_script(script: str) -> str:
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("plotly's script holds a tag that would end it; this version cannot be inlined")
    return script


def _indices(name: str, found: Indices | str) -> dict[str, Any]:
    """An objective's sensitivities as rows of a table, or `why` there are none."""
    if isinstance(found, str):
        return {"objective": name, "why": found, "rows": []}
    ranges = [None] * len(found.axes)
    mains = ranges if found.main_range is None else found.main_range
    totals = ranges if found.total_range is None else found.total_range
    rows = [
        {"axis": axis, "main": _share(main, low), "total": _share(total, high)}
        for axis, main, low, total, high in zip(found.axes, found.main, mains, found.total, totals, strict=True)
    ]
    return {"objective": name, "why": "", "rows": rows, "found": found}


def _share(value: float, interval: Any) -> str:
    text = f"{value:.3f}"
    return text if interval is None else f"{text} ({interval[0]:.3f} to {interval[1]:.3f})"


def _definitions(table: SweepTable, findings: Findings) -> list[dict[str, Any]]:
    """What each column is, in the order of the page."""
    found = []
    for column in ordered(table, findings):
        role = role_of(table, column.name)
        known = column.levels[np.isfinite(column.levels)] if column.numeric else column.levels
        values = f"{len(column.levels):,} texts" if len(column.levels) > 4 else ", ".join(map(str, known))
        if column.numeric:
            values = _span(known)
        found.append(
            {
                "name": column.name,
                "role": {"objective": f"objective, {table.objectives.get(column.name)}"}.get(role, role),
                "unit": (unit_of(column.name) or "–") if column.numeric else "text",
                "meaning": meaning_of(column.name, role, table.meanings),
                "values": values or "–",
            }
        )
    return found


def _span(levels: np.ndarray) -> str:
    if not len(levels):
        return "–"
    ends = [_short(float(end)) for end in (levels[0], levels[-1])]
    return ends[0] if len(levels) == 1 else " to ".join(ends)


def _short(value: float) -> str:
    return number(int(value)) if math.isfinite(value) and value.is_integer() and abs(value) < 1e7 else number(value)
