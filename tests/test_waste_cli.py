"""`pimloom fabric waste` and `pimloom fabric faults` as a user types them, and everything that can be wrong."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command import call, snapshot

EVENT = {"event_type": "fault_start", "fault_type": {"Level": "Hardware Failure", "Class": "GPU", "Desc": "DBE"}}
TRACE = [
    EVENT | {"node_id": "a", "event_time": 0.5},
    EVENT | {"node_id": "b", "event_time": 1},
    EVENT | {"node_id": "a", "event_time": 2, "event_type": "fault_end"},
    EVENT | {"node_id": "b", "event_time": 4, "event_type": "fault_end"},
]
FIELDS = [
    *("arch", "gpus", "gpus_per_node", "tp", "fault_ratio", "draws"),
    *("waste_ratio_mean", "waste_ratio_p50", "waste_ratio_p99", "usable_gpus_mean", "usable_gpus_min"),
    *("job_gpus", "job_wait_ratio", "note"),
]
FABRICS = "big-switch,infinitehbd-k2"
SMALL = ("waste", "--gpus", "288", "--draws", "3")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.json").write_text(json.dumps(TRACE))
    Path("cut.json").write_text(json.dumps(TRACE)[:-40])
    Path("end.json").write_text(json.dumps(TRACE[2:], indent=1))
    Path("early.json").write_text(json.dumps([EVENT | {"node_id": "a", "event_time": -0.5}], indent=1))
    Path("open.json").write_text(json.dumps(TRACE[:3]))
    Path("folder").mkdir()


def result(*arguments: str) -> dict:
    done = call("fabric", *arguments, "--json", "-")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_a_trace_by_hand() -> None:
    """Two servers of two, all outages kept: a is down for 1.5 of 4 days, b for 3; both for 1."""
    cluster = ("--gpus", "16", "--gpus-per-node", "8", "--tp", "8,16", "--job-gpus", "16")
    found = result("waste", *cluster, "--faults", "trace.json", "--servers", "2", "--arch", FABRICS)
    assert [row["arch"] for row in found["rows"]] == ["big-switch", "big-switch", "infinitehbd-k2", "infinitehbd-k2"]
    for row in found["rows"]:
        assert sorted(row) == sorted(FIELDS)
        assert row["fault_ratio"] == pytest.approx(4.5 / 8)
        both = row["tp"] == 16  # one healthy server alone is wasted: 2.5 of 4 days, half of the GPUs
        assert row["waste_ratio_mean"] == pytest.approx(2.5 / 8 if both else 0)
        assert (row["waste_ratio_p50"], row["waste_ratio_p99"]) == ((0.5, 0.5) if both else (0, 0))
        assert row["usable_gpus_min"] == 0 and row["usable_gpus_mean"] == pytest.approx(2 if both else 7)
        assert row["job_wait_ratio"] == pytest.approx(3.5 / 4)
    trace = {"name": "trace.json", "synthetic": False, "servers": 2, "horizon_h": 96, "server_fault_ratio": 4.5 / 8}
    assert found["trace"] == trace | {"server_fault_ratio": pytest.approx(4.5 / 8)}


def test_ranges_of_fault_ratios() -> None:
    found = result(*SMALL, "--arch", "nvl72,sip-ring", "--tp", "8,16", "--fault-ratio", "0:0.1:0.05")
    keys = [(row["arch"], row["tp"], row["fault_ratio"]) for row in found["rows"]]
    assert keys == [(arch, tp, f) for arch in ("nvl72", "sip-ring") for tp in (8, 16) for f in (0.0, 0.05, 0.1)]
    assert found["trace"] is None and all(row["draws"] == 3 for row in found["rows"])


def test_a_sweep_is_shown_with_a_column_for_each_ratio() -> None:
    done = call(
        "fabric", *SMALL, "--arch", "big-switch,nvl72,sip-ring", "--fault-ratio", "0:0.15:0.01", "--tp", "16,32"
    )
    lines = done.out.splitlines()
    heads = [line.split() for line in lines if line.strip().startswith("arch")]
    assert heads[0][2:] + heads[1][2:] == [str(nth) for nth in range(16)]
    rows = [line.split() for line in lines if line.strip().startswith("nvl72")]
    assert rows[0][:3] == ["nvl72", "16", "11.11"] and len(rows) == 4
    assert max(map(len, lines)) <= 118


def test_files_and_the_table_say_the_same() -> None:
    done = call("fabric", *SMALL, "--json", "w.json", "--csv", "w.csv", "--job-gpus", "250")
    assert done.code == 0 and done.err == ""
    rows = json.loads(Path("w.json").read_text())["rows"]
    read = list(csv.DictReader(Path("w.csv").read_text().splitlines()))
    assert list(read[0]) == FIELDS and [row["arch"] for row in read] == [row["arch"] for row in rows]
    assert [float(row["waste_ratio_mean"]) for row in read] == [row["waste_ratio_mean"] for row in rows]
    assert "synthetic, seed 0, 348 days; 3 draws" in " ".join(done.out.split()) and "250 GPUs wait" in done.out
    assert f"{100 * rows[0]['waste_ratio_mean']:.2f}" in done.out


def test_a_figure() -> None:
    assert call("fabric", *SMALL, "--arch", "infinitehbd-k3,dgx8", "--figure", "w.svg", "-q") == (0, "", "")
    assert ElementTree.parse("w.svg").getroot().tag.endswith("svg")


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    one, again, other = (call("fabric", *SMALL, "--seed", seed, "--json", "-").out for seed in ("1", "1", "2"))
    assert one == again != other


def test_a_written_synthetic_trace_gives_the_rows_of_the_default() -> None:
    assert call("fabric", "faults", "--synthesise", "s.json", "--seed", "4", "-q") == (0, "", "")
    rows = result(*SMALL, "--seed", "4")["rows"]
    assert result(*SMALL, "--seed", "4", "--faults", "s.json", "--days", "348")["rows"] == rows


def test_of_all_those_that_cannot_be_built_are_told() -> None:
    rows = result("waste", "--gpus", "576", "--gpus-per-node", "8", "--draws", "1", "--tp", "8")["rows"]
    (row,) = [row for row in rows if row["waste_ratio_mean"] is None]
    assert row["arch"] == "nvl36" and row["note"].startswith(
        "its units of 36 GPUs are no multiple of --gpus-per-node 8"
    )
    assert sorted(row) == sorted(FIELDS)


def test_the_definition_stands_in_the_help() -> None:
    text = " ".join(call("fabric", "waste", "--help").out.split())
    assert "Waste is the share of all GPUs that are healthy and fit in no tensor-parallel group" in text


def test_statistics_of_a_trace() -> None:
    found = result("faults", "--faults", "trace.json", "--servers", "4")
    assert (found["servers"], found["servers_that_fail"], found["outages"], found["horizon_h"]) == (4, 2, 2, 96)
    assert found["fault_ratio_mean"] == pytest.approx(4.5 / 16) and found["seed"] is None
    done = call("fabric", "faults", "--faults", "trace.json", "--csv", "c.csv")
    assert "trace.json: 400 servers, 4 days" in done.out and Path("c.csv").read_text().count("\n") == 2
    assert result("faults")["seed"] == 0


def test_an_open_fault_is_noted() -> None:
    done = call("fabric", "faults", "--faults", "open.json")
    assert done.code == 0
    assert (
        done.err == "pimloom: note: open.json: event 2, node_id 'b': the fault never ends; taken as down until day 2\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("waste --faults none.json", "none.json: no such file"),
        ("waste --faults cut.json", "cut.json:1: not JSON: "),
        ("waste --faults end.json", "end.json:2: event 1: fault_end of node_id 'a', 'GPU': no such fault began before"),
        ("faults --faults early.json", "early.json:2: event 1: event_time: expected a number >= 0.0, got -0.5"),
        (
            "faults --faults trace.json --servers 1",
            "--servers 1: trace.json names 2 servers; expected at least as many",
        ),
        ("faults --servers 0", "--servers 0: expected 1 to 10000000"),
        ("faults --faults trace.json --days nan", "--days nan: expected more than 0 and at most 36500"),
        ("faults --days 3", "--days 3: belongs to --faults FILE"),
        ("faults --faults trace.json --synthesise x.json", "--synthesise x.json: --faults trace.json is a trace"),
        ("faults --faults trace.json --json trace.json", "--json trace.json: is the file of --faults too"),
        ("waste --json folder", "--json folder: is a folder; name a file in it"),
        ("waste --csv a.csv --json a.csv", "--csv a.csv: is the file of --json too; name another"),
        ("waste --figure none/a.svg", "--figure none/a.svg: there is no folder none; make it first"),
        ("waste --tp 8,16 --figure a.svg", "--figure a.svg: shows one --tp, got 8,16; name one"),
        (
            "waste --arch dgx8 --figure a.svg",
            "--figure a.svg: no group of --tp 32 fits these",
        ),
        (
            "waste --fault-ratio 0:1:0.001 --draws 99999",
            "--fault-ratio '0:1:0.001': 1001 values; expected",
        ),
        ("waste --fault-ratio 0:0.9:0.001 --draws 99999", "--draws 99999: of 901 fault ratios, 10 pairs of"),
        ("waste --tp 6", "--tp 6: expected a multiple (or a divisor) of --gpus-per-node 4"),
        ("waste --tp x", "--tp 'x': expected integers from 1 to 999999999, like 8,16,32"),
        ("waste --tp 4096", "--tp 4096: expected at most --gpus 2880"),
        ("waste --arch infinitehbd-k5", "--arch infinitehbd-k5: 5 bundles need as many slots; a node with"),
        ("waste --arch nvl37", "--arch 'nvl37': no such architecture; nearest: nvl"),
        ("waste --arch nvl36 --gpus-per-node 8 --tp 8", "--arch nvl36: its units of 36 GPUs are no multiple of"),
        ("waste --gpus 2881", "--gpus 2881: expected a multiple of --gpus-per-node 4"),
        (
            "waste --gpus 4000 --faults trace.json",
            "--gpus 4000: 500 servers; trace.json has 400: expected at most 3200",
        ),
        ("waste --gpus-per-node 2", "--gpus-per-node 2: a trace is of servers with 8 GPUs; expected 4 or 8"),
        ("waste --draws 0", "--draws 0: expected 1 to 100000"),
        ("waste --job-gpus 2881", "--job-gpus 2881: expected 1 to --gpus 2880"),
        ("waste --fault-ratio 1.5", "--fault-ratio '1.5': expected shares from 0 to 1"),
        (
            "waste --fault-ratio 0.1 --faults trace.json",
            "--faults trace.json: belongs to a trace, and --fault-ratio 0.1",
        ),
        ("waste --gpus 200000", "--gpus 200000: a synthetic trace has at most 16384 servers of 8 GPUs; expected at"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: str, said: str) -> None:
    before = snapshot(Path.cwd())
    done = call("fabric", *arguments.split())
    assert done.code == 2 and done.out == ""
    assert done.err.startswith(f"pimloom: {said}") and done.err.count("\n") == 1
    assert snapshot(Path.cwd()) == before
