"""Results in a notebook and as tables: escaped, offline, readable on any ground, with units and bars."""

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pandas
import pytest

import pimloom
from pimloom.answer import Answer
from pimloom.systems.devices.run import Run, Span
from pimloom.systems.devices.shown import until_ps
from pimloom.systems.notebook import MOST_BARS, MOST_ROWS, bars, page
from pimloom.systems.timeline_svg import RIGHT_PX, WIDTH_PX, Bar, timeline_svg

EVIL = '<img src=x onerror="alert(1)">&'
RIGHT = WIDTH_PX - RIGHT_PX


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
    assert html.count("<svg") == 3  # time by step, energy by cause, a timeline
    longest = max(found.time_by_step_s, key=found.time_by_step_s.get)
    share = 100 * found.time_by_step_s[longest] / found.latency_s
    assert f"({share:.1f} %)" in html and "time_by_step_s [s]" in html and "energy_by_cause_j [J]" in html
    drawing = html.partition("time_by_step_s")[2].partition("Timeline")[0]
    names = re.findall(r"""text-anchor="end">([^<]*)<""", drawing)
    steps = sorted(found.time_by_step_s, key=lambda name: -found.time_by_step_s[name])
    cut = [name if len(name) <= 26 else f"{name[:25]}…" for name in steps]
    shown = MOST_BARS - 1
    assert names[: shown + 1] == [*cut[:shown], f"{len(steps) - shown} others"]


def test_spreads_of_times_are_fields_and_no_shares():
    """A mean and a 99th percentile do not add up to anything; operators and stages do."""
    html = RESULTS["Decoded"]()._repr_html_()
    shown = Balanced(html).texts
    assert {"token_time_s.mean", "token_time_s.p50", "token_time_s.p99"} <= set(shown)
    assert not {"token_time_s [s]", "latency_s [s]", "wait_s [s]"} & set(shown)
    served = Balanced(RESULTS["Served"]()._repr_html_()).texts
    assert {"stages_cyc [cycles]", "operators_cyc [cycles]"} <= set(served)
    parts = {"energy_by_cause_j": {"mac": 1.0}, "worst_s": {"first": 1.0, "second": 2.0}}
    assert page("", parts, None).count("<svg") == 1


def test_what_a_timeline_shows_of_requests_and_of_steps_that_cannot_run(tmp_path):
    """With prompts beside decode it is an iteration with a prompt; without steps there is all but the drawing."""
    trace = tmp_path / "trace.csv"
    trace.write_text("timestamp,prompt_tokens,output_tokens\n0,40,3\n0,30,3\n")
    found = pimloom.run("gpu_a100", model="gpt2", requests=trace, batch=2, chunk=16, layers=1)
    html = found._repr_html_()
    assert "Timeline of an iteration with a prompt" in html and "the end of a prompt" not in html

    def fails():
        raise pimloom.UserError("no room for these")

    found = RESULTS["Generated"]()
    assert "Timeline of the end of a prompt" in found._repr_html_()
    del found.__dict__["steps"]
    found.showing(fails)
    html = found._repr_html_()
    assert "Timeline" not in html and "latency_s" in html
    with pytest.raises(pimloom.UserError, match="no room"):
        _ = found.spans


@pytest.mark.parametrize("name", ["Result", "Served", "Decoded", "Generated", "Comparison"])
def test_a_result_shows_a_timeline_of_its_steps(name):
    """Each lane is a resource of the spans, each operator within the window can be read where its bar is pointed at."""
    found = RESULTS[name]()
    drawings = found._repr_html_().split("<div>Timeline of ")[1:]
    assert len(drawings) == (2 if name == "Generated" else 1)  # which alone has a prompt
    spans = found.spans[found.spans["phase"] == "decode"]
    lanes = spans["resource"] if name != "Comparison" else spans["system"] + ": " + spans["resource"]
    titles = re.findall(r"<title>([^<]*)</title>", drawings[-1])
    assert set(lanes) == {unescape(title) for title in titles if " to " not in title}
    first = min(spans.itertuples(), key=lambda span: (span.start_ps, -span.end_ps))
    assert any(first.operator in title and ": 0 to" in title for title in titles)
    assert re.search(r">time \[(ns|µs|ms)\]<", drawings[-1])


def layers(each: dict[str, int], times: int = 4) -> Run:
    """So many equal layers, in which each operator runs so often for 10 ps."""
    names = ["embed_tokens", *[name for name, n in each.items() for _ in range(n)] * times]
    return Run(10 * len(names), tuple(Span(10 * i, 10 * i + 10, name, "unit") for i, name in enumerate(names)))


def test_a_timeline_shows_a_whole_layer_of_each_system():
    """Of operators that come twice in a layer or many times, with many spans, and beside others."""
    plain, heads = layers({"norm": 2, "qkv": 1, "o": 1, "ffn": 1}), layers({"qkv": 1, "score": 4000, "o": 1, "ffn": 1})
    assert until_ps([plain]) == 10 + 100 and until_ps([heads]) == 10 + 40_030
    assert until_ps([plain, heads]) == until_ps([heads, plain]) == 10 + 40_030
    short = layers({"norm": 2, "qkv": 1}, times=1)
    assert until_ps([short]) == short.end_ps
    decode = pimloom.run("neupims", model="gpt2", prompt=8, generate=2, batch=4, layers=3).shown.decode
    assert decode is not None
    both = [span.end_ps for span in decode.spans if span.operator == "ffn2"][1]  # a layer of two sub-batches
    assert until_ps([decode]) >= both


def test_a_timeline_is_to_scale_within_its_lane_and_escaped():
    lanes = {EVIL: [Bar(0, 500_000, EVIL), Bar(500_000, 1_000_000, "qkv"), Bar(4_000_000, 9_000_000, "ffn")], "b": []}
    drawing = timeline_svg(EVIL, lanes, 5_000_000)
    read = Balanced(drawing)
    assert "<img" not in drawing and any(text.startswith(f"{EVIL}: 0 to 0.5 µs, 0.5 µs") for text in read.texts)
    bars = re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="14"', drawing)
    x, width = zip(*((float(a), float(b)) for a, b in bars), strict=True)
    assert width[0] == width[1] == pytest.approx(width[2] / 2, abs=0.02)  # the last ends with the drawing
    assert x[1] == pytest.approx(x[0] + width[0], abs=0.02) and x[2] + width[2] == pytest.approx(RIGHT, abs=0.1)
    ticks = re.findall(r'<text x="([\d.]+)" y="\d+" text-anchor="middle">([^<]*)<', drawing)
    assert [said for _, said in ticks] == ["0", "1", "2", "3", "4", "5"]
    assert float(ticks[4][0]) == pytest.approx(x[2], abs=0.1)


def test_thin_bars_are_joined_with_their_like_only():
    bars = [Bar(n, n + 1, "qkv" if n < 5000 else "ffn1") for n in range(10_000)]
    drawing = timeline_svg("", {"a": bars}, 10_000)
    assert "5000 operators" not in drawing and drawing.count('height="14"') == 2
    wide = timeline_svg("", {"a": [Bar(0, 10, "qkv"), Bar(10, 20, "qkv")]}, 20)
    assert wide.count('height="14"') == 2


def test_no_label_of_a_timeline_is_cut():
    """What stands at the right end of its text begins within the drawing; letters are at most as wide as assumed."""
    for name in ("PIM", "x" * 200, "pim_card: pcie to card"):
        drawing = timeline_svg("", {name: [Bar(0, 999_999, "qkv")]}, 999_999)
        for x, text in re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="end">([^<]*)<', drawing):
            assert float(x) >= 6.5 * len(text)


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
