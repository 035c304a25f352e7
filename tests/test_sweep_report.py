"""The report of a sweep: what it says, what it escapes, and that it works in a browser."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pimloom.reports.sweep.findings import study
from pimloom.reports.sweep.headline import headline
from pimloom.reports.sweep.page import render, write_report
from pimloom.reports.sweep.payload import payload, without_values
from pimloom.reports.sweep.units import unit_of
from tests.browser import browser, visit
from tests.sweep_place import wait as until
from tests.sweep_tables import EVIL, grid

__all__ = ["browser"]


def test_headline_counts_and_names_the_best():
    table = grid()
    assert headline(table, study(table)) == (
        "120 points, 102 feasible, 3 on the front, 2 failed. "
        "The highest `tokens_per_s` is 44,800 1/s, at `workload.model gpt2-xl` = gpt2-xl, `dram.channels` = 64, "
        "`npu.clock_mhz` = 700 MHz. "
        "The lowest `energy_per_token_j` is 0.001341 J, at `workload.model gpt2-xl` = gpt2-xl, `dram.channels` = 16, "
        "`npu.clock_mhz` = 700 MHz."
    )


def test_the_files_hold_every_digit_and_defuse_formulas(tmp_path):
    table = grid("=1+1")
    table.frame.loc[0, "power_w"] = 0.1 + 0.2
    write_report(table, tmp_path / "new")
    rows = list(csv.DictReader((tmp_path / "new/points.csv").open()))
    front = list(csv.DictReader((tmp_path / "new/pareto.csv").open()))
    assert len(rows) == 120 and 0 < len(front) < 20 and set(front[0]) == set(rows[0]) == set(table.frame.columns)
    assert (
        rows[0]["power_w"] == "0.30000000000000004" and rows[0]["host"] == "'=1+1" and rows[0]["dram.channels"] == "8"
    )
    assert rows[3]["power_w"] == "" and rows[3]["error"] == "no =1+1"


def test_the_data_have_every_value_once_and_no_markup():
    table = grid(EVIL)
    text = payload(table, study(table))
    assert not re.search("[<>&]", text)
    data = json.loads(text)
    names = [column["name"] for column in data["columns"]]
    assert sorted(names) == sorted([*table.frame.columns, "front"])
    assert [names[place] for place in data["axes"]] == list(table.axes)
    assert data["columns"][names.index("host")]["levels"] == [EVIL]


def test_results_without_a_value_are_named_and_not_shown():
    """Those of requests, in a sweep that searches goodput; records and objectives stay."""
    table = grid()
    table.frame["latency_s"] = np.nan
    table.frame["requests_per_j"] = np.where(np.arange(120) == 7, 2.0, np.nan)
    found = study(table)
    names = [column["name"] for column in json.loads(payload(table, found))["columns"]]
    assert without_values(table, found) == ["latency_s"] and "latency_s" not in names and "requests_per_j" in names
    page = render(table, found).decode()
    assert "1 result without a value in any point, not shown here" in page and "<code>latency_s</code>" in page
    assert unit_of("requests_per_j") == "1/J" and unit_of("goodput_rate_per_s_per_device") == "1/s"
    assert "without a value in any point" not in render(grid(), study(grid())).decode()


def continuous() -> pd.DataFrame:
    """Clocks that no two points share."""
    clocks = np.random.default_rng(0).uniform(100, 2000, 120)
    return grid().frame.assign(**{"npu.clock_mhz": clocks, "tokens_per_s": clocks * grid().frame["dram.channels"]})


def nullable() -> pd.DataFrame:
    """The columns as a store of rows gives them, with pd.NA for no value."""
    frame = grid().frame
    kinds = {"dram.channels": "Int64", "tokens_per_s": "Float64", "feasible": "boolean", "error": "string"}
    return frame.astype(kinds).assign(
        cycles=pd.array([None, *range(119)], dtype="Int64"), none=pd.array([None] * 120, dtype="Int64")
    )


def texts() -> pd.DataFrame:
    """Two axes, both of text."""
    frame = grid().frame.iloc[[0, 1, 2, 60, 61, 62]]
    return frame.assign(host=["a", "b", "c"] * 2, error=None, tokens_per_s=[1.0, 2, 3, 4, 5, 7], feasible=True)


NOTHING = {"tokens_per_s": None, "energy_per_token_j": None, "power_w": None, "feasible": False}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"objectives": {}}, "The sweep names no objectives"),
        ({"objectives": {"power_w": "min"}}, "There is one objective"),
        (
            {"objectives": {"tokens_per_s": "max", "power_w": "min", "energy_per_token_j": "min"}},
            "All 3 objectives count",
        ),
        ({"uniform": False}, "chosen by a search, not evenly"),
        ({"frame": grid().frame.head(1)}, "1 finished points are too few"),
        ({"frame": grid().frame.head(3)}, "Exact: 3 points, a complete grid"),
        ({"frame": grid().frame.head(0)}, "0 points"),
        ({"frame": grid().frame.assign(**NOTHING, error="broken")}, "120 failed"),
        ({"frame": grid().frame.assign(tokens_per_s=7.0)}, "It is the same at all points"),
        ({"frame": grid().frame.assign(tokens_per_s=np.inf)}, "0 finished points are too few"),
        ({"frame": grid().frame.drop(columns="error").assign(feasible=True)}, "No point failed"),
        ({"constraints": ()}, "no constraints"),
        ({"frame": grid().frame.sample(30, random_state=0)}, "one axis each: there are too few points"),
        ({"frame": grid().frame.sample(100, random_state=0)}, "by polynomials of one and two axes"),
        ({"frame": continuous()}, "by polynomials of one and two axes"),
        ({"frame": nullable()}, "120 points, 102 feasible, 3 on the front, 2 failed"),
        ({"axes": ("workload.model gpt2-xl", "host"), "frame": texts()}, "Exact: 6 points, a complete grid"),
        ({"axes": ()}, "No axis has more than one value"),
    ],
)
def test_odd_sweeps_have_a_page(change, sentence):
    table = grid(**change)
    assert sentence in re.sub(r"<[^>]*>", "", render(table, study(table)).decode().partition("<script")[0])


def test_a_table_without_an_axis_is_refused():
    with pytest.raises(ValueError, match="no column for the axis 'lost'"):
        study(grid(axes=("lost",)))


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return write_report(grid(EVIL), tmp_path_factory.mktemp("sweep"))


def wait(page: Any) -> None:
    page.wait_for_function("document.documentElement.dataset.ready", timeout=60_000)


def nth(page: Any, column: str) -> int:
    return page.locator("#points-table thead tr >> nth=0 >> .dt-column-title").all_text_contents().index(column)


def cells(page: Any, column: str) -> list[str]:
    return page.locator(f"#points-table tbody td:nth-child({nth(page, column) + 1})").all_text_contents()


def fault(text: str) -> bool:
    return "GL Driver Message" not in text  # the software renderer of a machine without a GPU complains of its speed


def test_the_page_works_in_a_browser(browser, file, tmp_path):
    with visit(browser, file) as seen:
        page = seen.page
        wait(page)
        assert "A sweep of " + EVIL in page.title() and page.evaluate("document.images.length") == 0
        _ticks_are_round_and_no_button_sends(page)
        _hover_names_the_design(page)
        _brushes_fill_the_table(page)
        _selects_redraw(page)
        _table_sorts_and_filters(page)
        with page.expect_download() as download:
            page.get_by_text("Download CSV").click()
        download.value.save_as(tmp_path / "rows.csv")
        rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
        written = {float(row["tokens_per_s"]) for row in rows}
        frame = grid(EVIL).frame
        assert written == set(frame[(frame["dram.channels"] == 64) & frame.error.isna()]["tokens_per_s"])
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        assert (list(filter(fault, seen.messages)), seen.errors) == ([], [])
        assert [url for url in seen.requests if not url.startswith("blob:null/")] == []


def _ticks_are_round_and_no_button_sends(page: Any) -> None:
    ticks = page.locator("#front-plot .xtick")
    assert {"500", "1,000", "10,000"} <= set(ticks.all_text_contents())
    page.evaluate("Plotly.relayout('front-plot', {'xaxis.range': [3, 3.7]})")
    assert {"1,000", "3,000", "5,000"} <= set(ticks.all_text_contents())
    page.evaluate("Plotly.relayout('front-plot', {'xaxis.autorange': true})")
    buttons = page.locator(".modebar-btn").evaluate_all("all => all.map(one => one.dataset.title)")
    assert "Download plot as a PNG" in buttons and not [title for title in buttons if "hare" in title]


def _hover_names_the_design(page: Any) -> None:
    trace = page.locator("#front-plot .scatterlayer .trace").last.locator("path.point").first
    trace.scroll_into_view_if_needed()
    box = trace.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    tip = "document.getElementById('tip')"  # the way there leads over others
    page.wait_for_function(f"!{tip}.hidden && {tip}.innerText.includes('on the front')")
    text = page.locator("#tip").inner_text()
    assert "on the front" in text and "dram.channels" in text and "MHz" in text and "workload.model </script>" in text


def _brushes_fill_the_table(page: Any) -> None:
    page.locator("#parallel").scroll_into_view_if_needed()
    page.wait_for_selector("#parallel-plot .parcoords", state="attached")
    page.evaluate("Plotly.restyle('parallel-plot', {'dimensions[1].constraintrange': [[2.5, 3.2]]})")
    page.get_by_text("Show these in the table").click()
    channels = cells(page, "dram.channels")
    assert channels and set(channels) == {"64"}
    page.get_by_text("Show all", exact=True).click()
    page.wait_for_function("document.querySelector('#points .dt-info').textContent.includes('of 120 entries')")


def _selects_redraw(page: Any) -> None:
    shown = "document.getElementById('heat-plot').data[0].z.flat()"
    best = page.evaluate(shown)
    page.locator("#heat-choices select").nth(3).select_option("mean")
    mean = page.evaluate(shown)
    assert len(best) == len(mean) == 8 and all(m < b for m, b in zip(mean, best, strict=True))
    page.locator("#heat-choices select").nth(0).select_option(label="npu.clock_mhz")
    assert page.evaluate("document.getElementById('heat-plot').data[0].x.length") == 15
    assert page.locator("#heat-plot").inner_text().count("npu.clock_mhz [MHz]") == 1
    page.locator("#shares-choices select").select_option("1")
    drawn = page.evaluate("document.getElementById('shares-plot').data[1].x")
    assert max(drawn) > 0.1


def _table_sorts_and_filters(page: Any) -> None:
    table = page.locator("#points-table")
    heading = table.locator("thead th", has_text="tokens_per_s").first
    orders = []
    for _ in range(2):
        heading.click()
        page.wait_for_timeout(100)
        orders.append([float(text.replace(",", "")) for text in cells(page, "tokens_per_s [1/s]") if text != "–"])
    assert orders[0] == sorted(orders[0]) and orders[1] == sorted(orders[1], reverse=True)
    assert orders[1][0] == grid().frame["tokens_per_s"].max()
    page.locator("#points input[type=search]").fill('"no </script"')
    page.wait_for_function("document.querySelector('#points .dt-info').textContent.includes('1 to 2 of 2')")
    assert cells(page, "error") == [f"no {EVIL}"] * 2
    page.locator("#points input[type=search]").fill("")
    page.wait_for_function("document.querySelector('#points .dt-info').textContent.includes('of 120 entries')")
    table.locator("thead tr >> nth=1").locator("input").nth(nth(page, "dram.channels")).fill("64")
    page.wait_for_function("document.querySelector('#points .dt-info').textContent.includes('of 30')")


@pytest.mark.slow  # plotly changes when it is pinned anew
def test_plotly_still_needs_unsafe_eval(browser, file, tmp_path):
    """The day this fails, the page's policy can do without it."""
    text = file.read_text()
    assert text.count(" 'unsafe-eval'") == 1
    strict = tmp_path / "strict.html"
    strict.write_text(text.replace(" 'unsafe-eval'", ""))
    heard = "addEventListener('securitypolicyviolation', (e) => blocked.push(e.blockedURI));"
    browser.add_init_script(f"window.blocked = []; {heard}")
    with visit(browser, strict) as seen:
        page = seen.page
        # what playwright waits with is eval, too
        until(lambda: page.evaluate("document.documentElement.dataset.ready"))
        page.locator("#parallel").scroll_into_view_if_needed()
        until(lambda: page.evaluate("blocked.length"))
        assert set(page.evaluate("blocked")) == {"eval"} and page.locator("#parallel-plot .parcoords").count() == 0


def test_same_table_same_page():
    table = grid()
    assert render(table, study(table)) == render(table, study(table))
    assert isinstance(table.frame, pd.DataFrame)
