"""Where keys of the workload are axes, designs are compared only with designs that run the same work."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.reports.sweep.findings import study
from pimloom.reports.sweep.headline import bests, cards, headline
from pimloom.reports.sweep.page import render, write_report
from pimloom.sweeping.definition import sweep as definition
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.folder import settle
from pimloom.sweeping.pareto import front_within
from pimloom.sweeping.point.row import Outcome, row_of
from pimloom.sweeping.point.shared import base_of
from pimloom.sweeping.point.workload import Work
from pimloom.sweeping.run import Options, facts_of
from pimloom.sweeping.search.memory import Memory
from pimloom.sweeping.search.space import Space
from pimloom.sweeping.store.runs import record_run
from pimloom.sweeping.store.sweep_rows import SweepRows
from pimloom.sweeping.table import judged, workload_axes
from tests.browser import browser, visit
from tests.command import call
from tests.sweep_tables import EVIL, grid
from tests.test_sweep_sensitivity import naive_front

__all__ = ["browser"]

SWEEP: dict[str, Any] = {
    "system": "pim_gpt",
    "workload": {"model": ["gpt2-medium", "gpt2"], "generate": [1, 2]},
    "axes": {"dram.channels": [4, 8, 16]},
    "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
}
RESULTS = {4: (100.0, 3.0), 8: (200.0, 3.0), 16: (300.0, 4.0)}  # of gpt2-medium; 4 channels are beaten by 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished sweep: gpt2 is ten times as fast and as frugal on every design."""
    sweep = sweep_from(SWEEP)
    base = base_of(sweep)
    settle(tmp_path / "s", sweep, json.dumps(SWEEP))
    record_run(tmp_path / "s", facts_of(sweep, base, Options()))
    points = [Grid(sweep).point(n) for n in range(Grid(sweep).size)]
    rows = []
    for point in points:
        speed, energy = RESULTS[int(point["dram.channels"])]
        factor = 10 if point["workload.model"] == "gpt2" else 1
        found = {"tokens_per_s": speed * factor, "energy_per_token_j": energy / factor}
        rows.append(row_of(base, point, Outcome(found, "digest"), None, 0.0))
    SweepRows(tmp_path / "s", sweep, base).append(rows)
    return tmp_path / "s"


def test_every_view_has_the_front_of_each_workload(folder: Path, tmp_path: Path) -> None:
    wanted = [channels != 4 for _ in range(4) for channels in (4, 8, 16)]
    files = ("--parquet", str(tmp_path / "t.parquet"), "--csv", str(tmp_path / "t.csv"))
    assert call("sweep", "export", str(folder), *files).code == 0
    assert pd.read_parquet(tmp_path / "t.parquet")["pareto"].tolist() == wanted
    assert pd.read_csv(tmp_path / "t.csv")["pareto"].tolist() == wanted
    assert call("sweep", "report", str(folder)).code == 0
    front = list(csv.DictReader((folder / "report" / "pareto.csv").open()))
    assert [(row["workload.model"], row["workload.generate"], row["dram.channels"]) for row in front] == [
        (model, generate, channels)
        for model in ("gpt2-medium", "gpt2")
        for generate in "12"
        for channels in ("8", "16")
    ]


def test_status_names_the_best_of_each_workload_and_none_of_all(folder: Path) -> None:
    found = json.loads(call("sweep", "status", str(folder), "--json", "-").out)
    assert (found["pareto"], found["best"]) == (8, {"tokens_per_s": None, "energy_per_token_j": None})
    assert [one["workload"] for one in found["workloads"]] == [
        {"workload.model": model, "workload.generate": generate}
        for model in ("gpt2-medium", "gpt2")
        for generate in (1, 2)
    ]
    for one, factor in zip(found["workloads"], (1, 1, 10, 10), strict=True):
        assert (one["finished"], one["failed"], one["feasible"], one["pareto"]) == (3, 0, 3, 2)
        fast, frugal = one["best"]["tokens_per_s"], one["best"]["energy_per_token_j"]
        assert (fast["value"], fast["point"]["dram.channels"]) == (300 * factor, 16)
        assert (frugal["value"], frugal["point"]["dram.channels"]) == (3 / factor, 4)
    said = call("sweep", "status", str(folder)).out
    assert "8 on the fronts of 4 workloads" in said and said.count("max tokens_per_s") == 4


def test_without_axes_of_the_workload_there_is_one(tmp_path: Path) -> None:
    given = SWEEP | {"workload": {"model": "gpt2", "generate": 1}}
    sweep = sweep_from(given)
    base = base_of(sweep)
    settle(tmp_path, sweep, json.dumps(given))
    record_run(tmp_path, facts_of(sweep, base, Options()))
    found = json.loads(call("sweep", "status", str(tmp_path), "--json", "-").out)
    assert found["best"] == {"tokens_per_s": None, "energy_per_token_j": None} and len(found["workloads"]) == 1
    rows = [row_of(base, Grid(sweep).point(0), Outcome({"tokens_per_s": 7.0}, "digest"), None, 0.0)]
    SweepRows(tmp_path, sweep, base).append(rows)
    found = json.loads(call("sweep", "status", str(tmp_path), "--json", "-").out)
    assert found["best"]["tokens_per_s"]["value"] == 7
    assert found["workloads"] == [
        {"workload": {}, "finished": 1, "failed": 0, "feasible": 1, "pareto": 0, "best": found["best"], "open": {}}
    ]


