"""The logs and the timeline of a simulated memory: the right cells, whole files or none, in bounded memory."""

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2
from pimloom.arch.memory import Memory
from pimloom.cycle_sim.dram.kernels.device import ACT, COMMANDS, PRE, PREAB, RD, REFAB, REFPB, SRE, SRX, WR
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from pimloom.systems.memory.digits import DECIMAL, HEXADECIMAL, LONGEST_CELL, WORD, word_table, write_lines
from pimloom.systems.memory.logs import ROWS, CommandLog, RequestLog, Tee
from pimloom.systems.memory.timeline import WindowLog, timeline
from pimloom.systems.memory.trace_file import read_trace
from tests.foreign import reference
from tests.reference_data import lines, reference_cases
from tests.test_naive_controllers import first_in_first_out

DRAMSIM3: Memory = reference()  # one rank of 4 x 4 banks
OURS = DRAMSIM3._replace(policy=replace(DRAMSIM3.policy, quirks="none"))
TWO_RANKS = OURS._replace(
    channels=2,
    table=dataclasses.replace(OURS.table, rules=OURS.table.rules._replace(size=np.array([1, 2, 2, 8, 32]))),
)
ROWS_OF_ALL_KINDS = np.array(  # clock, channel, command, bank, row, column, by
    [
        [3, 0, ACT, 23, 7, 2, 0],
        [3, 1, WR, 31, 65535, 127, 0],
        [9, 0, PRE, 23, 7, 2, 0],
        [10, 0, PRE, 22, -1, -1, 1],
        [11, 1, REFPB, 5, -1, -1, 1],
        [12, 1, REFAB, 16, -1, -1, 1],
        [13, 0, PREAB, 0, -1, -1, 1],
        [14, 0, SRE, 16, -1, -1, 1],
        [2**60, 0, SRX, 17, 7, 2, 0],
    ]
)
GOLDEN = """\
cycle,command,channel,rank,bank_group,bank,row,column
3,ACT,0,1,1,3,7,2
3,WR,1,1,3,3,65535,127
9,PRE,0,1,1,3,7,2
10,PRE,0,1,1,2,-1,-1
11,REFpb,1,0,1,1,-1,-1
12,REFab,1,1,-1,-1,-1,-1
13,PREab,0,0,-1,-1,-1,-1
14,SRE,0,1,-1,-1,-1,-1
1152921504606846976,SRX,0,1,-1,-1,-1,-1
"""
NAMES = {  # of the commands in DRAMsim3's traces
    "read": "RD", "write": "WR", "read_p": "RDA", "write_p": "WRA", "activate": "ACT", "precharge": "PRE",
    "refresh_bank": "REFpb", "refresh": "REFab",
}  # fmt: skip
OPEN = {
    "": Path.read_bytes,
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
    ".zst": lambda path: zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()),
}


def chunks(n: int, size: int):
    """n requests in chunks of `size`."""
    number = np.arange(n)
    for first in range(0, n, size):
        part = number[first : first + size]
        yield Chunk(part * 64, part % 3 // 2, part)


@pytest.mark.parametrize("suffix", OPEN)
def test_commands(tmp_path, suffix):
    path = tmp_path / f"commands.csv{suffix}"
    with CommandLog(path, TWO_RANKS) as log:
        log.commands(ROWS_OF_ALL_KINDS[:2])
        log.requests(np.zeros((1, 3), np.int64))
        assert not path.exists()
        log.commands(ROWS_OF_ALL_KINDS[2:])
    assert OPEN[suffix](path).decode() == GOLDEN
    assert list(tmp_path.iterdir()) == [path]


def test_commands_as_dramsim3_writes_them(tmp_path):
    path, own = tmp_path / "commands.csv", TWO_RANKS._replace(policy=DRAMSIM3.policy)
    with CommandLog(path, own) as log:
        log.commands(ROWS_OF_ALL_KINDS)
    old, new = GOLDEN.splitlines(), path.read_text().splitlines()
    assert new[:4] == old[:4]
    assert new[4:7] == ["10,PRE,-1,1,1,2,-1,-1", "11,REFpb,-1,0,1,1,-1,-1", "12,REFab,-1,1,-1,-1,-1,-1"]
    assert new[8:] == ["14,SRE,-1,1,-1,-1,-1,-1", f"{2**60},SRX,0,1,0,1,7,2"]


@pytest.mark.parametrize("suffix", OPEN)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_requests_get_their_addresses_from_the_chunks_that_passed(tmp_path, suffix, size):
    path, rows = tmp_path / f"requests.csv{suffix}", np.array([[i, i + 1, 3 * i] for i in range(10)])
    with RequestLog(path) as log:
        passing = log.watch(chunks(10, size))
        for first in range(0, 10, size):
            next(passing)
            log.requests(rows[max(0, first - 2) : max(0, first + size - 2)])
        log.requests(rows[max(0, first + size - 2) :])
    lines = [f"{i},{'WRITE' if i % 3 == 2 else 'READ'},{64 * i:#x},{i + 1},{3 * i}\n" for i in range(10)]
    assert OPEN[suffix](path).decode() == "index,op,address,accept_cycle,done_cycle\n" + "".join(lines)


def test_more_rows_than_are_formatted_at_once(tmp_path):
    n = 2 * ROWS + 5
    rows = np.zeros((n, 7), np.int64)
    rows[:, 0] = np.arange(n)
    path, other = tmp_path / "c", tmp_path / "r"
    with CommandLog(path, OURS) as commands, RequestLog(other) as requests:
        list(requests.watch(chunks(n, 1000)))
        tee = Tee(commands, requests)
        tee.commands(rows)
        tee.requests(rows[:, :3] + rows[:, :1])
    assert path.read_text().splitlines()[1:] == [f"{i},ACT,0,0,0,0,0,0" for i in range(n)]
    assert len(other.read_text().splitlines()) == n + 1


@given(
    st.lists(st.tuples(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 10)), min_size=1)
)
def test_cells_are_what_python_writes(rows):
    table, kinds = np.array(rows, np.int64), np.array([DECIMAL, HEXADECIMAL, WORD])
    out = np.zeros(table.size * LONGEST_CELL, np.uint8)
    n = write_lines(table, kinds, word_table(COMMANDS), out)
    assert out[:n].tobytes().decode() == "".join(f"{a},{b:#x},{COMMANDS[c]}\n" for a, b, c in rows)


