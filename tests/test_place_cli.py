"""`pimloom fabric place` as a user types it: printed output, files, the JSON, and everything that can be wrong."""

import csv
import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.topology.khop import khop
from pimloom.reports.fabric.place_draw import cluster_figure, ring_figure
from pimloom.reports.fabric.place_text import text_lines
from pimloom.systems.fabric.place import Job, place_job, summary
from tests.command import call, snapshot

EXAMPLE = ("--nodes", "720", "--tp", "32", "--job-gpus", "2448", "--faulty", "17,203-205", "--tor-size", "8")
SMALL = ("--nodes", "48", "--tp", "16", "--tor-size", "4")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()


def result(*arguments: str) -> dict:
    done = call("fabric", "place", *arguments, "--json", "-")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_the_example():
    found = result(*EXAMPLE)
    assert (found["gpus"], found["group_nodes"], found["tors"], found["groups"]) == (2880, 8, 90, 76)
    assert found["faulty"] == [17, 203, 204, 205] and found["faulty_nodes"] == 4
    assert found["groups_that_fit"] == 716 // 8 and found["wasted_nodes"] == 716 % 8
    assert found["idle_nodes"] == 716 - 76 * 8 and found["job_gpus"] == 76 * 32
    assert found["holds"] is True and found["complaints"] == []
    assert found["cross_tor_share"] == 0 == found["cross_tor_crossing"]
    rings = found["rings"]
    assert [sorted(ring) for ring in rings] == [sorted(ranks) for ranks in found["ranks"]]
    used = Counter(node for ring in rings for node in ring)
    assert set(used.values()) == {1} and not set(used) & set(found["faulty"]) and len(used) == 608


