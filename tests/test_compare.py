"""`pimloom compare`: one workload on several systems."""

import json
import re
from html import unescape
from math import fsum
from pathlib import Path

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.systems.serving.comparing import Compared, Phase
from pimloom.systems.serving.why import why
from tests.command import call

ROOT = Path(__file__).resolve().parent.parent
FOUR = "pim_gpt,npu_only,neupims,gpu_a100"


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    done = call(
        "compare", FOUR, "--model", "gpt2", "--prompt", "48", "--generate", "9", "--every", "4", "--json", "-",
        "--html", folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    return json.loads(done.out), folder


def test_each_system_is_what_run_says(four):
    found, _ = four
    assert [one["system"] for one in found["systems"]] == FOUR.split(",")
    for one in found["systems"]:
        assert one["reason"] is None
        ran = pimloom.run(one["system"], model="gpt2", prompt=48, generate=9, **_options(one["system"]))
        for name in ("latency_s", "time_to_first_token_s", "time_per_output_token_s", "energy_per_token_j", "power_w"):
            tolerance = 1e-9 if one["system"] != "pim_gpt" else 1e-4  # its other tokens are interpolated
            assert one[name] == pytest.approx(getattr(ran, name), rel=tolerance), name
        cells = [cell["j"] or 0.0 for cell in one["energy_by_cell"].values()]
        assert fsum(cells) == pytest.approx(fsum(one["energy_by_cause_j"].values()))
        assert one["energy_per_token_j"] * 9 == pytest.approx(fsum(one["energy_by_cause_j"].values()))
        for phase in ("prefill", "decode"):
            at = one[phase]
            assert at["bound"] == max(at["limits"], key=at["limits"].get) and 0 < at["bound_share"] <= 1
            assert all(0 < share <= 1 + 1e-12 for share in at["utilisation"].values())
        assert one["prefill"]["time_s"] + one["decode"]["time_s"] == pytest.approx(one["latency_s"])
        assert 0 < one["memory_needed_bytes"] < one["memory_bytes"]


def _options(system):
    return {} if system == "pim_gpt" else {"batch": 1, "every": 4}


def test_the_first_is_the_fastest(four):
    found, _ = four
    times = {one["system"]: one["latency_s"] for one in found["systems"]}
    assert found["first"] == min(times, key=lambda name: times[name]) and found["why"].startswith(found["first"])


def test_the_page(four):
    _, folder = four
    page = (folder / "index.html").read_text()
    for system in FOUR.split(","):
        assert page.count(system) > 3
    assert json.loads((folder / "results.json").read_text())["first"]
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    groups = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert groups == {f"{system}, {step}" for system in FOUR.split(",") for step in ("prompt", "decode")}


@pytest.mark.usefixtures("undrawn")
def test_a_system_that_cannot_is_a_row_with_its_reason(tmp_path):
    found = pimloom.compare(
        ["pim_gpt", "npu_only"], model="gpt2", prompt=8, generate=3, batch=2, html=tmp_path / "page"
    )
    one, other = found.systems
    assert one.reason is not None and "runs at most 1 request" in one.reason and one.latency_s is None
    assert other.reason is None and found.first == "npu_only" and "Only npu_only" in found.why
    assert "cannot run it" in (tmp_path / "page/index.html").read_text()
    two = pimloom.compare(["pim_gpt", "npu_only"], model="gpt2", generate=1, tp=2).systems[0]
    assert two.reason is not None and two.reason.startswith("runs all layers of a model on one device; leave ")


def test_files_of_the_page_are_no_others(tmp_path):
    """Before the work: nothing is half-written, and no file takes the place of another."""
    folder, work = tmp_path / "page", ("compare", "gpu_a100", "--model", "gpt2", "--generate", "2")
    folder.mkdir()
    for name in ("index.html", "results.json", "timeline.json"):
        done = call(*work, "--html", folder, "--json", folder / name)
        assert done.code == 2 and f"{name}: is the file of --json too; name another" in done.err
        assert not list(folder.iterdir())
    (folder / "index.html").mkdir()
    done = call(*work, "--html", folder)
    assert done.code == 2 and "index.html: is a folder; name a file in it" in done.err
    assert [path.name for path in folder.iterdir()] == ["index.html"]
    done = call(*work, "--html", "")
    assert done.code == 2 and "expected a folder, got an empty name; . is the current one" in done.err


def test_rows_of_pim_gpt_are_those_of_a_run():
    for prompt, generate in ((100, 3), (128, 4)):
        (one,) = pimloom.compare(["pim_gpt"], model="gpt2", prompt=prompt, generate=generate).systems
        alone = pimloom.run("pim_gpt", model="gpt2", prompt=prompt, generate=generate)
        assert one.memory_needed_bytes == alone.memory_needed_bytes


def test_one_alone():
    assert pimloom.compare(["t4"], model="gpt2", generate=1).why == "t4 is the only system."


def test_nobody_can(tmp_path):
    """One line with the reason of each, no page and no JSON."""
    folder, written = tmp_path / "page", tmp_path / "found.json"
    work = ("--model", "gpt2", "--generate", "3", "--batch", "2", "--html", folder, "--json", written)
    said = "pim_gpt cannot run it: --batch 2: pim_gpt runs at most 1 request at once"
    full = tmp_path / "full.yaml"
    full.write_text(re.sub(r"memory_bytes: \d+", "memory_bytes: 1000", (ROOT / "arch/systems/t4.yaml").read_text()))
    other = "; full cannot run it: --model gpt2: its weights take 0.16 GiB, and full has 0.00 GiB, which leaves no "
    other += "room for keys and values; take a smaller model or more memory"
    for systems, others in (("pim_gpt", ""), (f"pim_gpt,{full}", other)):
        done = call("compare", systems, *work)
        assert (done.code, done.out, done.err) == (2, "", f"pimloom: {said}{others}\n")
        assert not folder.exists() and not written.exists()
    with pytest.raises(UserError, match="pim_gpt cannot run it: batch=2: pim_gpt runs at most 1 request at once"):
        pimloom.compare(["pim_gpt"], model="gpt2", generate=3, batch=2, html=folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"systems": []}, "systems: expected names or paths"),
        ({"systems": ["pim_gpt", "pim_gpt"]}, "pim_gpt is named twice"),
        ({"systems": ["nothing"]}, "nothing"),
        ({"systems": "pim_gpt"}, "systems: expected several names or paths"),
        ({"systems": [4]}, "systems: expected a text or a path, got 4"),
        ({"generate": 0}, "generate=0: expected at least 1"),
        ({"batch": 0}, "batch=0: expected at least 1"),
        ({"every": 0}, "every=0: expected at least 1"),
        ({"tp": 0}, "tp=0"),
        ({"prompt": 1024}, "gpt2 has positions for 1,024 tokens"),
        ({"layers": 13}, "expected 1 to 12"),
        ({"html": "/proc/nowhere"}, "cannot write to /proc/nowhere"),
        ({"batch": True}, "batch: expected a whole number, got True"),
    ],
)
def test_what_is_refused(options, said):
    options = {"systems": ["gpu_a100"], "model": "gpt2", "generate": 2} | options
    with pytest.raises(UserError, match=said):
        pimloom.compare(options.pop("systems"), **options)


