"""Results in a notebook and as tables: escaped, offline, readable on any ground, with units and bars."""

import re
from html.parser import HTMLParser
from typing import Any

import pandas
import pytest

import pimloom
from pimloom.answer import Answer
from pimloom.systems.notebook import MOST_BARS, MOST_ROWS, bars, page

EVIL = '<img src=x onerror="alert(1)">&'
VOID = {"rect"}


class Balanced(HTMLParser):
    """Tags that close in order, and all texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_foreign_text_stays_text():
    html = page(EVIL, {EVIL: EVIL, "time_by_step_s": {EVIL: 1.0}}, [{EVIL: EVIL}])
    read = Balanced(html)
    assert "img" not in read.seen and "<img" not in html
    assert read.texts.count(EVIL) >= 4


RESULTS = {
    "Result": lambda: pimloom.run("pim_gpt", model="gpt2", generate=1),
    "Outcome": lambda: pimloom.trace("ddr4", pattern="random", requests=100),
    "Answer": lambda: pimloom.fabric.waste(arch="nvl72,dgx8", gpus=720, fault_ratio=0.05, draws=5),
    "Served": lambda: pimloom.run("gpu_a100", model="gpt3-7b", requests="alpaca", batch=8, tp=2),
    "Decoded": lambda: pimloom.run("gpu_a100", model="gpt3-7b", requests="alpaca", batch=8, tp=2, iterations=3),
    "Generated": lambda: pimloom.run("gpu_a100", model="gpt2", prompt=8, generate=2, batch=2),
    "Comparison": lambda: pimloom.compare(["pim_gpt", "gpu_a100"], model="gpt2", generate=2),
}


@pytest.fixture(scope="module", params=RESULTS)
def result(request) -> Any:
    found = RESULTS[request.param]()
    assert type(found).__name__ == request.param
    return found


def test_a_result_shows_itself(result):
    html = result._repr_html_()
    read = Balanced(html)
    assert "table" in read.seen and not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|<link|url\(", html)
    assert not re.search(r"(?<!-)color:(?!inherit)|background:(?!none)", html)  # of the page around it
    shown = set(read.texts)
    named = [name for name, value in result.to_dict().items() if isinstance(value, int | str)]
    assert named and all(name in shown for name in named)


def test_a_result_is_a_frame_and_a_dict(result):
    table = result.to_frame()
    assert isinstance(table, pandas.DataFrame) and len(table) >= 1
    assert result.to_dict() == result.as_dict()
    if type(result).__name__ not in ("Answer", "Comparison"):
        assert len(table) == 1
        pandas.testing.assert_frame_equal(table, pimloom.frame([result]))


def test_systems_of_a_comparison_are_its_rows():
    table = RESULTS["Comparison"]().to_frame()
    assert table["system"].tolist() == ["pim_gpt", "gpu_a100"] and "decode.bound" in table


def test_parts_of_a_time_are_bars_with_shares_and_units():
    found = RESULTS["Result"]()
    html = found._repr_html_()
    assert html.count("<svg") == 2  # time by step, energy by cause
    longest = max(found.time_by_step_s, key=found.time_by_step_s.get)
    share = 100 * found.time_by_step_s[longest] / found.latency_s
    assert f"({share:.1f} %)" in html and "time_by_step_s [s]" in html and "energy_by_cause_j [J]" in html
    names = re.findall(r"""text-anchor="end">([^<]*)<""", html.partition("time_by_step_s")[2])
    steps = sorted(found.time_by_step_s, key=lambda name: -found.time_by_step_s[name])
    cut = [name if len(name) <= 26 else f"{name[:25]}…" for name in steps]
    shown = MOST_BARS - 1
    assert names[: shown + 1] == [*cut[:shown], f"{len(steps) - shown} others"]


def test_the_longest_bar_fills_the_room_and_many_are_put_together():
    drawing = bars("operators_cyc", {"a": 30, "b": 10, "c": 0})
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', drawing)]
    assert widths == [260.0, 86.7, 0.0] and "[cycles]" in drawing
    many = bars("x_s", {f"n{nth}": 1.0 for nth in range(MOST_BARS + 5)})
    assert many.count("<rect") == MOST_BARS and "6 others" in many
    assert bars("x_s", {"a": 0.0}).count("<rect") == 1


def test_a_long_table_says_what_it_leaves_out():
    rows = [{"n": nth, "t_s": nth / 2} for nth in range(MOST_ROWS + 3)]
    html = Answer({"rows": rows, "seed": 1}, lambda: None, rows)._repr_html_()
    assert "and 3 more rows" in html and html.count("<tr>") == 1 + MOST_ROWS + 2
    assert Answer({"a": 1}, lambda: None).to_frame().to_dict("records") == [{"a": 1}]
