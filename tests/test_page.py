"""The report page: safe, self-contained, sortable, readable on a phone, in light and in dark."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pimloom.arch.files import write_atomic
from pimloom.reports.figures import Range, grouped_bars, horizontal_ranges, lines, stacked_bars
from pimloom.reports.page import (
    Card,
    Claim,
    ClaimLine,
    Column,
    Figure,
    Notes,
    Page,
    Section,
    TableData,
    number,
    prose,
    render,
)
from tests.browser import browser, visit

__all__ = ["browser"]

EVIL = """<script>alert(1)</script><img src=x onerror="alert(2)"> "quoted" & 'single' </svg></style>"""
MODELS = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3-small", "gpt3-medium", "gpt3-large", "gpt3-xl"]
CAUSES = ["background", "activate", "multiply", "read", "write", "refresh", "ASIC", "interface"]


def figures() -> list[Figure]:
    base = [41.2, 88.1, 152.4, 240.9, 41.3, 88.4, 153.0, 247.7]
    caption = "Time for one generated token, averaged over 1024 of them; batch 1, `bfloat16`."
    return [
        grouped_bars(
            "Time per token on three machines",
            MODELS,
            {
                "PIM-GPT": base,
                "T4, roofline": [4 * b for b in base],
                "T4, measured": [9.6 * b for b in base[:-1]] + [None],
            },
            xlabel="Model",
            ylabel="Time per token [µs]",
            caption=caption,
            log_y=True,
        ),
        stacked_bars(
            "Where the energy goes",
            MODELS,
            {cause: [b * (nth + 2) / 900 for b in base] for nth, cause in enumerate([*CAUSES, "leakage"])}
            | {"other": [*base[:-1], None]},
            xlabel="Model",
            ylabel="Energy per token [mJ]",
            caption=caption,
        ),
        lines(
            "Speed-up over the number of channels",
            {name: [(2**n, (n + 1) ** 1.7 * (5 + nth)) for n in range(6)] for nth, name in enumerate(MODELS[:4])},
            xlabel="Channels [1]",
            ylabel="Speed-up [-]",
            caption=caption,
            log_x=True,
        ),
        horizontal_ranges(
            "Ours and the published values",
            [
                Range("Speed-up over T4", 41, 137, {"roofline": 52.0, "with launch overhead": 120.5}),
                Range("Speed-up over Xeon", 631, 1074, {"roofline": 590.0, "with launch overhead": 700.0}),
                Range("Energy ratio over T4", 339, 1085, {"roofline": 420.0}),
                Range("Row-hit rate of GPT3-XL", 98, 98, {"roofline": 98.2}),
            ],
            xlabel="Ratio [-]",
            ylabel="Quantity",
            caption=caption,
            log_x=True,
        ),
    ]


def table() -> TableData:
    columns = [
        Column("model", "Model"),
        Column("ours", "Ours", "µs"),
        Column("published", "Published", "µs"),
        Column("deviation", "Deviation", "%", format="+.1f"),
        Column("verdict", "Verdict", verdict=True),
        Column("source", "Source"),
    ]
    verdicts = ["pass", "deviates", "report only", "FAIL", "pass", "pass", "report only", "deviates"]
    rows = [
        {
            "model": name,
            "ours": 9.5 + 1234.5 * (n * 5 % 8),
            "published": None if n == 2 else 10 + 1200 * (n * 5 % 8),
            "deviation": (n - 3) * 1.7,
            "verdict": verdict,
            "source": "Figure 10, read off the plot; the text gives the extremes only" if n % 2 else "Table 3",
        }
        for n, (name, verdict) in enumerate(zip(MODELS, verdicts, strict=True))
    ]
    return TableData("Time per token, ours and published", columns, rows, "Deviation is ours over published − 1.")


def sample(word: str = "gpt3-xl") -> Page:
    """A page with every kind of block; `word` stands wherever a user's text can."""
    bars, stack, curves, ranges = figures()
    hostile = grouped_bars(
        word, [word], {word: [1.0], "other": [2.0]}, xlabel=word, ylabel=f"{word} [µs]", caption=word
    )
    rows = [{"a": word, "b": number} for number in (10, 9, 200)]
    words = TableData(word, [Column("a", word), Column("b", word, word)], rows, word)
    return Page(
        title=f"PIM-GPT, reproduced: {word}",
        subtitle="Cycle-exact latency, energy and speed-up of eight GPT models on processing-in-memory GDDR6.",
        summary_cards=[
            Card("Time per token", 247.7, "µs", "gpt3-xl, 1024 tokens"),
            Card("Energy per token", 0.01832, "J", "DRAM, ASIC and interface"),
            Card("Row-hit rate", 98.21, "%", "published: 98 %"),
            ("Checks passed", "41 of 44", "", word),
        ],
        sections=[
            Section(
                "Results", "results", f"What we find.\n\nTwo paragraphs, `code` and {word}.", [table(), bars, ranges]
            ),
            Section("Energy", "energy", "Every cause by itself.", [stack]),
            Section("Sweeps", "sweeps", "", [curves, Notes(f"Assumptions {word}", [f"One `{word}`.", "Two."])]),
            Section(word, "words", word, [hostile, words]),
        ],
        claim=Claim([ClaimLine(word, "1", "2", word), ClaimLine("speed", "3 to 4", "3 to 4", "×")], False, word),
        facts={"Version": "0.1.0", "Specification": "9f" * 32, "Seed": 0, "Command": f"pimloom run --model {word}"},
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    write_atomic(path, render(sample(EVIL)))
    return path


def test_hostile_text_is_shown_and_not_run(browser, file):
    html = file.read_text()
    assert "<script>alert" not in html and "<img" not in html
    with visit(browser, file) as seen:
        assert EVIL in seen.page.title()
        places = ("h1", ".claim tbody tr:first-child th", ".claim .note", "h2 >> nth=3", "figure:last-of-type h3")
        for place in (*places, "footer", ".card >> nth=4", ".notes code"):
            assert "<script>alert(1)</script>" in seen.page.locator(place).last.text_content(), place
        drawn = seen.page.locator("#words svg text").all_text_contents()
        assert sum("<script>alert(1)</script>" in text for text in drawn) == 4  # bar, legend, both axes
        assert seen.page.evaluate("document.scripts.length") == 1
        assert seen.page.evaluate("document.images.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_loads_without_a_message_or_a_request(browser, file, scheme):
    with visit(browser, file, scheme=scheme) as seen:
        seen.page.wait_for_timeout(200)
        assert (seen.messages, seen.errors, seen.requests) == ([], [], [])


def test_policy_forbids_everything_external(browser, file):
    with visit(browser, file) as seen:
        seen.page.evaluate("fetch('https://example.invalid/').catch(() => 0)")
        assert "Content Security Policy" in seen.messages[0]


def test_a_click_sorts_and_the_third_restores(browser, file):
    with visit(browser, file) as seen:
        table = seen.page.locator("#results table")
        heading = table.locator("th").nth(1)
        cells = lambda column: table.locator(f"tbody td:nth-child({column + 1})").all_text_contents()  # noqa: E731
        written = cells(1)
        orders = []
        for _ in range(3):
            heading.locator("button").click()
            orders.append((heading.get_attribute("aria-sort"), cells(1)))
        numeric = sorted(written, key=lambda text: float(text.replace(",", "")))
        assert orders == [("ascending", numeric), ("descending", numeric[::-1]), ("none", written)]


def test_the_keyboard_sorts_verdicts_by_gravity_and_keeps_gaps_last(browser, file):
    with visit(browser, file) as seen:
        table = seen.page.locator("#results table")
        table.locator("th button").nth(4).focus()
        seen.page.keyboard.press("Enter")
        assert table.locator(".badge").all_text_contents()[:3] == ["FAIL", "deviates", "deviates"]
        for order in ("ascending", "descending"):
            table.locator("th button").nth(2).press("Space")
            assert table.locator("th[aria-sort]:not([aria-sort=none])").get_attribute("aria-sort") == order
            assert table.locator("tbody tr:last-child td").nth(2).text_content() == "–"


def test_each_figure_has_title_axes_and_units(browser, file):
    with visit(browser, file) as seen:
        drawings = seen.page.locator("figure").all()
        assert len(drawings) == 5
        for figure in drawings:
            title = figure.locator("h3").text_content()
            svg = figure.locator("svg[role=img]")
            assert title and title in svg.get_attribute("aria-label")
            assert re.search(r"\[[^\]]+\]", " ".join(svg.locator("text").all_text_contents()))
            assert figure.locator("figcaption").text_content().startswith("Figure ")
        ids = seen.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("width", [320, 375, 1280])
def test_nothing_sticks_out_sideways(browser, file, width):
    with visit(browser, file, width=width) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width


def test_a_narrow_claim_breaks_no_word(browser, tmp_path):
    """Long names beside short values, as wide as a telephone."""
    claim = Claim([ClaimLine("a name of many words, which go on " * 4, "1.847", "1.847", "×")], True, "since")
    write_atomic(tmp_path / "index.html", render(Page("a", "b", [], claim=claim)))
    lines = "[...document.querySelectorAll('.claim thead th, .claim tbody td')].map(cell => {"
    lines += "const range = document.createRange(); range.selectNode(cell.firstChild); "
    lines += "return range.getClientRects().length})"
    with visit(browser, tmp_path / "index.html", width=420) as seen:
        assert seen.page.evaluate(lines) == [1, 1, 1, 1]


def test_long_texts_are_not_squeezed_on_a_narrow_screen(browser, tmp_path):
    columns = [Column("x", "x"), Column("few", "few"), Column("many", "many words"), Column("more", "more words")]
    row = {
        "x": "time of a machine with 32 requests at once", "few": "10 of 12", "many": "neupims < gpu_h100, " * 4,
        "more": "static host, " * 8,
    }  # fmt: skip
    page = Page("a", "b", [Section("S", "s", "", [TableData("Times", columns, [row])])])
    write_atomic(tmp_path / "index.html", render(page))
    with visit(browser, tmp_path / "index.html", width=390) as seen:
        widths = seen.page.evaluate("[...document.querySelectorAll('td.long')].map(cell => cell.clientWidth)")
        assert len(widths) == 3 and min(widths[1:]) >= 200 and widths[0] >= 150
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 390


def test_no_caption_is_a_number_alone():
    page = Page("a", "b", [Section("S", "s", "", [TableData("Times", [Column("x", "x")], [])])])
    assert "<b>Table 1.</b> <p>Times.</p>" in render(page)


@pytest.mark.parametrize(("count", "rows"), [(1, [1]), (4, [4]), (5, [3, 2]), (6, [3, 3]), (7, [4, 3])])
def test_cards_wrap_evenly_and_no_number_breaks(browser, tmp_path, count, rows):
    many = [Card("Output tokens for a dollar", "12,674,269", "", "1.29 $ an hour")] * count
    page = Page("gpt2", "Served.", [Section("Rest", "rest", "", [Notes("Notes", ["One."])])], many)
    write_atomic(tmp_path / "index.html", render(page))
    with visit(browser, tmp_path / "index.html", width=1200) as seen:
        found = seen.page.evaluate(
            """() => [...document.querySelectorAll(".card .value")].map(v => [v.parentElement.offsetTop,
            v.offsetHeight < 1.5 * parseFloat(getComputedStyle(v).fontSize) && v.scrollWidth <= v.clientWidth])"""
        )
    tops = [top for top, _ in found]
    assert [tops.count(top) for top in sorted(set(tops))] == rows and all(whole for _, whole in found)


def test_dark_and_light_differ_and_text_stays_readable(browser, file):
    shots, contrasts = [], []
    for scheme in ("light", "dark"):
        with visit(browser, file, scheme=scheme) as seen:
            shots.append(seen.page.screenshot())
            contrasts += [
                seen.page.evaluate(CONTRAST, place) for place in ("p", "figcaption", "svg text", ".badge", "dt")
            ]
    assert shots[0] != shots[1]
    assert min(contrasts) >= 4.5


CONTRAST = """selector => {
  const light = (css) => {
    const linear = (v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    const [r, g, b] = css.match(/[\\d.]+/g).map((v) => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b + .05;
  };
  const ground = (e) => {
    const css = getComputedStyle(e).backgroundColor;
    return css === "rgba(0, 0, 0, 0)" ? ground(e.parentElement) : css;
  };
  const worst = [...document.querySelectorAll(selector)].map((e) => {
    const style = getComputedStyle(e);
    const pair = [light(e.closest("svg") ? style.fill : style.color), light(ground(e))].sort((a, b) => a - b);
    return pair[1] / pair[0];
  });
  return Math.min(...worst);
}"""


def test_same_data_same_bytes_and_no_leftover_stand_in_colour(file):
    again = sample(EVIL)
    assert file.read_text() == render(again)
    drawn = [block for section in again.sections for block in section.blocks if isinstance(block, Figure)]
    assert len(drawn) == 5
    for figure in drawn:
        ElementTree.fromstring(str(figure.svg))
        assert not re.search(r"#010[12]0|DejaVu|dc:date", figure.svg)


def page_with(*blocks, anchor: str = "s") -> Page:
    return Page("t", "", [Section("s", anchor, "", blocks)])


@pytest.mark.parametrize(
    ("value", "verdict", "message"),
    [
        (float("nan"), False, "table 't', row 1, column 'a' is nan"),
        (float("inf"), False, "is inf"),
        ("fine", True, "must be one of FAIL, deviates, report only, pass, not 'fine'"),
    ],
)
def test_a_misleading_cell_is_refused(value, verdict, message):
    with pytest.raises(ValueError, match=message):
        render(page_with(TableData("t", [Column("a", "A", verdict=verdict)], [{"a": value}])))


def test_a_missing_cell_a_bad_anchor_and_twins_are_refused():
    with pytest.raises(ValueError, match="column 'a' is missing"):
        render(page_with(TableData("t", [Column("a", "A")], [{}])))
    with pytest.raises(ValueError, match="anchor"):
        render(page_with(anchor='x" onload="'))
    with pytest.raises(ValueError, match="one anchor stands on the page 2 times: s"):
        render(Page("t", "", [Section("s", "s"), Section("s", "s")]))
    figure = lines("t", {"a": [(1, 2)]}, xlabel="x [1]", ylabel="y [1]")
    with pytest.raises(ValueError, match="one figure"):
        render(page_with(figure, figure))


def test_a_drawing_from_elsewhere_is_escaped():
    plain: Any = "<svg onload=alert(1)>"
    figure = replace(lines("t", {"a": [(1, 2)]}, xlabel="x [1]", ylabel="y [1]"), svg=plain)
    assert "&lt;svg onload=alert(1)&gt;" in render(page_with(figure))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0, "0"), (9.99996, "10.00"), (123456.7, "123,457"), (1e7, "1.000 × 10⁷"), (1.5e-5, "1.500 × 10⁻⁵")],
)
def test_numbers_read_well(value, text):
    assert (number(value), number(-value)) == (text, f"−{text}" if value else text)


def test_prose_is_escaped_paragraphs_with_code():
    assert prose("a < b\n\n`c`") == "<p>a &lt; b</p><p><code>c</code></p>"
