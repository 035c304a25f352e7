"""The PIM-GPT report: built from a study of two tokens, looked at in a browser; the whole one in a slow test."""

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pimloom.reports.page import render
from pimloom.reports.pim_gpt import study
from pimloom.reports.pim_gpt.checks import HARD, SOFT, Findings, published, reproduction_rows
from pimloom.reports.pim_gpt.points import MODELS, Point, all_points, run_points
from pimloom.systems.devices.result import Result
from tests.browser import Visit, browser, visit
from tests.command import call

__all__ = ["browser"]

TOKENS = 2
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found() -> Findings:
    return Findings(run_points(all_points(), tokens=TOKENS))


@pytest.fixture(scope="module")
def folder(found: Findings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the short study, as the command writes it."""
    out = tmp_path_factory.mktemp("report") / "made" / "for it"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "run_points", lambda points, done: {p: done() or found.results[p] for p in points})
        done = call("report", "pim-gpt", "--out", out)
    assert done == (0, f"{out}/index.html\n", "")
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "results.csv", "results.json"]
    return out


@pytest.fixture(scope="module")
def checks(folder: Path) -> Rows:
    return json.loads((folder / "results.json").read_text())["checks"]


@pytest.fixture(scope="module")
def seen(browser: Any, folder: Path) -> Iterator[Visit]:
    with visit(browser, folder / "index.html") as here:
        here.page.wait_for_timeout(200)
        yield here


TABLES = """() => [...document.querySelectorAll("main table")].map((table) => ({
  title: document.getElementById(table.getAttribute("aria-labelledby")).textContent,
  columns: [...table.querySelectorAll("th")].map((th) => ({
    label: th.querySelector("button").firstChild.textContent.trim(),
    unit: th.querySelector(".unit")?.textContent ?? "",
  })),
  rows: [...table.querySelectorAll("tbody tr")].map((tr) => [...tr.cells].map((td) => td.textContent)),
  numeric: [...table.querySelectorAll("tbody tr")].map((tr) =>
    [...tr.cells].map((td) => td.dataset.value !== "" && !isNaN(td.dataset.value) && !td.querySelector(".badge"))),
}))"""


@pytest.fixture(scope="module")
def tables(seen: Visit) -> dict[str, dict[str, Any]]:
    return {table["title"]: table for table in seen.page.evaluate(TABLES)}


def test_page_loads_without_a_message_or_a_request(seen: Visit) -> None:
    assert (seen.messages, seen.errors, seen.requests) == ([], [], [])
    assert seen.page.title() == "PIM-GPT: a reproduction"


def test_the_first_card_is_the_headline_claim(seen: Visit, found: Findings, checks: Rows) -> None:
    """41 to 137 over a T4, 631 to 1074 over a Xeon: ours are over rooflines, and the page says so first."""
    card, paper = seen.page.locator(".card").first, published()
    assert card.locator("dt").text_content() == "The paper's headline claim"
    assert card.locator(".badge").text_content() == "not reproduced"
    rows = [row.locator("th, td").all_text_contents() for row in card.locator("tbody tr").all()]
    assert [row[0] for row in rows] == [
        f"{what} over {whom}{how}"
        for whom in ("T4", "Xeon Gold 6154")
        for what, how in (("speed-up", ""), ("energy efficiency", " (fitted)"))
    ]
    ids = ("speedup_t4", "energy_t4", "speedup_cpu", "energy_cpu")
    assert [row[2] for row in rows] == [f"{paper[id].text}\N{NO-BREAK SPACE}×" for id in ids]
    ratios = [found.speedup(m, "t4", launch) for m in MODELS for launch in (False, True)]
    assert rows[0][1] == f"{min(ratios):.0f} to {max(ratios):.0f}\N{NO-BREAK SPACE}×"
    assert "how the paper measured them is unknown" in card.locator(".note").text_content()
    labels = seen.page.locator(".card dt").all_text_contents()
    assert labels[1:3] == ["Predictions against the AiM simulator", "Predictions against the paper"]
    judged = [c for c in checks if c["verdict"] != "report only" and c["basis"] == "predicted"]
    shown = [text.split() for text in seen.page.locator(".card .value").all_text_contents()[:2]]
    assert sum(int(of) for _, _, of in shown) == len(judged) and shown[0] == ["1", "of", "1"]


def test_every_figure_has_a_title_and_axes_with_units(seen: Visit) -> None:
    figures = seen.page.locator("figure").all()
    assert len(figures) >= 8
    for figure in figures:
        title = figure.locator("h3").text_content()
        texts = figure.locator("svg text").all_text_contents()
        labels = [text for text in texts if re.search(r"\[[^\]]+\]$", text)]
        assert title and labels, title
        axes = {"model", "baseline", "baseline model"} | set(labels)
        assert sum(text in axes for text in texts) >= 2, (title, texts)
        assert figure.locator("figcaption").text_content().startswith("Figure ")
    titles = [figure.locator("h3").text_content() for figure in figures]
    assert len(set(titles)) == len(titles)


NAMED_BESIDE = {"ours", "published", "unit"}  # the reproduction table has a column for units


def test_numbers_in_tables_have_units(tables: Mapping[str, Any]) -> None:
    assert len(tables) >= 8
    for title, table in tables.items():
        assert table["rows"], title
        for column, numeric in zip(table["columns"], zip(*table["numeric"], strict=True), strict=True):
            bare = any(numeric) and not column["unit"] and column["label"] not in NAMED_BESIDE
            assert not bare, f"{title}: {column['label']} has numbers without a unit"


def test_every_model_is_in_the_latency_table_with_the_numbers_of_the_files(
    tables: Mapping[str, Any], folder: Path, found: Findings
) -> None:
    rows = tables["Latency per generated token"]["rows"]
    assert [row[0] for row in rows] == list(MODELS)
    with (folder / "results.csv").open(newline="") as file:
        written = {r["model"]: r for r in csv.DictReader(file) if (r["system"], r["setting"]) == ("pim_gpt", "")}
    for model, us, *_ in rows:
        assert us == f"{1e6 * float(written[model]['time_per_token_s']):,.1f}"
        assert float(written[model]["time_per_token_s"]) == found.base(model).time_per_token_s
    for model, mj, watts, *_ in tables["Energy per token and power by cause, 2024 accounting"]["rows"]:
        assert mj == f"{1e3 * float(written[model]['energy_per_token_j']):,.2f}"
        assert watts == f"{float(written[model]['power_w']):.2f}"


def test_the_reproduction_table_shows_every_published_value_and_a_verdict(
    tables: Mapping[str, Any], seen: Visit, checks: Rows
) -> None:
    paper, shown = published(), tables["Our values beside the published ones"]["rows"]
    assert {check["id"] for check in checks} == set(paper)
    assert len(shown) == len(checks)
    for row, check in zip(shown, checks, strict=True):
        line = paper[check["id"]]
        assert row[:5] == [check["check"], check["verdict"], check["ours"], line.text, line.unit]
        assert row[7] == line.basis and row[8] == line.tag in ("paper", "secondary", "recalled", "derived")
    badges = seen.page.locator("#reproduction .badge").all_text_contents()
    assert badges == [check["verdict"] for check in checks]
    assert set(badges) <= {"pass", "deviates", "FAIL", "report only"}


def test_ratios_to_the_baselines_are_never_a_check(checks: Rows) -> None:
    ratios = [c for c in checks if re.match("speed-up over|energy efficiency|energy of|power of (T4|Xeon)", c["check"])]
    assert len(ratios) == 12 and {c["verdict"] for c in ratios} == {"report only"}
    assert all(c["tolerance"].startswith((HARD, SOFT)) for c in checks if c not in ratios)


def test_anchors_lead_to_their_sections(seen: Visit) -> None:
    links = seen.page.locator("nav a").all()
    anchors = [link.get_attribute("href") for link in links]
    assert anchors[0] == "#reproduction" and {"#latency", "#energy", "#baselines", "#assumptions"} <= set(anchors)
    assert len(set(anchors)) == len(anchors) == seen.page.locator("section").count()
    for link, anchor in zip(links, anchors, strict=True):
        link.evaluate("a => a.click()")
        assert seen.page.evaluate("location.hash") == anchor
        title = seen.page.locator(f"section{anchor} h2").text_content()
        assert title.lstrip("0123456789") == link.text_content()


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_sticks_out_sideways(browser: Any, folder: Path, width: int) -> None:
    with visit(browser, folder / "index.html", width=width) as here:
        assert here.page.evaluate("document.documentElement.scrollWidth") == width


TEXT = {"setting", "system", "model", "spec_digest", "version"}
COUNTS = {"workload.prompt_tokens", "workload.generated_tokens", "workload.batch", "max_tokens", "cycles", "seed"}
RATIOS = {"row_hit_rate", "data_movement_reduction", "data_movement_reduction_on_wires", "non_vmm_share"}
PLAIN = TEXT | COUNTS | RATIOS | {"mac_utilisation", "workload.lm_head", "tokens_per_s"}


def test_files_parse_and_name_their_units(folder: Path, found: Findings) -> None:
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    results = json.loads((folder / "results.json").read_text())["results"]
    points = all_points()
    assert len(rows) == len(results) == len(points)
    assert {name for name in rows[0] if not re.search(r"_(s|j|w|ps|bytes)$", name)} | {"tokens_per_s"} == PLAIN
    for point, row, result in zip(points, rows, results, strict=True):
        assert result.pop("setting") == dict(point.overrides)
        assert result == json.loads(json.dumps(found.results[point].as_dict()))
        assert row["setting"] == " ".join(f"{key}={value}" for key, value in point.overrides)
        for name in ("latency_s", "tokens_per_s", "cycles"):
            assert (float(row[name]) if row[name] else None) == result[name]
        assert all(math.isfinite(float(text)) for name, text in row.items() if text and name.endswith(("_s", "_j")))


def test_equal_shapes_share_a_simulation_and_keep_their_names(found: Findings) -> None:
    one, twin = found.base("gpt2"), found.base("gpt3-small")
    assert (twin.model, twin.latency_s) == ("gpt3-small", one.latency_s) and twin.spec_digest != one.spec_digest


def doctored(found: Findings, model: str, **changes: Any) -> Findings:
    point = Point("pim_gpt", model)
    changed: dict[Point, Result] = {**found.results, point: msgspec.structs.replace(found.results[point], **changes)}
    return Findings(changed)


@pytest.mark.usefixtures("undrawn")
def test_a_miss_shows(found: Findings, checks: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    def verdicts(here: Findings) -> dict[str, object]:
        now = {str(row["check"]): row["verdict"] for row in reproduction_rows(here)}
        before = {check["check"]: check["verdict"] for check in checks}
        return {check: verdict for check, verdict in now.items() if verdict != before[check]}

    small = doctored(found, "gpt3-xl", max_tokens=8064)
    assert verdicts(small) == {"tokens that GPT3-XL holds": "FAIL"}
    assert verdicts(doctored(found, "gpt2", row_hit_rate=0.9)) == {"row-hit rate, all models": "deviates"}
    monkeypatch.setattr("pimloom.reports.pim_gpt.checks.macab_cycles", lambda: 231384)
    assert verdicts(found) == {"AiM simulator, 1024 rows of 64 MACs": "FAIL"}
    html = render(study.build_page(small, reproduction_rows(small)))
    assert html.count('<span class="badge fail">FAIL</span>') == 2


@pytest.mark.usefixtures("undrawn")
def test_hostile_names_stay_text(found: Findings, browser: Any, tmp_path: Path) -> None:
    evil = """<script>alert("1")</script><img src=x onerror='alert(2)'>[red]"""
    rows = reproduction_rows(found)
    rows[0] |= {"check": evil, "ours": evil}
    (tmp_path / "evil.html").write_text(render(study.build_page(found, rows)))
    with visit(browser, tmp_path / "evil.html") as here:
        cells = here.page.locator("#reproduction tbody tr").first.locator("td").all_text_contents()
        assert cells[0] == cells[2] == evil
        assert here.page.evaluate("[document.scripts.length, document.images.length]") == [1, 0]
        assert (here.messages, here.errors, here.requests) == ([], [], [])


@pytest.mark.slow  # of any page: test_page.py
def test_same_study_same_bytes(found: Findings, folder: Path) -> None:
    again = Findings(run_points(all_points()[:3], tokens=TOKENS))
    assert all(again.results[point] == found.results[point] for point in again.results)
    html = render(study.build_page(found, reproduction_rows(found)))
    assert html == (folder / "index.html").read_text()


@pytest.mark.slow
def test_the_whole_report_passes_every_hard_gate(tmp_path: Path, browser: Any) -> None:
    done = call("report", "pim-gpt", "--out", tmp_path)
    assert done == (0, f"{tmp_path}/index.html\n", "")
    checks = json.loads((tmp_path / "results.json").read_text())["checks"]
    hard = [check for check in checks if check["tolerance"].startswith(HARD)]
    assert len(hard) == 9 and {check["verdict"] for check in hard} == {"pass"}
    assert [check["check"] for check in checks if check["verdict"] == "deviates"] == []
    with visit(browser, tmp_path / "index.html", width=375) as here:
        assert (here.messages, here.errors, here.requests) == ([], [], [])
        assert here.page.evaluate("document.documentElement.scrollWidth") == 375
