"""The channel against NeuPIMs' simulator: cycle counts and command traces of its ground truth, clock for clock."""

import re

import pytest

from tests.neupims_engine import COMMAND, Run
from tests.neupims_stimuli import stimulus

RESULT = re.compile(r"RESULT (.+?) \| pim_tx=(\d+) pim_done=(\d+) read_done=(\d+)")
ISSUED = re.compile(r"\[IssueCommand\] cid: 0 clk: (\d+) \| (\w+) \| (.*)")
PLACE = re.compile(r"rank: (-?\d+) bankgroup: (-?\d+) bank: (-?\d+)")
NAMES = COMMAND | {"ACTIVATE": "ACT", "PRECHARGE": "PRE", "PIM_PRECHARGE": "PIM_PRECHARGE"}
# stimulus, clock of the last PIM response, of the last other one: printed by NeuPIMs' simulator
SOME = [
    ("DUAL gwrite 2", 113, 0),
    ("DUAL tile 3 8 4", 682, 0),
    ("SINGLE tile 3 8 4", 731, 0),
    ("DUAL attend 300 8 128", 6690, 0),
    ("SINGLE logit 300 1024 128", 5445, 0),
    ("DUAL mha 512 14 128", 28661, 0),
    ("SINGLE mha 1024 8 128", 38476, 0),
    ("DUAL read 4096", 0, 8313),
    ("DRAM read 4096", 0, 9401),
    ("SINGLE write 4096", 0, 4076),
    ("DUAL mharead 4096 512 8 128", 16296, 11487),
    ("SINGLE mharead 1024 512 8 128", 19183, 21290),
]


@pytest.mark.parametrize(("text", "pim_done", "data_done"), SOME, ids=[row[0] for row in SOME])
def test_some_counts(text, pim_done, data_done):
    assert Run(*stimulus(text)).done == (pim_done, data_done)


# the same with a row held until the last COMP of its PIM_GEMV: printed by the simulator with that line changed
@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("tile 3 32 1", 648),
        ("tile 3 8 4", 714),
        ("logit 512 1024 128", 8903),
        ("mha 300 8 128", 13432),
        ("mha 512 8 128", 17961),
    ],
)
def test_a_row_held_by_its_gemv(text, done):
    mode, pim, data = stimulus(f"DUAL {text}")
    assert Run(mode, pim, data, fixes=[2]).done[0] == done


def test_a_window_as_large_as_with_pim():
    mode, pim, data = stimulus("DRAM read 16384")
    assert Run(mode, pim, data, fixes=[5]).done[1] == 33127


def test_every_count(shared):
    results = RESULT.findall((shared / "data/neupims/pim_micro/results.txt").read_text())
    assert len(results) == 159
    wrong = []
    for text, requests, *expected in results:
        mode, pim, data = stimulus(text)
        if len(pim) != int(requests) or Run(mode, pim, data).done != tuple(map(int, expected)):
            wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize(
    "name", ["tile_8x4_dual", "logit64_dual", "logit64_single", "2tiles_8x2_single", "read512_dual"]
)
def test_every_command_of_a_trace(name, shared):
    text = (shared / f"data/neupims/pim_micro/golden_{name}.txt").read_text()
    run = Run(*stimulus(RESULT.findall(text)[0][0]))
    expected = []
    for clock, command, rest in ISSUED.findall(text):
        place = PLACE.search(rest)
        rank, group, bank = map(int, place.groups()) if place else (-1, -1, -1)
        expected.append((int(clock), NAMES[command], max(rank * 16 + group * 4 + bank, 0)))
    assert [x for x in run.commands if x[0] <= max(run.done)] == expected and len(expected) > 14
