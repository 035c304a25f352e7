"""The study `serving`: every transform has its rows, what must hold does, and PIM pays for each row."""

import csv
import json

import pytest

from pimloom.arch.error import GateError
from pimloom.reports.serving import branching, narrowing, planning, routing, scheduling, searching, speculation, study
from pimloom.reports.serving.rows import row
from pimloom.systems.serving.results.goodput import Goodput
from tests.reference_data import BESIDE
from tests.slow import slow

ELSEWHERE = ("Pools", "Shares", "Overlap")  # tests/test_overlap_report.py, as far as they are quick
HEAVY = (speculation.chains, speculation.medusa, scheduling.rules, scheduling.flover, planning.apex, searching.search)
LIGHT = {
    name: [part for part in parts if part not in HEAVY] for name, parts in study.PARTS.items() if name not in ELSEWHERE
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    seen = list[tuple[int, int]]()
    with pytest.MonkeyPatch.context() as patch:  # one process, where others have their cores
        patch.setattr(study, "run_all", lambda work, jobs: ((job, work(job)) for job in jobs))
        page = study.run_study(folder, lambda *done: seen.append(done), LIGHT, ())
    assert seen[-1] == (sum(map(len, LIGHT.values())),) * 2
    return page, json.loads((folder / "results.json").read_text())


def values(found, system: str) -> dict[str, float]:
    return {f"{one['what']}, {one['machine']}": one["value"] for one in found["results"] if one["system"] == system}


def test_all_that_is_judged_holds(made):
    page, found = made
    assert {check["verdict"] for check in found["checks"]} == {"pass"} and len(found["checks"]) >= 12
    assert "ours beside what is published" in page.read_text() and "Where drafts stop to pay" not in page.read_text()


def test_every_study_has_a_row_or_says_why_not(made):
    names = {one["system"] for one in study.listed()}
    assert all(one["inputs"].endswith(".") for one in study.listed())
    assert len(names) == 33 and names <= {one["system"] for one in made[1]["results"]}
    open_ones = {one["system"] for one in made[1]["results"] if one["value"] is None}
    left_out = {"Speculative decoding (base)", "Medusa", "APEX", "Flover", scheduling.NAMED}
    assert left_out <= open_ones and all(one["what"] for one in made[1]["results"])


@pytest.mark.reference
def test_the_list_of_studies_is_that_of_the_specification():
    listed = BESIDE.parent / "papers" / "serving_studies.csv"
    if not listed.is_file():
        pytest.skip(f"no {listed}")
    with listed.open(newline="") as file:
        assert [one["system"].strip() for one in csv.DictReader(file)] == [one["system"] for one in study.listed()]


@pytest.mark.parametrize("nodes", [15, slow(63)])
def test_banks_pay_for_each_row(made, nodes, monkeypatch):
    monkeypatch.setattr(speculation, "NODES", nodes)
    medusa = values({"results": list(speculation.medusa())}, "Medusa")
    multiverse = values(made[1], "Multiverse")
    tokens = medusa["tokens of a step, accuracies assumed, "]
    assert medusa[f"gain, {nodes} nodes, heads free, llama-2-7b on cent, batch 1"] < 1.1 * tokens / (nodes + 1)
    assert medusa[f"gain, {nodes} nodes, llama-2-7b on gpu_a100, batch 1"] > 2
    assert multiverse["gain of latency, a row at a time, gpt2-xl on pim_gpt, batch 1"] == pytest.approx(1, abs=0.01)


@pytest.mark.usefixtures("undrawn")
def test_rows_of_chains_and_their_figure(monkeypatch):
    few = {name: speculation.TARGETS[name] for name in ("gpu_a100", "pim_gpt")}
    monkeypatch.setattr(speculation, "TARGETS", few)
    rows = list(speculation.chains())
    checked = {
        str(one["machine"]): float(str(one["value"])) for one in rows if str(one["what"]).startswith("time of 5 rows")
    }
    assert checked["gpt2-xl on gpu_a100, batch 1"] < 1.05 and checked["gpt2-xl on pim_gpt, batch 1"] > 4.9
    (figure,) = study._figures("Drafts", rows)
    assert figure.title == "Where drafts stop to pay"


def broken():
    yield row("X", "y", 1.0, "0", "derived", verdict="FAIL", tolerance="1e-9")


def test_a_formula_that_does_not_hold_is_said_when_all_is_written(tmp_path):
    wrong = {"Drafts": [broken]}
    with pytest.raises(GateError, match="hard gates that do not hold: X: y"):
        study.run_study(tmp_path, lambda *done: None, wrong, ())
    assert (tmp_path / "index.html").is_file()


def test_rows_are_the_same_each_time(made):
    first = [{name: one[name] for name in one if name != "part"} for one in made[1]["results"]]
    for part in (branching.stopping, narrowing.dsv, narrowing.qsync, speculation.prism, routing.exflow):
        again = list(part())
        assert again and again == [one for one in first if one in again]


def test_rates_are_searched_without_a_sample_of_prices():
    """A search tells no error of prices, so it must not ask for one."""
    found = scheduling._served(
        trace=scheduling.TRACE, requests=3, scheduler="sarathi", goodput=True, slo="ttft=99s", rate="0.5:1"
    )
    assert isinstance(found, Goodput) and found.goodput_per_s == 1


@pytest.mark.parametrize(("rate", "said"), [(1, "fit and hold the rate"), (64, "fit; none holds the rate")])
def test_plans_hold_the_rate_or_the_row_says_that_none_does(rate, said, monkeypatch):
    monkeypatch.setattr(planning, "CASES", (("llama-3-8b", 1, f"poisson:{rate}/s"),))
    first = next(planning.apex())
    assert first["what"] == f"plans searched that {said}" and first["value"] == 1