SERVED = {"model": "gpt3-7b", "batch": 4, "prompt": 8, "generate": 2}
AXES_OF = {
    "model": ["gpt3-7b", "gpt3-13b"], "layers": [1, 2], "prompt": [8, 9], "generate": [1, 2], "batch": [4, 8],
    "tp": [1, 2], "pp": [1, 2], "every": [1, 2], "fidelity": ["physical", "released"],
}  # fmt: skip


@pytest.mark.parametrize("key", AXES_OF)
def test_axes_of_the_machine_or_of_accuracy_are_no_other_work(key: str) -> None:
    """Two points, of which the first is better in both objectives."""
    given = {"system": "neupims", "workload": SERVED | {key: AXES_OF[key]}, "objectives": SWEEP["objectives"]}
    sweep = sweep_from(given)
    is_work = key in ("model", "layers", "prompt", "generate", "batch")
    axis = sweep.axes[0].column
    assert workload_axes(sweep) == ((axis,) if is_work else ())
    rows = {axis: AXES_OF[key], "tokens_per_s": [2.0, 1.0], "energy_per_token_j": [1.0, 2.0], "error": [None, None]}
    assert judged(sweep, pd.DataFrame(rows))["pareto"].tolist() == [True, is_work]
    memory = Memory("nsga2", Space(sweep.axes), list(sweep.objectives.values()), 4)
    assert (memory._shares is not None) == is_work


def test_every_key_of_a_workload_is_work_or_not() -> None:
    assert {*definition.WORK} | {"tp", "pp", "policy", "every", "fidelity", "chunk"} == {*Work._fields}


NUMBERS = st.sampled_from([0.0, 1.0, 2.0, float("nan")])


@given(st.lists(st.tuples(st.integers(0, 3), NUMBERS, NUMBERS, st.booleans()), max_size=24))
def test_the_front_within_groups_is_brute_force_on_each(rows: list[tuple[int, float, float, bool]]) -> None:
    values = np.array([row[1:3] for row in rows]).reshape(-1, 2)
    groups, feasible = np.array([row[0] for row in rows], dtype=int), np.array([row[3] for row in rows], dtype=bool)
    mask = front_within(values, ["min", "max"], feasible, groups)
    for group in range(4):
        mine = np.flatnonzero(groups == group)
        lists = [list(map(float, values[row])) for row in mine]
        assert mask[mine].tolist() == naive_front(lists, ["min", "max"], feasible[mine].tolist())


WORK: dict[str, Any] = {"workload": ("workload.model gpt2-xl",)}  # the second model is half as fast


def test_the_page_compares_within_workloads() -> None:
    table = grid(**WORK)
    findings = study(table)
    assert headline(table, findings) == (
        "120 points, 102 feasible, 6 on the fronts of 2 workloads, 2 failed. "
        "Points are compared only with points of the same `workload.model gpt2-xl`."
    )
    assert [card.label for card in cards(table, findings)] == ["Points", "Feasible", "On the front", "Failed"]
    first, second = bests(table, findings)
    assert first["workload"] == "workload.model gpt2-xl = gpt2-xl" and first["front"] == second["front"] == 3
    assert first["best"][0] == ("44,800 1/s", "dram.channels = 64, npu.clock_mhz = 700 MHz")
    assert second["best"][0] == ("22,400 1/s", "dram.channels = 64, npu.clock_mhz = 700 MHz")
    text = re.sub(r"<[^>]*>", "", render(table, findings).decode().partition("<script")[0])
    assert "no feasible point of the same workload is better" in text and "The best of each workload" in text


NO_WEBGL = """
const plain = HTMLCanvasElement.prototype.getContext;
if (location.search === "?no-webgl")
  HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return kind.includes("webgl") ? null : plain.call(this, kind, ...rest);
  };"""


def test_figures_show_one_workload_at_a_time_without_webgl_too(browser: Any, tmp_path: Path) -> None:
    """On a narrow dark page."""
    browser.add_init_script(NO_WEBGL)
    model = f"workload.model {EVIL}"
    page_file = write_report(grid(EVIL, workload=(model,)), tmp_path)
    with visit(browser, page_file, width=500, scheme="dark", query="?no-webgl") as seen:
        page = seen.page
        page.wait_for_function("document.documentElement.dataset.ready", timeout=60_000)
        fastest = "Math.max(...document.getElementById('front-plot').data.flatMap(({ x }) => x))"
        highest = "Math.max(...document.getElementById('heat-plot').data[0].z.flat())"
        assert page.evaluate(fastest) == 64 * 700 and page.evaluate(highest) == 64 * 700
        for figure in ("front", "heat"):
            page.locator(f"#{figure}-choices select").last.select_option(label="llama")
        assert page.evaluate(fastest) == 32 * 700 and page.evaluate(highest) == 32 * 700
        page.locator("#heat-choices select").first.select_option(index=0)  # the model
        assert page.locator("#heat-choices select").last.is_disabled()
        assert page.evaluate("document.getElementById('heat-plot').data[0].x.length") == 2
        page.locator("#parallel").scroll_into_view_if_needed()
        page.wait_for_function("document.getElementById('parallel-remark').textContent.includes('no WebGL')")
        assert page.locator("#points-table tbody tr").count() == 25
        assert page.evaluate("document.documentElement.scrollWidth") == 500
        assert (seen.messages, seen.errors) == ([], [])
