"""The first lines of the page: a sentence and a few numbers, in the page's words."""

import math

from pimloom.reports.page import Card, number
from pimloom.reports.sweep.findings import Findings
from pimloom.reports.sweep.table import SweepTable
from pimloom.reports.sweep.units import label_of, unit_of

WAYS = {"min": "lowest", "max": "highest"}
MOST_SETTINGS = 8


def headline(table: SweepTable, findings: Findings) -> str:
    """How many points there are, how many are feasible and on the front, and the best of each objective."""
    front, feasible = int(findings.front.sum()), int(findings.feasible.sum())
    parts = [counted(findings.count, "point"), f"{number(feasible)} feasible"]
    if table.objectives:
        parts.append(f"{number(front)} on the front" if len(table.objectives) > 1 else f"{number(front)} best")
    if failed := findings.count - int(findings.finished.sum()):
        parts.append(f"{number(failed)} failed")
    best = [_best(table, findings, name, row) for name, row in findings.best.items()]
    return " ".join([", ".join(parts) + ".", *best])


def cards(table: SweepTable, findings: Findings) -> list[Card]:
    """The same as numbers for the top of the page."""
    finished = int(findings.finished.sum())
    asked = table.facts.get("points asked", "")
    found = [
        Card("Points", findings.count, "", f"{number(int(asked))} asked for" if asked.isdecimal() else ""),
        Card("Feasible", int(findings.feasible.sum()), "", _constraints(table)),
        Card("Failed", findings.count - finished, "", "listed below" if finished < findings.count else ""),
    ]
    if len(table.objectives) > 1:
        found.insert(2, Card("On the front", int(findings.front.sum()), "", f"of {len(table.objectives)} objectives"))
    for name, row in findings.best.items():
        unit = unit_of(name)
        value = float(findings.columns[name].numbers()[row])
        shown = value if math.isfinite(value) else str(value)
        title = f"{WAYS[table.objectives[name]].capitalize()} {label_of(name)}"
        found.append(Card(title, shown, "" if unit == "-" else unit, f"point {number(row + 1)}"))
    return found


def counted(count: int, word: str) -> str:
    """`1 point`, `2,000 points`."""
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


def value_text(findings: Findings, name: str, row: int) -> str:
    """A value with its unit, as a sentence has it."""
    column, unit = findings.columns[name], unit_of(name)
    if not column.numeric:
        return str(column.value(row))
    value = float(column.numbers()[row])
    text = number(value) if math.isfinite(value) and not value.is_integer() else f"{value:,.10g}"
    return text if unit in ("", "-") else f"{text} {unit}"


def _best(table: SweepTable, findings: Findings, name: str, row: int) -> str:
    settings = [f"`{label_of(axis)}` = {value_text(findings, axis, row)}" for axis in table.axes[:MOST_SETTINGS]]
    more = ", …" if len(table.axes) > MOST_SETTINGS else ""
    where = f", at {', '.join(settings)}{more}" if settings else ""
    way = WAYS[table.objectives[name]]
    return f"The {way} `{label_of(name)}` is {value_text(findings, name, row)}{where}."


def _constraints(table: SweepTable) -> str:
    return " and ".join(table.constraints) if table.constraints else "no constraints"
