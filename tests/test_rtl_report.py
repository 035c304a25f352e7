"""The report of the gates: made from fixed rows and looked at in a browser; from real ones in a slow test."""

import csv
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pimloom import rtl_report
from pimloom.arch.system import PimSystem, load_part, load_system
from pimloom.commands.progress import progress_bar
from pimloom.energy.gate_area import gates
from pimloom.reports.page import render
from pimloom.reports.rtl.published import published
from pimloom.reports.rtl.sections import needed_mhz
from pimloom.reports.rtl.study import build_page, write_report
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow import prove, synth, verify
from pimloom.rtl.flow.power import estimate
from pimloom.rtl.flow.power.estimate import Power
from pimloom.rtl.flow.prove import Proof
from pimloom.rtl.flow.synth import Synthesis
from pimloom.rtl.flow.verified import Verified
from tests.browser import Visit, browser, visit
from tests.command import call

__all__ = ["browser"]

PART = "gddr6_pim_gpt"
TITLE = "The hardware in gates"
LONG = "pimloom: note: takes about 3600 s of a core, less once its results are cached\n"  # first of all


def made(block: str, nand2: float, **change: Any) -> Synthesis:
    """A row of a block of that size."""
    row = Synthesis(
        block, PART, "osu018_stdcells", int(nand2 / 2), 9, 0, 24 * nand2, nand2, 5000.0, "FPGA X", 300, 9, 1, 0, 50.25
    )
    return row._replace(**change)


ROWS = [
    made("sequencer", 12869),
    made("float32_add", 2000.5),
    made("float32_mul", 5430),
    made("bf16_mul", 777, path_ps=0.0),
    made("pim_unit", 45301, fmax_mhz=None),
    made("asic_softmax", 132814, memory_bits=49152),
]
COVERAGE = [
    Verified("sequencer", PART, "verilator", 20000, 0, 66, 67, {"tRC": "it asks for 1 CK"}, 306412, 48612.5),
    Verified("bf16_mul", PART, "verilator", 2000, 0, 0, 0, {}, 2000, 31940.0),
]
PROOFS = [
    Proof("sequencer", PART, "bus", "once", "any below 1024", "k-induction", "yices", 1, "proved", True, True, 1.5),
    Proof("bf16_mul", PART, "product", "as `numpy`", "any inputs", "k-induction", "yices", 1, "proved", True, True, 2),
]
POWER = [
    Power("bf16_mul", PART, "osu018", 577, 500, 500, 0, None, 0.347, 100.0, 1.3736, 1.0655, 4e-5, 2.4391, 0.02439),
]


def plain(rows: list[Any]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "made" / "for it"
    assert write_report(out, plain(ROWS), plain(COVERAGE), plain(PROOFS), plain(POWER)) == out / "index.html"
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "results.csv", "results.json"]
    return out


@pytest.fixture(scope="module")
def seen(browser: Any, folder: Path) -> Iterator[Visit]:
    with visit(browser, folder / "index.html") as here:
        yield here


def cells(seen: Visit, title: str) -> list[list[str]]:
    """Text of the table with that title."""
    place = seen.page.locator("div.block").filter(has=seen.page.get_by_role("heading", name=title, exact=True))
    return [row.locator("td").all_text_contents() for row in place.locator("tbody tr").all()]


def test_page_loads_without_a_message_or_a_request(seen: Visit) -> None:
    assert (seen.messages, seen.errors, seen.requests, seen.page.title()) == ([], [], [], TITLE)
    titles = seen.page.locator("nav a").all_text_contents()
    names = ["Standard cells", "Beside the published figures", "What each block costs", "Power"]
    assert titles == [*names, "FPGA and clock rates", "Verification", "Assumptions"]


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_sticks_out_sideways(browser: Any, folder: Path, width: int) -> None:
    with visit(browser, folder / "index.html", width=width) as here:
        assert here.page.evaluate("document.documentElement.scrollWidth") == width


def test_tables_hold_the_rows(seen: Visit) -> None:
    assert cells(seen, "Standard cells")[1] == ["float32_add", "1,000", "9", "0", "2,000", "48,012", "5,000"]
    rates = cells(seen, "FPGA resources and clock rates")
    assert rates[0] == ["sequencer", "300", "9", "1", "0", "50.2", "200", "2,000"]  # tCK 500 ps
    assert rates[3][6] == rates[4][5] == "–"
    simulated = cells(seen, "Co-simulation with the model")
    assert simulated[0] == ["sequencer", "20,000", "0", "66", "67", "306,412"]
    assert simulated[1] == ["bf16_mul", "2,000", "0", "–", "–", "2,000"]
    result, yes = "proved: k-induction of 1 clock, yices", ["yes", "yes"]
    proofs = [["sequencer", "bus", "once", "any below 1024", result, *yes]]
    assert cells(seen, "Proofs") == [*proofs, ["bf16_mul", "product", "as numpy", "any inputs", result, *yes]]


