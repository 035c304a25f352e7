"""The data of a page as one JSON text: each column once, numbers in binary, so that no digit is lost.

A column has either `floats` (base64 of little-endian float64), or `levels` and `codes` (base64 of unsigned integers of
`width` bytes; a code beyond the levels means no value). Codes that count up from 0 are left out.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from pimloom.reports.sweep.findings import Findings
from pimloom.reports.sweep.sensitivity import Indices
from pimloom.reports.sweep.units import label_of, meaning_of, unit_of
from pimloom.sweeping.columns import Column
from pimloom.sweeping.sweep_table import SweepTable

MOST_LEVELS = 4096  # more distinct numbers than this go as floats
RECORDS = ("point", "base_digest", "spec_digest", "code_digest", "version", "seed", "wall_s", "host", "finished_utc")
ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def payload(table: SweepTable, findings: Findings) -> str:
    """JSON that may stand inside a `<script>`: it has none of the signs < > &."""
    columns = ordered(table, findings)
    names = [column.name for column in columns]
    data = {
        "rows": findings.count,
        "columns": [_column(column, role_of(table, column.name), table.meanings) for column in columns],
        "axes": [names.index(axis) for axis in table.axes],
        "workload": [names.index(axis) for axis in table.workload],
        "objectives": [
            {"column": names.index(name), "direction": way} for name, way in table.objectives.items() if name in names
        ],
        "sensitivities": [_indices(name, found) for name, found in findings.sensitivities.items()],
    }
    return script_safe(data)


def script_safe(value: object) -> str:
    """`value` as ASCII JSON that no HTML parser takes for markup; NaN and infinity raise ValueError."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def role_of(table: SweepTable, name: str) -> str:
    """What a column is for: axis, objective, mark, record or result."""
    if name in table.axes:
        return "axis"
    if name in table.objectives:
        return "objective"
    if name in ("front", "feasible", "error"):
        return "mark"
    return "record" if name in RECORDS else "result"


def ordered(table: SweepTable, findings: Findings) -> list[Column]:
    """The columns of the page in its order: marks, axes, objectives, other results that have a value in some point,
    error, records."""
    marks = [_mark("front", findings.front), _mark("feasible", findings.feasible)]
    others = {name: column for name, column in findings.columns.items() if name not in ("front", "feasible", "pareto")}
    first = dict.fromkeys([*table.axes, *(name for name in table.objectives if name in others)])
    empty = without_values(table, findings)
    results = [name for name in others if name not in {*first, *empty} and role_of(table, name) == "result"]
    last = [name for name in others if name not in first and role_of(table, name) != "result"]
    last.sort(key=lambda name: name != "error")
    return [*marks, *(others[name] for name in (*first, *results, *last))]


def without_values(table: SweepTable, findings: Findings) -> list[str]:
    """Names of results that have no value in any point, such as results of requests in a sweep of goodput."""
    return [
        name
        for name, column in findings.columns.items()
        if role_of(table, name) == "result"
        and name != "pareto"
        and not (np.isfinite(column.levels).any() if column.numeric else len(column.levels))
    ]


def _mark(name: str, mask: np.ndarray) -> Column:
    return Column(name, np.array(["no", "yes"], dtype=object), mask.astype(np.int32))


def _column(column: Column, role: str, meanings: Mapping[str, str]) -> dict[str, Any]:
    about = {
        "name": column.name,
        "label": label_of(column.name),
        "unit": unit_of(column.name) if column.numeric else "",
        "meaning": meaning_of(column.name, role, meanings),
        "role": role,
        "numeric": column.numeric,
    }
    if column.numeric and (len(column.levels) > MOST_LEVELS or not np.isfinite(column.levels).all()):
        return about | {"floats": _base64(column.numbers().astype("<f8"))}
    width = next(width for width in (1, 2, 4) if len(column.levels) < 256**width)
    levels = [_whole(level) for level in column.levels.tolist()]
    if np.array_equal(column.codes, np.arange(len(column.codes))):
        return about | {"levels": levels}
    codes = np.where(column.codes < 0, len(levels), column.codes).astype(f"<u{width}")
    return about | {"levels": levels, "width": width, "codes": _base64(codes)}


def _whole(level: float | str) -> float | int | str:
    return int(level) if isinstance(level, float) and level.is_integer() else level


def _base64(array: np.ndarray) -> str:
    return b64encode(array.tobytes()).decode()


def _indices(name: str, found: Indices | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"objective": name, "why": found}
    ranges = {} if found.main_range is None else {"main_range": found.main_range, "total_range": found.total_range}
    arrays = {"main": found.main, "total": found.total} | ranges
    lists = {key: np.asarray(array).tolist() for key, array in arrays.items()}
    return {"objective": name, "axes": list(found.axes), **lists}
