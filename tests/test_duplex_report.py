"""The study of Duplex: what it writes, and that it says so if its gate does not hold."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from markupsafe import escape

from pimloom.arch.duplex import load_duplex
from pimloom.arch.error import GateError
from pimloom.energy.duplex import COLUMN_PJ
from pimloom.reports.duplex import gates, study
from pimloom.reports.duplex.grid import GRID, GridPoint, GridRow, decode_grid
from pimloom.reports.duplex.load import SYSTEMS, Loaded
from pimloom.reports.duplex.measured import ratios_of_s, rows_of


@cache
def decoded() -> tuple[GridRow, ...]:
    """All points, one step each, with an ideal memory."""
    return tuple(decode_grid(load_duplex(), GRID, steps=1, memory="ideal", contention=False))


def quick() -> Iterator[GridRow]:
    """With it units in banks are not far enough ahead on GLaM."""
    for row in decoded():
        ahead = row.system == "Bank-PIM" and row.point.model == "glam-143b"
        yield row._replace(tokens_per_s=row.tokens_per_s * (2 if ahead else 1))


def own(point: GridPoint, *, contention: bool) -> list[GridRow]:
    return list(decode_grid(load_duplex(), [point], steps=1, memory="ideal", contention=contention))


def served() -> Iterator[Loaded]:
    for n, name in enumerate(SYSTEMS, 1):
        yield Loaded(name, 100 * n, 10 / n, 50 * n, 4000)


def test_the_study_is_written_and_says_if_its_gate_does_not_hold(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(study, "as_s", quick)
    monkeypatch.setattr(study, "own", own)
    monkeypatch.setattr(study, "loaded", served)
    seen: list[tuple[int, int]] = []
    page = study.run_study(tmp_path / "a", lambda done, total: seen.append((done, total)))
    assert seen[-1] == (73, 73)
    found = json.loads((tmp_path / "a" / "results.json").read_text())
    kinds = Counter(check["check"].split(":")[0].split(" ")[0] for check in found["checks"])
    grid = {"mixtral-8x7b": 6 * 15 + 6 + 6 + 4, "glam-143b": 4 * 15 + 4 + 4 + 1, "grok-1": 15 + 1 + 1}
    assert {name: kinds[name] for name in grid} == grid and len(found["results"]) == 66
    assert kinds["figure"] == 18 + 12 and kinds["router"] == 21 and kinds["parameters"] == 5
    assert not [check for check in found["checks"] if check["verdict"] == "FAIL"]
    load = [check for check in found["checks"] if check["check"].startswith("load of 14 requests/s")]
    assert [(check["ours"], check["verdict"]) for check in load] == [
        ("0.333", "report only"),
        ("0.667", "report only"),
        ("0.667", "report only"),
    ]
    assert "Two processors on one channel" in page.read_text() and "\N{REPLACEMENT CHARACTER}" not in page.read_text()

    def swapped() -> Iterator[GridRow]:
        names = {"Bank-PIM": "Duplex", "Duplex": "Bank-PIM"}
        return (row._replace(system=names.get(row.system, row.system)) for row in quick())

    monkeypatch.setattr(study, "as_s", swapped)
    monkeypatch.setattr("pimloom.reports.figures.draw_svg", lambda label, draw, height_in: escape(label))
    with pytest.raises(GateError, match="hard gates that do not hold: glam-143b 32/512: Bank-PIM over the best Duplex"):
        study.run_study(tmp_path / "b", lambda done, total: None)


@pytest.mark.parametrize("path", ["xpu", "logic", "bank_group", "bank"])
def test_a_column_that_its_bits_do_not_make_up_fails(path: str, monkeypatch) -> None:
    """Two in the last printed digit of a bit's energy, of 256 bits."""
    monkeypatch.setattr(gates, "COLUMN_PJ", {**COLUMN_PJ, path: COLUMN_PJ[path] + 0.02 * 256})
    failed = [check["check"] for check in gates.gates() if check["verdict"] == "FAIL"]
    assert len(failed) == 1 and str(failed[0]).startswith("bit of a column")


def test_what_was_measured_is_of_the_grid() -> None:
    assert len(ratios_of_s()) == 5 * len(GRID) and {point for point, _ in ratios_of_s()} == set(GRID)
    assert len(rows_of("gpu.csv")) == len(GRID)