def test_gates_stand_beside_published_area_and_power(seen: Visit) -> None:
    both, narrow, macs = cells(seen, "Our gates for what is published")
    gates = 256 * 2000.5 + 128 * 5430
    assert both[0] == "ASIC: 256 float32 adders, 128 float32 multipliers"
    assert both[1:6] == [f"{gates:,.0f}", "0.64", f"{0.64e6 / gates:.2f}", "304.59", f"{304590 / gates:.2f}"]
    assert narrow[1] == f"{256 * 2000.5 + 128 * 777:,.0f}"
    assert macs[:5] == ["MAC units of a channel: 16", f"{16 * 45301:,}", "–", "–", "149.29"]
    assert macs[6] == "area unknown, power secondary"


def test_blocks_cost_per_bank_array_and_channel_beside_published_areas(seen: Visit) -> None:
    shown = {row[0]: row for row in cells(seen, "Blocks of an NPU and of its channels")}
    assert list(shown) == list(gates()) and shown["pim_unit"][1] == "bank"
    made = {"pim_unit": 45301, "sequencer": 12869}  # of this run
    for name, line in gates().items():
        nand2 = made.get(name, line.nand2)
        assert shown[name][2] == f"{nand2:,.0f}" and shown[name][5] == line.command
        assert shown[name][4] == f"{nand2 * 0.798 / 1e6:.5f}"
    beside = cells(seen, "Beside published areas")
    assert [row[2] for row in beside] == ["0.1025", "0.000184", "3.11", "3.11"]
    unit = 1.5 * 45301 * 0.798e-6
    assert beside[0][1] == f"{unit:.5g}" and beside[0][4] == f"{unit / 0.1025:.2f}"
    assert {row[6] for row in beside} == {"derived", "paper"}


def test_a_block_has_the_same_size_in_all_tables(seen: Visit) -> None:
    twice = {row[0]: row[2] for row in cells(seen, "Blocks of an NPU and of its channels")}
    once = {row[0]: row[4] for row in cells(seen, "Standard cells")}
    assert {name: twice[name] for name in once if name in twice} == {"sequencer": "12,869", "pim_unit": "45,301"}
    assert once["sequencer"] == "12,869" and once["pim_unit"] == "45,301"


def test_without_a_terminal_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((0.0, 3.0, 31.0, 32.0, 62.0))
    monkeypatch.setattr("pimloom.commands.progress.time.monotonic", lambda: next(clock))
    with progress_bar("making rtl", quiet=False) as progress:
        for done in range(1, 5):
            progress(done, 400)
    said = "pimloom: making rtl: 2 of 400 after 31 s\npimloom: making rtl: 4 of 400 after 62 s\n"
    assert capsys.readouterr().err == said
    with progress_bar("making rtl", quiet=True) as progress:
        progress(1, 2)
    assert capsys.readouterr().err == ""


def test_power_is_shown_where_there_is_one(seen: Visit) -> None:
    (row,) = cells(seen, "Power from a run")
    assert row == ["bf16_mul", "500", "500", "0.347", "100", "1.374", "1.065", "4e-05", "2.439", "0.0244", "0"]
    assert "<code>pimloom rtl power</code>" in render(build_page(plain(ROWS)))


def test_published_figures_are_shown_as_printed_with_their_evidence(seen: Visit) -> None:
    shown = cells(seen, "Published figures")
    assert [row[4] for row in shown] == [line.tag for line in published().values()]
    assert {row[0]: row[1] for row in shown}["PIM-GPT: ASIC power"] == "304.59"
    assert {row[4] for row in shown} <= {"paper", "secondary", "recalled", "derived", "unknown"}


def test_published_figures_are_those_of_the_system() -> None:
    paper, system = published(), load_system("pim_gpt")
    assert isinstance(system.spec, PimSystem) and system.part is not None and system.part.pim_unit is not None
    npu = system.spec.npu
    ours = {
        "asic_area": npu.area_mm2,
        "asic_power": npu.power_mw,
        "asic_adders": npu.adders,
        "asic_multipliers": npu.multipliers,
        "asic_sram": npu.sram_bytes,
        "asic_clock": npu.clock_mhz,
        "mac_power": system.part.pim_unit.mac_power_mw,
    }
    assert {name: paper[name].value for name in ours} == ours
    assert paper["attacc_unit"].value == pytest.approx(13.12 / (16 * 2 * 2 * 16 / 8))
    assert paper["duplex_mac"].value == pytest.approx(3.02 / (32 * 512), rel=2e-3)


def test_needed_clocks() -> None:
    system = load_system("pim_gpt")
    assert isinstance(system.spec, PimSystem) and system.part is not None
    needed = {block: needed_mhz(block, system.spec, system.part) for block in BLOCKS}
    assert needed["sequencer"] == needed["timer"] == 2000 and needed["ocs_switch"] == 10
    assert needed["pim_unit"] == needed["bf16_tree"] == needed["asic_exp"] == needed["float32_add"] == 1000