def test_a_system_of_a_file_and_two_of_one_name(tmp_path):
    mine = tmp_path / "t4.yaml"
    mine.write_text((ROOT / "arch/systems/t4.yaml").read_text().replace("memory_gb_s: 320", "memory_gb_s: 640"))
    found = pimloom.compare([mine, "gpu_a100"], model="gpt2", generate=2)
    assert [one.system for one in found.systems] == ["t4", "gpu_a100"]
    with pytest.raises(UserError, match="two are called t4; rename a file"):
        pimloom.compare([mine, "t4"], model="gpt2", generate=2)


@pytest.mark.usefixtures("undrawn")
def test_a_system_of_ones_own_beside_the_others(tmp_path):
    phone, card = (ROOT / f"examples/systems/{name}.yaml" for name in ("phone", "pim_card"))
    found = pimloom.compare([phone, card, "pim_gpt"], model="gpt2", prompt=6, generate=3, html=tmp_path)
    assert [one.reason for one in found.systems] == [None] * 3
    for one in found.systems[:2]:
        if one.energy_by_cell is not None:
            cells = [cell.j or 0.0 for cell in one.energy_by_cell.values()]
            assert fsum(cells) == pytest.approx(fsum((one.energy_by_cause_j or {}).values()))
    assert "phone" in (tmp_path / "index.html").read_text()
    weights = 12 * 12 * 768**2 * 2  # the card decodes and the host computes prompts: both have them
    assert 2 * weights < (found.systems[1].memory_needed_bytes or 0) < 2.1 * weights
    assert found.systems[1].memory_bytes == 32 * 2**29 + 192 * 2**30


