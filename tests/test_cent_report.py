"""The study of CENT: its gates, its page, and what it writes."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from pimloom.arch.error import GateError
from pimloom.reports.cent import further, study
from pimloom.systems import pool

SHIPPED = study._shipped
FOUND = dict[tuple[int, str], Any]()  # by the processes of the first study, for the second one, too
of_cores = cache(further.of_cores)
SOME = slice(2, None, 6)  # of nine configurations: the first model and the last


def run_all(run, jobs) -> Iterator[tuple[tuple[int, str], Any]]:
    for job, outcome in pool.run_all(run, jobs):
        FOUND[job] = outcome
        yield job, outcome


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("cent")
    told: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_shipped", lambda: SHIPPED()[SOME])
        patch.setattr(study, "run_all", run_all)
        patch.setattr(study, "of_cores", of_cores)
        return study.run_study(out, lambda done, total: told.append((done, total)), every=4096), told


def test_hard_gates_hold_and_every_number_stands_beside_the_published_one(written) -> None:
    page, _ = written
    checks = json.loads((page.parent / "results.json").read_text())["checks"]
    gates = 5 + 12
    assert len(checks) == gates + 4 * 2 and [check["verdict"] for check in checks[:gates]] == ["pass"] * gates
    assert {check["verdict"] for check in checks[gates:]} <= {"pass", "deviates"}  # of one context alone


def test_the_page_shows_both_columns(written) -> None:
    page, told = written
    text = page.read_text()
    assert "corrected" in text and "llama-2-70b, 32 devices, 80 x 1" in text and "425,471" in text
    assert "energy of that token: precharge standby" in text and "tokens per dollar" in text and "report only" in text
    assert told[-1][0] == told[-1][1] == 5


def test_a_gate_that_fails_is_told_when_all_is_written(written, tmp_path, monkeypatch, undrawn) -> None:
    monkeypatch.setattr(study, "_shipped", lambda: SHIPPED()[SOME][:1])
    monkeypatch.setattr(study, "run_all", lambda run, jobs: [(job, FOUND[job]) for job in jobs])
    monkeypatch.setattr(study, "of_cores", of_cores)
    monkeypatch.setattr(study, "near_memory_cyc", lambda *sizes: {"norm": 4661.0})
    with pytest.raises(GateError, match="hard gates that do not hold: near-memory unit"):
        study.run_study(tmp_path, lambda done, total: None, every=4096)
    assert (tmp_path / "index.html").exists()