def test_files_hold_the_rows(folder: Path) -> None:
    with (folder / "results.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    found = json.loads((folder / "results.json").read_text())
    assert [row["block"] for row in written] == [row.block for row in ROWS]
    assert list(written[0]) == list(Synthesis._fields) and written[4]["fmax_mhz"] == ""
    assert found["synthesis"] == plain(ROWS) and found["verification"] == plain(COVERAGE)
    assert found["proofs"] == plain(PROOFS) and len(found["published"]) == len(published())


def test_what_was_not_run_is_said_and_generic_gates_have_no_area() -> None:
    gone = {"library": "generic gates", "area_um2": None, "nand2_equivalents": None, "path_ps": None}
    html = render(build_page([row._asdict() | gone for row in ROWS]))
    assert "<code>pimloom rtl verify</code> and <code>pimloom rtl prove</code>" in html
    assert "generic gates [1]" in html and "Our gates for what is published" not in html


def test_the_headline_is_an_area_in_another_process() -> None:
    """256 adders and 128 multipliers beside 0.64 mm² at 28 nm: shown, and not reproduced."""
    area = {row.block: row.area_um2 for row in ROWS}
    said = build_page(plain(ROWS)).claim
    assert said and not said.reproduced and "180 nm where the ASIC is 28 nm" in said.why
    wanted = "not synthesised"
    if area.get("float32_add") and area.get("float32_mul"):
        wanted = f"{(256 * (area['float32_add'] or 0) + 128 * (area['float32_mul'] or 0)) / 1e6:.2f}"
    assert [tuple(line)[1:3] for line in said.lines] == [(wanted, "0.64")]
    gone = build_page([row._asdict() | {"area_um2": None} for row in ROWS]).claim
    assert gone and gone.lines[0].ours == "not synthesised"


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What the work behind the report returns, and under `asked` what it was asked for."""
    found: dict[str, list[Any]] = {"coverage": COVERAGE, "proofs": PROOFS, "power": POWER, "asked": []}

    def fake(blocks: Any, part: Any, name: str, progress: Any, note: Any) -> list[Synthesis]:
        note("nobody hears this without a terminal")
        found["asked"].extend([*blocks, name])
        return ROWS

    monkeypatch.setattr(synth, "synthesize", fake)
    monkeypatch.setattr(verify, "verify", lambda block, part: found["coverage"])
    monkeypatch.setattr(prove, "prove", lambda block, part, progress, note: found["proofs"])
    monkeypatch.setattr(rtl_report, "POWERED", ("bf16_mul",))
    monkeypatch.setattr(estimate, "LIBRARY", Path(__file__))  # there is one
    monkeypatch.setattr(estimate, "estimate_power", lambda block, part, device, **options: found["power"][0])
    return found


def test_the_command_composes_the_report(tmp_path: Path, folder: Path, faked: dict[str, list[Any]]) -> None:
    assert call("report", "rtl", "--out", tmp_path) == (0, f"{tmp_path}/index.html\n", LONG)
    assert faked["asked"] == [*synth.all_blocks(load_part(PART).value), PART]
    assert (tmp_path / "index.html").read_text() == (folder / "index.html").read_text()
    blocked = tmp_path / "file"
    blocked.touch()
    assert call("report", "rtl", "--out", blocked).code == 2


def test_what_fails_is_written_and_then_said(tmp_path: Path, faked: dict[str, list[Any]]) -> None:
    faked |= {"coverage": [COVERAGE[0]._replace(mismatches=2)], "proofs": [PROOFS[0]._replace(result="FAILED")]}
    done, page = call("report", "rtl", "--out", tmp_path), tmp_path / "index.html"
    sentence = "gates and model differ, or a proof fails: 2 in sequencer, bus (any below 1024)"
    assert done == (1, "", f"{LONG}pimloom: {sentence}; see {page}\n")
    assert "FAILED" in page.read_text()


@pytest.mark.slow
def test_a_report_of_real_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any) -> None:
    few = {name: BLOCKS[name] for name in ("timer", "float32_add", "bf16_mul", "asic_partials")}
    monkeypatch.setattr(synth, "all_blocks", lambda part: few)
    monkeypatch.setattr(verify, "find_blocks", lambda block, part: few)
    monkeypatch.setattr(rtl_report, "POWERED", ("bf16_mul",))
    monkeypatch.setattr(prove, "prove", partial(prove.prove, own_timings=False, properties=("bus",)))
    page = rtl_report.run_study(tmp_path)
    rows = json.loads((tmp_path / "results.json").read_text())["synthesis"]
    assert [row["block"] for row in rows] == list(few)
    assert all(row["cells"] > 0 and row["lut4"] > 0 and row["fmax_mhz"] > 10 for row in rows)
    with visit(browser, page, width=375) as here:
        assert (here.messages, here.errors, here.requests) == ([], [], [])
        assert here.page.evaluate("document.documentElement.scrollWidth") == 375
