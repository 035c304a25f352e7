"""What the bench measures of whole commands, and how it runs peers. No time of ours fails a test."""

import sys
from pathlib import Path

import pytest

from tests.bench import lines
from tests.bench_commands import least, pimloom, read_peers, spent, words_of


def test_cpu_time_and_memory_are_those_of_the_command() -> None:
    busy = spent([sys.executable, "-c", "x = bytearray(200 << 20); sum(range(10**6))"])
    idle = spent([sys.executable, "-c", "import time; time.sleep(0.3)"])
    assert idle.cpu_s < 0.3 and idle.peak_mib < 60 and busy.peak_mib > 200
    assert least(pimloom("--version"), times=1).peak_mib < 100


def test_a_command_that_fails_ends_the_bench() -> None:
    with pytest.raises(SystemExit, match="bench: .*pimloom run nothing.* fails: pimloom: "):
        spent(pimloom("run", "nothing", "--model", "gpt2", "--generate", "1"))


def test_a_peer_is_a_path_or_a_line(tmp_path: Path) -> None:
    tool = tmp_path / "a tool"
    tool.touch()
    line = f"'{tool}' -f {{config}} {{trace}}"
    peers = read_peers([f"dramsim3={tool}", f"ramulator2={line}"])
    values = {"config": "c.ini", "trace": "t", "cycles": 7, "out": "o"}
    assert words_of(peers["dramsim3"], values) == [str(tool), "c.ini", "-c", "7", "-t", "t", "-o", "o"]
    assert words_of(peers["ramulator2"], values) == [str(tool), "-f", "c.ini", "t"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("dramsim3", "expected NAME=PATH"),
        ("ramulator2=/bin/sh", "give the whole line of ramulator2"),
        ("dramsim3=/no/such", "no file /no/such"),
        ("dramsim=/bin/sh", "no line for dramsim; known here: dramsim3, ramulator2, neupims_off,"),
    ],
)
def test_a_peer_that_cannot_run_is_refused(given: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        read_peers([given])


def test_a_group_that_is_not_there_is_told_before_a_peer_that_has_no_line() -> None:
    with pytest.raises(SystemExit, match="unknown group 'nope'; known: engine, growth, memory"):
        next(lines(["nope"], ["dramsim3=/bin/sh"]))
    with pytest.raises(SystemExit, match="no line for dramsim3"):
        next(lines(["pim"], ["dramsim3=/bin/sh"]))


def test_a_peer_of_lines_that_do_not_run_is_refused() -> None:
    line = "neupims_npu=/bin/sh {trace}"
    assert list(read_peers([line], ["npu"])) == ["neupims_npu"]
    for groups, known in ((["memory"], "dramsim3, ramulator2"), (["fabric"], "none")):
        with pytest.raises(SystemExit, match=f"no line for neupims_npu; known here: {known}"):
            read_peers([line], groups)
