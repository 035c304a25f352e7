"""The first lines of the page: a sentence and a few numbers, in the page's words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.reports.page import Card, number
from pimloom.reports.sweep.findings import Findings
from pimloom.reports.sweep.units import label_of, unit_of
from pimloom.sweeping.alike import sentence
from pimloom.sweeping.sweep_table import SweepTable

WAYS = {"min": "lowest", "max": "highest"}
MOST_SETTINGS = 8
OF_FRONT = "Fronts compare energies over the same cells only."


def headline(table: SweepTable, findings: Findings) -> str:
    """How many points there are, how many are feasible and on the front, and the best of each objective."""
    front, feasible = int(findings.front.sum()), int(findings.feasible.sum())
    parts = [counted(findings.count, "point"), f"{number(feasible)} feasible"]
    if table.objectives:
        parts.append(f"{number(front)} {_front(table, findings)}")
    if failed := findings.count - int(findings.finished.sum()):
        parts.append(f"{number(failed)} failed")
    best = [_best(table, findings, name, row) for name, row in _only_best(findings).items()]
    if table.objectives and len(findings.workloads) > 1:
        names = " and ".join(f"`{label_of(axis)}`" for axis in table.workload)
        best = [f"Points are compared only with points of the same {names}."]
    return " ".join([", ".join(parts) + ".", *best, *open_lines(findings)])


def open_lines(findings: Findings) -> list[str]:
    """Why no point is best in an objective that reads an energy: a sentence for each different reason, and one on the
    front."""
    said = dict.fromkeys(sentence(f"`{name}`", why) for each in findings.open for name, why in each.items())
    return [*said, *([OF_FRONT] if said else [])]


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
    for name, row in _only_best(findings).items():
        unit = unit_of(name)
        value = float(findings.columns[name].numbers()[row])
        shown = value if math.isfinite(value) else str(value)
        title = f"{WAYS[table.objectives[name]].capitalize()} {label_of(name)}"
        found.append(Card(title, shown, "" if unit == "-" else unit, f"point {number(row + 1)}"))
    return found


def bests(table: SweepTable, findings: Findings) -> list[dict[str, Any]]:
    """Of each of several workloads its points and, by objective, the best value and its design, as texts."""
    if len(findings.workloads) < 2 or not table.objectives:
        return []
    designs = [axis for axis in table.axes if axis not in table.workload]
    return [
        {
            "workload": _settings(findings, table.workload, int(work.rows[0])),
            "feasible": int(findings.feasible[work.rows].sum()),
            "front": int(findings.front[work.rows].sum()),
            "best": [
                (value_text(findings, name, work.best[name]), _settings(findings, designs, work.best[name]))
                if name in work.best
                else ("–", "")
                for name in table.objectives
            ],
        }
        for work in findings.workloads
    ]


def _only_best(findings: Findings) -> Mapping[str, int]:
    """The best rows by objective; none where several workloads would have to be compared."""
    return findings.workloads[0].best if len(findings.workloads) == 1 else {}


def _front(table: SweepTable, findings: Findings) -> str:
    count = len(findings.workloads)
    if len(table.objectives) < 2:
        return "best" if count == 1 else f"best of {number(count)} workloads"
    return "on the front" if count == 1 else f"on the fronts of {number(count)} workloads"


def _settings(findings: Findings, axes: Sequence[str], row: int) -> str:
    return ", ".join(f"{label_of(axis)} = {value_text(findings, axis, row)}" for axis in axes)


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