@pytest.mark.parametrize("suffix", OPEN)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("stop")])
def test_an_interrupt_leaves_the_old_files_and_nothing_else(tmp_path, suffix, error):
    old = tmp_path / f"c{suffix}"
    old.write_text("old")
    with pytest.raises(type(error)), CommandLog(old, OURS) as commands, RequestLog(tmp_path / f"r{suffix}"):
        commands.commands(np.repeat(ROWS_OF_ALL_KINDS, 10_000, axis=0))
        raise error
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_a_disk_that_is_full_or_a_folder_that_is_missing(tmp_path, monkeypatch):
    with pytest.raises(UserError) as caught, CommandLog(tmp_path / "none" / "c", OURS):
        pass
    assert str(caught.value) == f"cannot write {tmp_path}/none/c: no such file or directory; choose another place"

    with pytest.raises(UserError) as caught, CommandLog("/dev/full", OURS) as log, RequestLog(tmp_path / "r"):
        log.commands(np.repeat(ROWS_OF_ALL_KINDS, 10_000, axis=0))
    assert str(caught.value) == "cannot write /dev/full: no space left on device; choose another place"
    with pytest.raises(UserError, match="^cannot write /dev/full: no space left"), CommandLog("/dev/full", OURS):
        pass
    assert list(tmp_path.iterdir()) == []