@pytest.mark.parametrize("algorithm", ["spares", "aligned", "unconstrained", "ring"])
def test_hops_bypasses_and_rows_agree(algorithm):
    found = result(
        "--fault-ratio", "0.05", "--seed", "3", "--algorithm", algorithm, "--csv", "rows.csv", "--dcn-share", "0.1"
    )
    assert found["algorithm"] == algorithm and found["seed"] == 3 and found["fault_ratio"] == 0.05
    with Path("rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found["groups"] * found["group_nodes"]
    hops = Counter(int(row["hop_to_next"]) for row in rows if row["hop_to_next"])
    assert found["cross_tor_share"] == found["cross_tor_crossing"] / found["cross_tor_pairs"]
    assert found["cross_tor_share_of_traffic"] == pytest.approx(0.1 * found["cross_tor_share"])
    assert found["bypasses_by_length"] == {"1": hops[2], "2": hops[3]} and max(hops) <= 3
    assert [int(row["node"]) for row in rows] == [node for ring in found["rings"] for node in ring]
    for row in rows:
        group, rank = int(row["group"]), int(row["rank"])
        assert found["ranks"][group][rank] == int(row["node"]) == int(row["tor"]) * 8 + int(row["position"]) // 90
    with_twins = Counter(tuple(sorted(node // 8 for node in ring)) for ring in found["rings"])
    assert found["twin_groups"] == sum(count for count in with_twins.values() if count > 1)


def test_the_drawing_in_characters():
    done = call("fabric", "place", *SMALL, "--job-gpus", "112", "--faulty", "9,13", "--algorithm", "aligned")
    assert done.code == 0 and done.err == ""
    lines = done.out.splitlines()
    assert lines[:5] == [
        "ToRs 0 to 11, one row for each node of a ToR",
        "   0 aaaabbbbcccc",
        "   1 ..xxbbbbcccc",
        "   2 aaaabbbb....",
        "   3 ............",
    ]
    assert lines[-1] == "verifier: holds; 7 rings, each one cycle over live paths"
    assert any(line.split()[:3] == ["cross-ToR", "share", "0.00%"] for line in lines)


def test_the_optimum_and_its_gap():
    found = result(*SMALL, "--faulty", "3-8", "--optimum")
    assert found["optimum_groups"] == found["groups_that_fit"] == 10
    assert (found["optimum_gap_groups"], found["optimum_proved_by"]) == (0, "integer programme")
    assert result(*EXAMPLE, "--optimum")["optimum_proved_by"] == "bound"
    shown = call("fabric", "place", *SMALL, "--faulty", "3-8", "--optimum").out
    assert "groups fit, 0 more than found; by integer programme" in shown


def test_a_job_that_only_fits_along_the_ring_goes_there():
    found = result("--job-gpus", str(4 * 720), "--algorithm", "spares")
    assert found["algorithm"] == "ring" and found["groups"] == 90 and found["holds"]


def test_a_corner_case_is_placed_around_or_refused_by_the_verifier():
    """ToR size 1: the line is the order of the nodes; node 7 has two faulty nodes on either side."""
    arguments = ("--nodes", "20", "--tp", "16", "--tor-size", "1", "--faulty", "5,6,8,9", "--algorithm", "ring")
    assert result(*arguments, "--job-gpus", "64")["corner_cases"] == 0
    done = call("fabric", "place", *arguments, "--corners", "--job-gpus", "64", "--json", "out.json")
    assert done.code == 1
    said = (
        "the hardware cannot hold this placement: group 1: node 7: bundle C has 2 live paths; one at a time is possible"
    )
    assert done.err == f"pimloom: {said} (and 4 more)\n"
    found = json.loads(Path("out.json").read_text())
    assert found["holds"] is False and found["corner_cases"] == 1 and len(found["complaints"]) == 5


def test_the_figure_shows_every_node():
    done = call("fabric", "place", *EXAMPLE, "--figure", "rings.svg", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    root = ElementTree.parse("rings.svg").getroot()
    assert root.tag.endswith("svg") and "76 groups of 32 GPUs on 720 nodes, 4 faulty" in root.attrib["aria-label"]
    marks = [element for element in root.iter() if element.tag.endswith("use")]
    assert len(marks) == 720


def job(nodes: int, faulty: list[int], groups: int) -> Job:
    bad = np.zeros(nodes, bool)
    bad[faulty] = True
    return Job(Cluster(4 * nodes, 4), khop(3), 32, 8, bad, groups)


def test_groups_over_the_end_of_a_row_and_large_clusters_are_drawn():
    placed = place_job(job(720, [], 90), "ring")
    assert "90 groups" in cluster_figure(placed).title
    assert text_lines(placed)[0].startswith("ToRs 0 to 47, one row")
    large = place_job(job(8200, [], 5), "ring")
    assert text_lines(large) == ["8200 nodes: too many to draw in text; --csv lists them"]
    assert summary(large)["holds"]


def test_the_ring_of_the_report():
    figure = ring_figure(khop(3), 4, 8, {2, 5, 6})
    assert figure.title == "A ring of 20 GPUs past 3 faulty nodes, K = 3"
    assert str(figure.svg).count("node ") >= 8
    with pytest.raises(ValueError, match="cannot bypass"):
        ring_figure(khop(2), 4, 8, {2, 3})


BAD = {
    ("--faulty", "720"): "--faulty 720: no node 720; expected 0 to 719",
    ("--faulty", "17,203-"): "--faulty '203-': expected nodes and ranges, like 17,203-205",
    ("--faulty", "a"): "--faulty 'a': expected nodes and ranges, like 17,203-205",
    ("--faulty", "205-203"): "--faulty 205-203: the range is reversed; expected 203-205",
    ("--faulty", "0-999999999"): "--faulty 0-999999999: more faulty nodes than the 720 nodes there are",
    ("--faulty", "3,1-4"): "--faulty 3,1-4: node 3 is named twice",
    ("--faulty", "3", "--fault-ratio", "0.1"): "--fault-ratio 0.1: --faulty names the nodes; leave one out",
    ("--fault-ratio", "1.5"): "--fault-ratio 1.5: expected a share from 0 to 1",
    ("--fault-ratio", "nan"): "--fault-ratio nan: expected a share from 0 to 1",
    ("--job-gpus", "2912"): "--job-gpus: the job's 91 groups are 2912 GPUs; 90 groups, 2880 GPUs, fit on the healthy",
    ("--job-gpus", "31"): "--job-gpus 31: expected at least one group, --tp 32",
    ("--arch", "infinitehbd-k5"): "--arch infinitehbd-k5: 5 bundles need as many slots; a node with --gpus-per-node 4",
    ("--arch", "nvl72"): "--arch nvl72: has no ring to place groups on; expected infinitehbd-kN",
    ("--arch", "infinitehbd-k1"): "--arch infinitehbd-k1: a node in the middle of a ring needs two bundles",
    ("--tor-size", "7"): "--tor-size 7: expected a divisor of the 720 nodes",
    ("--tor-size", "0"): "--tor-size 0: expected a divisor of the 720 nodes",
    ("--tp", "30"): "--tp 30: expected a multiple of --gpus-per-node 4",
    ("--tp", "2"): "--tp 2: expected a multiple of --gpus-per-node 4",
    ("--tp", "0"): "--tp 0: expected a multiple of --gpus-per-node 4",
    ("--nodes", "0"): "--nodes 0: expected 1 to 131072",
    ("--nodes", "999999999999"): "--nodes 999999999999: expected 1 to 131072",
    ("--nodes", "-5"): "--nodes -5: expected 1 to 131072",
    ("--nodes", "6", "--tor-size", "1", "--tp", "4"): "--nodes 6: a ring with hops up to 3 has more than 6",
    ("--gpus-per-node", "0"): "--gpus-per-node 0: expected 1 to 64",
    ("--algorithm", "aligned", "--job-gpus", "2880"): "--algorithm aligned: the job needs 90 groups; the healthy nodes",
    ("--figure", "folder"): "--figure folder: is a folder; name a file in it",
    ("--csv", "none/rows.csv"): "--csv none/rows.csv: there is no folder none; make it first",
    ("--dcn-share", "1.1"): "--dcn-share 1.1: expected a share from 0 to 1",
    ("--csv", "x", "--json", "x"): "--csv x: is the file of --json too; name another",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_input_is_one_line_and_leaves_nothing(arguments):
    before = snapshot(Path.cwd())
    done = call("fabric", "place", *arguments)
    assert done.code == 2 and done.out == ""
    assert done.err.startswith(f"pimloom: {BAD[arguments]}"), done.err
    assert done.err.count("\n") == 1
    assert snapshot(Path.cwd()) == before


def test_help_defines_waste_in_a_sentence():
    said = " ".join(call("fabric", "place", "--help").out.split())
    assert "Waste: healthy nodes that no further group fits on, as a share of all nodes." in said
    assert "Example: pimloom fabric place --tp 32" in said
