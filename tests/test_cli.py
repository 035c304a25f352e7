"""What `pimloom` prints, field by field and letter by letter.

Printed output is compared with `tests/golden`; after a change that is meant, `PIMLOOM_UPDATE_GOLDEN=1 pytest
tests/test_cli.py` writes the files anew, and their diff goes into the review.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.cli import COMMANDS, GROUPS, command
from pimloom.systems.devices.result import Result
from tests.command import ENVIRONMENT, call, spawn

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).parent / "golden"
RUN = ("run", "pim_gpt", "--model", "gpt2", "--generate", "4")
PRINTED = {
    "help.txt": ("--help",),
    "help_list.txt": ("list", "--help"),
    "help_run.txt": ("run", "--help"),
    "help_report.txt": ("report", "--help"),
    **{f"help_report_{name}.txt": ("report", name, "--help") for name in ("neupims", "infinitehbd")},
    "help_explain.txt": ("explain", "--help"),
    "help_trace.txt": ("trace", "--help"),
    "trace_ddr4.txt": ("trace", "ddr4_3200", "--pattern", "mixed", "--requests", "5000"),
    "explain_controller.txt": ("explain", "controller.refresh"),
    **{f"help_rtl_{name}.txt": ("rtl", name, "--help") for name in ("list", "emit", "verify", "prove", "synth")},
    "help_rtl_power.txt": ("rtl", "power", "--help"),
    "help_rtl.txt": ("rtl", "--help"),
    "help_sweep.txt": ("sweep", "--help"),
    **{f"help_sweep_{name}.txt": ("sweep", name, "--help") for name in ("run", "status", "export", "report")},
    "list.txt": ("list",),
    "list.json": ("list", "--json", "-"),
    "run_pim_gpt.txt": RUN,
    "run_pim_gpt.json": (*RUN, "--json", "-"),
    "run_t4.txt": ("run", "t4", "--model", "gpt2-xl", "--generate", "4"),
    "run_t4.json": ("run", "t4", "--model", "gpt2-xl", "--generate", "4", "--json", "-"),
    "help_compare.txt": ("compare", "--help"),
    "compare.txt": (
        "compare",
        "pim_gpt,npu_only,neupims,gpu_a100",
        "--model",
        "gpt2",
        "--prompt",
        "48",
        "--generate",
        "9",
    ),
    "compare_tp.txt": ("compare", "pim_gpt,npu_only,gpu_a100", "--model", "gpt2", "--generate", "3", "--tp", "2"),
    "explain.txt": ("explain",),
    "explain_tCCD_L.txt": ("explain", "dram.timing.tCCD_L"),
    "explain_tCCD_L.json": ("explain", "dram.timing.tCCD_L", "--json", "-"),
    "explain_clock.txt": ("explain", "npu.clock_mhz"),
    "explain_launch.txt": ("explain", "launch_us"),
    "explain_packing.txt": ("explain", "packing"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_output(name: str) -> None:
    done = call(*PRINTED[name])
    assert (done.code, done.err) == (0, "")
    if os.environ.get("PIMLOOM_UPDATE_GOLDEN") == "1":
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(done.out, encoding="utf-8")
    assert done.out == (GOLDEN / name).read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir() if path.is_file()} == set(PRINTED)


def test_version_and_a_bare_call() -> None:
    assert call("--version") == (0, f"pimloom {pimloom.__version__}\n", "")
    assert call() == call("--help")


# The contract: field -> type in the declared order. CONVENTIONS.md documents it.
NUMBER, WHOLE, TEXT = (float,), (int,), (str,)
FIELDS: dict[str, tuple[type | None, ...]] = {
    "system": TEXT,
    "model": TEXT,
    "workload": (dict,),
    "latency_s": NUMBER,
    "time_to_first_token_s": NUMBER,
    "time_per_output_token_s": (float, None),
    "time_per_token_s": NUMBER,
    "tokens_per_s": NUMBER,
    "energy_j": (float, None),
    "energy_per_token_j": (float, None),
    "energy_by_cause_j": (dict, None),
    "energy_by_cell": (dict, None),
    "power_w": (float, None),
    "time_by_step_s": (dict,),
    "row_hit_rate": (float, None),
    "data_movement_reduction": (float, None),
    "data_movement_reduction_on_wires": (float, None),
    "non_vmm_share": (float, None),
    "mac_utilisation": (float, None),
    "interface_bytes": (int, None),
    "cycles": (int, None),
    "tck_ps": (int, None),
    "command_counts": (dict, None),
    "memory_needed_bytes": (int, None),
    "memory_bytes": (int, None),
    "max_tokens": (int, None),
    "roofline_s": (float, None),
    "launch_s": (float, None),
    "spec_digest": TEXT,
    "version": TEXT,
    "seed": WHOLE,
}


def test_the_fields_are_a_contract() -> None:
    assert list(Result.__struct_fields__) == list(FIELDS)
    section = (ROOT / "CONVENTIONS.md").read_text(encoding="utf-8").partition("## The result")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(first_cells)) == list(FIELDS)


@pytest.mark.parametrize("system", ["pim_gpt", "t4", "xeon_6154"])
def test_json_has_the_fields_with_their_types(system: str) -> None:
    found = json.loads(call("run", system, "--model", "gpt2", "--generate", "2", "--json", "-").out)
    assert list(found) == sorted(FIELDS)
    for name, kinds in FIELDS.items():
        assert (None if found[name] is None else type(found[name])) in kinds, name
    assert found["workload"] == {"prompt_tokens": 0, "generated_tokens": 2, "batch": 1, "lm_head": False}
    assert sum(found["energy_by_cause_j"].values()) == pytest.approx(found["energy_j"], rel=1e-9)
    assert sum(found["time_by_step_s"].values()) == pytest.approx(found["latency_s"], rel=1e-9)


def test_a_part_without_currents_has_no_energy_but_all_else() -> None:
    found = call(*RUN, "--set", "dram.part=gddr6_aim")
    assert found.code == 0 and "energy per output token" not in found.out and "tokens per second" in found.out
    assert "no energy: dram.part gddr6_aim gives no dram.current.IDD0, IDD3N, IDD4R, IDD4W, IDD5B" in found.out


def test_the_python_api_returns_what_the_command_prints() -> None:
    printed = json.loads(call(*RUN, "--set", "npu.clock_mhz=500", "--set", "dram.refresh=false", "--json", "-").out)
    result = pimloom.run("pim_gpt", model="gpt2", generate=4, set={"npu.clock_mhz": 500, "dram.refresh": False})
    assert list(result.as_dict()) == list(FIELDS)
    assert json.loads(json.dumps(result.as_dict())) == printed


def test_same_command_same_bytes() -> None:
    command = (*RUN, "--set", "workload.lm_head=true", "--json", "-")
    one, other = (spawn(*command, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one == other == call(*command)
    assert (one.code, one.err) == (0, "")


def test_outputs_go_where_they_are_told(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    with_table, quiet = call(*RUN, "--json", file), call(*RUN, "--quiet")
    assert file.read_text() == (GOLDEN / "run_pim_gpt.json").read_text()
    assert with_table.out == (GOLDEN / "run_pim_gpt.txt").read_text()
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_check_and_seed_change_no_number() -> None:
    plain, checked = (json.loads(call(*RUN, "--json", "-", *more).out) for more in ((), ("--check", "--seed", "7")))
    assert checked == plain | {"seed": 7}


def test_help_is_light() -> None:
    heavy = "numba", "matplotlib", "pandas", "scipy", "numpy", "rich.table"
    load = "from pimloom.cli import COMMANDS, command; [command(name) for name in COMMANDS]"
    look = f"import sys; {load}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_a_command_has_no_option_of_the_whole_and_one_line_in_its_help(name: str) -> None:
    shown = call("--help").out
    assert re.search(rf"^  {name} +[A-Z]", shown, re.MULTILINE)
    assert not {"install_completion", "show_completion"} & {option.name for option in command(name).params}


# The timeline: times as exact numbers, in us.
Events = list[dict[str, Any]]


@pytest.fixture
def two_layers(tmp_path: Path) -> Path:
    """A model of two layers of GPT-2."""
    shape = {"n_embd": 768, "n_head": 12, "n_layer": 2, "n_positions": 1024, "vocab_size": 50257}
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))
    return tmp_path / "two"


def timeline(
    file: Path, window: str, generate: int = 1, model: str | Path = "gpt2"
) -> tuple[dict[str, Events], list[str]]:
    """Events by track, and the names of the tracks in their order."""
    command = ("run", "pim_gpt", "--model", model, "--generate", str(generate), "--timeline", file, "--window", window)
    done = call(*command, "--quiet")
    assert done == (0, "", "")
    found = json.loads(file.read_text(), parse_float=Decimal)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    tracks: dict[str, Events] = {name: [] for name in names.values()}
    for event in found:
        if event["ph"] == "X":
            tracks[names[event["tid"]]].append(event)
    return tracks, list(tracks)


BANKS = [f"bank group {group} bank {bank}" for group in range(4) for bank in range(4)]


def test_timeline_of_a_window(tmp_path: Path) -> None:
    tracks, names = timeline(tmp_path / "one.json", "0:5")
    timeline(tmp_path / "two.json", "0:5")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert sorted(names) == sorted([*BANKS, "command bus", "instructions", "ASIC"])
    events = [event for track in tracks.values() for event in track]
    assert all(event["ts"] < 5 and event["ts"] + event["dur"] > 0 for event in events)
    assert [e["name"] for e in tracks["instructions"]][:4] == ["QKV", "K write", "V write", "score"]
    # LayerNorm takes 3 passes of 768 / 128 ASIC clocks of 1 ns, then 48 bursts of 2 CK load the vector
    assert tracks["ASIC"][0].items() >= {"name": "LayerNorm 1", "ts": 0, "dur": Decimal("0.018")}.items()
    load, opening = tracks["command bus"][:2]
    assert load.items() >= {"name": "WRGB", "ts": Decimal("0.018"), "dur": Decimal("0.0475")}.items()
    assert opening.items() >= {"name": "ACTab", "ts": Decimal("0.066"), "dur": Decimal("0.0005")}.items()
    for bank in BANKS:
        assert [(e["name"], e["args"]["row"]) for e in tracks[bank][:2]] == [("ACTab", 0), ("MACab", 0)]
        assert tracks[bank][1]["ts"] - tracks[bank][0]["ts"] == Decimal("0.012")


def test_timeline_of_a_whole_run_shows_every_command(tmp_path: Path, two_layers: Path) -> None:
    tracks, _ = timeline(tmp_path / "all.json", "0:75", model=two_layers)
    counts = pimloom.run("pim_gpt", model=two_layers, generate=1).command_counts
    assert counts is not None
    drawn = Counter({"REFab": 0})
    for event in tracks["command bus"]:
        drawn[event["name"]] += event["args"].get("count", 1)
    everywhere = ("ACTab", "MACab", "PREab", "RDMAC", "WRGB", "WRAab", "REFab")
    assert {name: 8 * drawn[name] for name in everywhere} == {name: counts[name] for name in everywhere}
    of_one_channel = ("ACT", "WR", "PRE")  # K goes to one channel
    assert {name: drawn[name] for name in of_one_channel} == {name: counts[name] for name in of_one_channel}
    for bank in BANKS:
        assert sum(event["name"] == "ACTab" for event in tracks[bank]) == drawn["ACTab"]
    for name, track in tracks.items():  # one thing at a time, but for a refresh that interrupts a run
        for event, after in pairwise(e for e in track if (name, e["name"]) != ("command bus", "REFab")):
            assert event["ts"] + event["dur"] <= after["ts"], (name, event, after)


def test_timeline_late_in_a_run_continues_the_early_one(tmp_path: Path, two_layers: Path) -> None:
    """A window in the second token shows what a window over both shows there."""
    whole, _ = timeline(tmp_path / "whole.json", "0:150", 2, two_layers)
    late, _ = timeline(tmp_path / "late.json", "16.5:17.25", 2, two_layers)
    low, high = Fraction("16.5"), Fraction("17.25")
    first = [e for e in whole["instructions"] if e["name"] == "QKV"]
    assert len(first) == 4 and first[2]["ts"] < low < high < first[3]["ts"]
    assert all(late.values())
    for name, track in whole.items():
        assert late[name] == [e for e in track if e["ts"] < high and e["ts"] + e["dur"] > low], name