def test_timeline():
    memory = TWO_RANKS
    log = WindowLog(3, 100)
    list(log.watch(chunks(4, 4)))
    log.commands(np.array([[2, 0, ACT, 0, 5, 0, 0], [3, 0, RD, 0, 5, 1, 0], [7, 0, RD, 0, 5, 2, 0]]))
    log.commands(np.array([[30, 1, REFAB, 16, -1, -1, 1], [100, 0, PRE, 0, 5, 0, 0]]))
    log.requests(np.array([[0, 0, 2], [1, 1, 40], [2, 4, 9]]))
    log.requests(np.array([[3, 40, 41]]))
    events = json.loads(timeline(memory, log, "a test"))["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    groups = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(groups.values()) == ["requests", "channel 0", "channel 1"]
    assert len(threads) == 2 + 2 * (1 + 32)
    us = memory.tCK_ps / 1e6
    drawn = [
        (groups[e["pid"]], threads[e["tid"]], e["name"], round(e["ts"] / us), round(e["dur"] / us))
        for e in events
        if e["ph"] == "X"
    ]
    done = dict(zip(memory.table.names, memory.table.rules.done.tolist(), strict=True))
    assert drawn[:3] == [
        ("requests", "requests 0", "READ 1", 1, 39),
        ("requests", "requests 0", "READ 3", 40, 1),
        ("requests", "requests 1", "WRITE 2", 4, 5),
    ]
    assert drawn[3:7] == [
        ("channel 0", "commands", "RD", 3, 1),
        ("channel 0", "commands", "RD", 7, 1),
        ("channel 0", "rank 0 bank group 0 bank 0", "RD", 3, 4),
        ("channel 0", "rank 0 bank group 0 bank 0", "RD", 7, done["RD"]),
    ]
    assert drawn[7] == ("channel 1", "commands", "REFab", 30, 1)
    assert [event[1] for event in drawn[8:]] == [f"rank 1 bank group {g} bank {b}" for g in range(4) for b in range(4)]
    assert {event[2:] for event in drawn[8:]} == {("REFab", 30, done["REFab"])}
    read = next(e for e in events if e["name"] == "RD")
    assert read["args"] == {"row": 5, "column": 1, "by": "request"}
    write = next(e for e in events if e["name"] == "WRITE 2")
    assert write["args"] == {"request": 2, "address": "0x80", "accepted": 4, "done": 9}


def test_a_window_with_too_much_in_it():
    log = WindowLog(0, 10**6, most=200)
    log.commands(ROWS_OF_ALL_KINDS)
    with pytest.raises(UserError) as caught:
        log.commands(ROWS_OF_ALL_KINDS)
    assert (
        str(caught.value) == "the window from clock 0 to 1000000 holds more than about 200 events; choose a shorter one"
    )
    assert json.loads(timeline(OURS, WindowLog(5, 6), "nothing"))["otherData"]["window in clocks"] == "5 to 6"


@pytest.mark.parametrize("case", reference_cases("dramsim3"))
def test_the_logs_of_dramsim3(case, tmp_path):
    rows = [line.split(",") for line in logged(case, load_dramsim3(case / "config.ini"), tmp_path)]
    by_channel = [dramsim3_commands(path) for path in sorted(case.glob("ch_*cmd.trace*"))]
    assert commands_of(tmp_path) == in_order(by_channel)
    said = [line.split() for line in lines(case / "requests.log")]
    assert [row[:4] for row in rows] == [[i, op, a, x] for i, a, op, _, x, _ in said]
    asked = [(int(address, 16), op == "WRITE", 0) for _, op, address, _, _ in rows]
    assert first_in_first_out(asked, [int(row[4]) for row in rows]) == [int(row[5]) for row in said]


@pytest.mark.parametrize("case", reference_cases("ramulator2"))
def test_the_logs_of_ramulator(case, tmp_path):
    requests = logged(case, load_ramulator2(case / "config.yaml"), tmp_path)
    by_channel = [ramulator_commands(path) for path in sorted(case.glob("cmd.csv.ch*"))]
    assert commands_of(tmp_path) == in_order(by_channel)
    rows = [line.split() for line in lines(case / "requests.log")]
    assert requests == [f"{i},{'WRITE' if op == 'ST' else 'READ'},{a},{x},{y}" for i, op, a, x, y in rows]


def logged(case: Path, memory: Memory, to: Path) -> list[str]:
    """Run a case, with logs in a folder; returns the lines of the requests'."""
    run = json.loads((case / "run.json").read_text())
    if run.get("livelock"):
        pytest.skip("DRAMsim3 stands still in this case: there is no log")
    idle = run["cycles_simulated"] - run["cycles_all_done"]
    with CommandLog(to / "c", memory) as commands, RequestLog(to / "r") as requests:
        trace = read_trace(case / "input.trc", limit_bytes=memory.capacity_bytes, wraps=True, ordered=False, chunk=100)
        simulate(memory, requests.watch(trace), extra_ck=idle, log=Tee(commands, requests))
    return (to / "r").read_text().splitlines()[1:]


def commands_of(folder: Path) -> list[str]:
    return (folder / "c").read_text().splitlines()[1:]


def in_order(by_channel: list[list[str]]) -> list[str]:
    """By clock, then by channel."""
    found = [(int(line.partition(",")[0]), c, line) for c, lines in enumerate(by_channel) for line in lines]
    return [line for _, _, line in sorted(found, key=lambda row: row[:2])]


def dramsim3_commands(path: Path) -> list[str]:
    found = []
    for line in lines(path.with_suffix("") if path.suffix == ".gz" else path):
        clock, command, *place, row, column = line.split()
        found.append(",".join([clock, NAMES[command], *place, str(int(row, 16)), str(int(column, 16))]))
    return found


def ramulator_commands(path: Path) -> list[str]:
    header, *rows = lines(path.with_suffix("") if path.suffix == ".gz" else path)
    rows = [line.rsplit(",", 2)[0].replace("PREpb", "PRE") for line in rows]
    if "Rank" in header or "PseudoChannel" in header:
        return rows
    return [",".join([*row.split(",")[:3], "0", *row.split(",")[3:]]) for row in rows]
