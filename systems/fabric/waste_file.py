"""Waste of fabrics, as `systems.fabric.waste` finds it and `pimloom fabric waste --csv` writes it."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pimloom.arch.document import TABLE_BYTES, read_text, short
from pimloom.arch.error import UserError

Number = TypeVar("Number", int, float)


class WastePoint(NamedTuple):
    """Shares of all GPUs of a cluster that are faulty as asked, and healthy but in no group of `tp`; GPUs in groups.

    Waste and groups are means over the same draws, in which the faulty share need not be just what was asked.
    """

    arch: str
    gpus: int
    gpus_per_node: int
    tp: int
    fault_ratio: float
    waste_ratio_mean: float
    usable_gpus_mean: float


def read_waste(path: Path) -> list[WastePoint]:
    """The rows of a CSV that has (at least) the fields of `WastePoint` as columns, and a waste. Raises UserError."""
    reader = csv.DictReader(io.StringIO(read_text(path, TABLE_BYTES)), strict=True)
    points = []
    try:
        if missing := [name for name in WastePoint._fields if name not in (reader.fieldnames or ())]:
            raise UserError(f"{path}:1: no column {missing[0]}; expected what `pimloom fabric waste --csv` writes")
        for row in reader:
            if row["waste_ratio_mean"] == "":  # the fabric cannot be built of such nodes
                continue
            points.append(_point(row, f"{path}:{reader.line_num}"))
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not points:
        raise UserError(f"{path}: no rows below the heading; expected what `pimloom fabric waste --csv` writes")
    return points


def _point(row: dict[str, str], where: str) -> WastePoint:
    def read(kind: Callable[[str], Number], key: str, low: float, high: float) -> Number:
        text = row[key]
        try:
            value = kind(text)
        except (TypeError, ValueError):
            value = kind("-1")
        if not isfinite(value) or not low <= value <= high:
            what = "an integer" if kind is int else "a number"
            raise UserError(f"{where}: {key} {short(str(text))!r}: expected {what} from {low:g} to {high:g}")
        return value

    gpus, each, tp = (read(int, key, 1, 2**31) for key in ("gpus", "gpus_per_node", "tp"))
    faulty, wasted = (read(float, key, 0, 1) for key in ("fault_ratio", "waste_ratio_mean"))
    usable = read(float, "usable_gpus_mean", 0, gpus)
    return WastePoint(row["arch"] or "", gpus, each, tp, faulty, wasted, usable)


def points_of(rows: Sequence[Mapping[str, Any]]) -> list[WastePoint]:
    """Rows of `systems.fabric.waste` as points; those without a waste are left out."""
    return [
        WastePoint(*(row[name] for name in WastePoint._fields)) for row in rows if row["waste_ratio_mean"] is not None
    ]