def _system(name, prefill_s, decode_s, bound):
    of = {"bound": bound, "bound_share": 0.5, "limits": {bound: 0.5}, "utilisation": {}}
    phases = [Phase(time_s=seconds, **of) for seconds in (prefill_s, decode_s)]
    return Compared(system=name, latency_s=prefill_s + decode_s, prefill=phases[0], decode=phases[1])


def test_why_names_what_is_gained_and_lost():
    said = why([_system("a", 1.0, 2.0, "compute"), _system("b", 0.5, 5.5, "link")])
    assert said.startswith("a ends first, 2 times as fast as b: it gains 3,500 ms in decode, though it loses 500 ms ")
    assert said.endswith(
        "a is bound by compute, which would take 50 % of the time at full rate by itself; b is bound by link, which "
        "would take 50 % of the time at full rate by itself."
    )


@pytest.mark.usefixtures("undrawn")
def test_every_table_and_figure_of_the_page_has_a_caption(tmp_path: Path) -> None:
    """Rows of cells without any figure are left out, and what was asked is counted as people do."""
    found = pimloom.compare(["pim_gpt", "gpu_a100"], model="gpt2", prompt=4, generate=2, html=tmp_path / "page")
    text = (tmp_path / "page" / "index.html").read_text()
    assert ">dynamic host<" not in text and ">static compute<" in text
    captions = re.findall(r"<b>(?:Table|Figure) \d+\.</b>(.*?)</(?:div|figcaption)>", text, re.DOTALL)
    assert len(captions) == 9 and all(re.search(r"\w{3}", re.sub(r"<[^>]*>", "", caption)) for caption in captions)
    assert "1 request, prompts of 4 tokens" in text and "1 requests" not in text
    assert all(note in unescape(text) for note in found.notes)


def test_a_tie_of_printed_figures_has_no_winner() -> None:
    """Both GPUs are bound by memory: 0.07577 tokens/s per GB/s each. Their latencies differ."""
    asked = ["compare", "gpu_a100,gpu_h100,cent", "--model", "llama-2-7b", "--prompt", "128", "--generate", "8"]
    said = " ".join(call(*asked).out.split())
    assert said.count(" 0.07577 ") == 2
    assert "Most tokens/s per device: gpu_h100; per GB/s of memory: a tie of gpu_h100 and gpu_a100." in said
    # power is made from energy, and tokens/s per W is the inverse of it
    assert re.search(r"gpu_a100 .* ≤ 3,395 ≤ 400 12\.13", said) and re.search(r"0\.07577 ≥ 0\.2945 ", said)
    assert re.search(r"≥ 7,364 ≥ 223\.6 12\.62", said) and re.search(r"0\.0009266 ≤ 0\.1358 ", said)


def test_a_tie_of_latency_has_no_winner() -> None:
    ran = [_system("a", 1.0, 2.0, "link"), _system("b", 1.0, 2.0000001, "link"), _system("c", 1.0, 2.1, "link")]
    assert why(ran) == "a and b take equally long."
    assert why(ran[1:]).startswith("b ends first")
