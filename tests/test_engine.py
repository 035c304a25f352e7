"""The engine against the oracle, cycle for cycle, and against itself; its sentences word for word."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.command import STREAM
from pimloom.arch.error import UserError
from pimloom.cycle_sim.dram.stream import Issue, issue
from tests.naive import MACHINES, Order
from tests.oracle_run import compare, difference, run_engine
from tests.streams import STANDARDS, draw_case, expand, table_of, to_array

SEEDS = st.integers(0, 2**64 - 1)  # of `Random`: hypothesis draws a case of hundreds of numbers ten times slower
machines = pytest.mark.parametrize("machine", STANDARDS)
CLOCKS = {
    "nBL": 2, "nCL": 9, "nCWL": 4, "nRTW": 8, "tRCDRD": 10, "tRCDWR": 7, "tRP": 11, "tRAS": 20, "tRC": 32, "tWR": 12,
    "tRTP": 3, "tCCD_S": 2, "tCCD_L": 4, "tRRD_S": 3, "tRRD_L": 5, "tFAW": 18, "tWTR_S": 2, "tWTR_L": 6, "tPPD": 2,
    "tRFC": 60, "tREFI": 500,
}  # fmt: skip
SIZE = (1, 1, 4, 4)
TABLE = table_of("gddr6", SIZE, CLOCKS)


def gddr6(*streams: list[Order], **options) -> Issue:
    return issue(TABLE, [to_array(s, TABLE) for s in streams], **options)


def as_lists(result: Issue) -> list[list]:
    return [[x.tolist() for x in result.issue_ck], [x.tolist() for x in result.end_ck], result.refresh_ck.tolist()]


@machines
@settings(max_examples=40)
@given(seed=SEEDS)
def test_engine_equals_oracle(machine, seed):
    assert difference(draw_case(Random(seed), machine, 30)) is None


def test_engine_equals_oracle_on_seeded_streams():
    compare(122, seed=0)


@pytest.mark.slow
def test_engine_equals_oracle_100_000_times():
    compare(100_000, seed=1)


@machines
def test_oracle_and_table_name_the_same_commands(machine):
    table = table_of(machine, SIZE, draw_case(Random(0), machine).clocks)
    assert sorted(table.names) == sorted(MACHINES[machine].names)


@machines
def test_oracle_and_table_agree_on_durations_and_buses(machine):
    clocks = draw_case(Random(3), machine).clocks
    table, oracle = table_of(machine, SIZE, clocks), MACHINES[machine](SIZE, clocks)
    assert table.rules.done.tolist() == [oracle.over(name) for name in table.names]
    same_bus = [[oracle.bus(a) == oracle.bus(b) for a in table.names] for b in table.names]
    assert np.equal.outer(table.rules.bus, table.rules.bus).tolist() == same_bus


@machines
@settings(max_examples=25)
@given(seed=SEEDS)
def test_counted_rows_issue_as_their_commands_one_by_one(machine, seed):
    case = draw_case(Random(seed), machine, 30)
    counted = run_engine(case)
    single = run_engine(case._replace(streams=[expand(s) for s in case.streams]))
    if isinstance(counted, str) or isinstance(single, str):
        assert isinstance(counted, str) and isinstance(single, str)
        assert single.split("(")[1] == counted.split("(")[1]
        return
    for s, stream in enumerate(case.streams):
        end = np.cumsum([0] + [order.count for order in stream])
        assert counted.issue_ck[s].tolist() == single.issue_ck[s][end[:-1]].tolist()
        assert counted.end_ck[s].tolist() == single.end_ck[s][end[1:] - 1].tolist()
    assert counted.refresh_ck.tolist() == single.refresh_ck.tolist()
    assert (counted.idle_ck, counted.ready_ck.tolist()) == (single.idle_ck, single.ready_ck.tolist())


def test_long_counts_issue_as_their_commands_one_by_one():
    """Two streams of row hits, one with a gap now and then, through some forty refreshes."""
    hits = [Order("ACT"), Order("RD", count=500), Order("WR", count=300), Order("PRE")]
    others = [Order("ACT", bg=1, row=3), Order("RD", bg=1, row=3, count=450), Order("PRE", bg=1)]
    streams = [hits * 5, [o._replace(release=700 * (i // 3)) for i, o in enumerate(others * 5)]]
    wide = replace(TABLE, rules=TABLE.rules._replace(columns=512))
    counted, single = (
        issue(wide, [to_array(s, wide) for s in some]) for some in (streams, [expand(s) for s in streams])
    )
    for s, stream in enumerate(streams):
        end = np.cumsum([0] + [order.count for order in stream])
        assert counted.issue_ck[s].tolist() == single.issue_ck[s][end[:-1]].tolist()
        assert counted.end_ck[s].tolist() == single.end_ck[s][end[1:] - 1].tolist()
    assert counted.refresh_ck.tolist() == single.refresh_ck.tolist()
    assert len(counted.refresh_ck) > 20


@machines
@settings(max_examples=16)
@given(seed=SEEDS, shift=st.integers(0, 10_000))
def test_later_releases_and_refreshes_shift_everything(machine, seed, shift):
    case = draw_case(Random(seed), machine, 30)._replace(refreshed=None)
    due = case.clocks["tREFI"] if case.due is None else case.due
    later = [[o._replace(release=o.release + shift) for o in s] for s in case.streams]
    now, then = run_engine(case), run_engine(case._replace(streams=later, due=due + shift))
    if isinstance(now, str) or isinstance(then, str):
        assert isinstance(now, str) and isinstance(then, str)
        assert then.split("(")[1].split(" at CK")[0] == now.split("(")[1].split(" at CK")[0]
        return
    first, last, log = as_lists(now)
    moved = [[[t + shift for t in s] for s in x] for x in (first, last)]
    assert as_lists(then) == [*moved, [[t + shift, node] for t, node in log]]


@machines
@settings(max_examples=12)
@given(seed=SEEDS)
def test_streams_of_nothing_change_nothing(machine, seed):
    case = draw_case(Random(seed), machine, 20)
    alone, among = run_engine(case), run_engine(case._replace(streams=[[], *case.streams, []]))
    if isinstance(alone, str) or isinstance(among, str):
        assert isinstance(alone, str) and isinstance(among, str)
        return
    first, last, log = as_lists(among)
    assert [first[1:-1], last[1:-1], log] == as_lists(alone)


def test_nothing_to_do():
    for streams in ([], [np.zeros(0, STREAM)]):
        result = issue(TABLE, streams)
        assert (len(result.issue_ck), len(result.refresh_ck), result.idle_ck) == (len(streams), 0, 0)


def test_one_row_cycle_by_hand():
    """tRAS holds the PRE, tRC the second ACT, and WR to RD takes nCWL + nBL + tWTR_L = 12."""
    act, read, write, close = Order("ACT"), Order("RD", count=2), Order("WR"), Order("PRE")
    result = gddr6([act, read, close, act, write, read._replace(count=1)])
    assert result.issue_ck[0].tolist() == [0, 10, 20, 32, 39, 51]  # and 14, the second RD
    assert result.end_ck[0].tolist() == [10, 14 + 9 + 2, 31, 42, 39 + 4 + 2 + 12, 51 + 9 + 2]


def test_earlier_streams_go_first():
    one, two = [Order("ACT", bg=0)], [Order("ACT", bg=1)]
    assert as_lists(gddr6(one, two))[0] == [[0], [3]]
    assert as_lists(gddr6([one[0]._replace(release=1)], two))[0] == [[3], [0]]


def test_refreshes_keep_their_interval_while_nothing_happens():
    result = gddr6([Order("PRE", release=500_250)])
    assert result.refresh_ck.tolist() == [[500 * k, 0] for k in range(1, 1001)]
    assert result.issue_ck[0].tolist() == [500_250]
    assert gddr6([Order("PRE", release=500_250)], refresh=False).refresh_ck.tolist() == []


def test_a_refresh_waits_for_the_open_row_and_keeps_others_closed():
    """Due at 30: the second ACT waits for PRE (40), REFab (40 + tRP) and tRFC."""
    streams = [Order("ACT"), Order("PRE", release=40)], [Order("ACT", bg=1, release=30)]
    result = gddr6(*streams, due_ck=30)
    assert as_lists(result)[0] == [[0, 40], [40 + 11 + 60]]
    assert result.refresh_ck.tolist() == [[51, 0]]
    assert as_lists(gddr6(*streams, due_ck=31))[0] == [[0, 40], [30]]


def test_the_hold_is_lifted_where_all_would_wait_for_ever():
    result = gddr6([Order("ACT"), Order("ACT", bg=1, release=50), Order("PRE", bg=1), Order("PRE")], due_ck=30)
    assert result.issue_ck[0].tolist() == [0, 50, 70, 72]
    assert result.refresh_ck.tolist() == []


def test_a_refresh_before_the_start_may_still_run():
    assert gddr6([Order("ACT")], refreshed_ck=-20).issue_ck[0].tolist() == [40]


@pytest.mark.parametrize(
    "orders, sentence",
    [
        (
            [Order("ACT", bg=2, bank=1, row=7), Order("PREab", release=88), Order("RD", bg=2, bank=1, row=7)],
            "command 2 (RD bg 2 bank 1 row 7) needs an open row, but PREab closed it at CK 88",
        ),
        (
            [Order("ACT", row=7), Order("WRA", row=7), Order("WR", row=7)],
            "command 2 (WR bg 0 bank 0 row 7) needs an open row, but WRA closed it at CK 7",
        ),
        ([Order("RD", bank=3, row=1)], "command 0 (RD bg 0 bank 3 row 1) needs an open row, but nothing opened it"),
        (
            [Order("ACT", row=7), Order("RD", row=6)],
            "command 1 (RD bg 0 bank 0 row 6) needs its row open, but ACT opened row 7 at CK 0",
        ),
        (
            [Order("ACT", row=7), Order("ACT", row=6)],
            "command 1 (ACT bg 0 bank 0 row 6) needs closed rows, but ACT opened row 7 at CK 0",
        ),
        (
            [Order("ACT", bg=1), Order("ACT", bg=3, row=5), Order("PRE", bg=1), Order("REFab")],
            "command 3 (REFab) needs closed rows, but ACT opened row 5 at CK 3",
        ),
        (
            [Order("ACT"), Order("RD", release=4499), Order("RD", release=4500)],
            "command 2 (RD bg 0 bank 0 row 0) comes too late: "
            "8 refreshes are postponed already and rows are still open; "
            "shorten what delays it, lengthen tREFI, or turn refresh off",
        ),
        ([Order("RD", count=0)], "command 0: count must be at least 1, not 0"),
        ([Order("ACT"), Order("RD", count=-3)], "command 1: count must be at least 1, not -3"),
        ([Order("PRE", count=2)], "command 0 (PRE) opens or closes rows: count must be 1"),
        ([Order("PRE"), Order("RD", bank=4)], "command 1: bank 4 is outside 0 to 3"),
        ([Order("PRE", bg=-1)], "command 0: bg -1 is outside 0 to 3"),
        ([Order("RD", rank=1)], "command 0: rank 1 is outside 0 to 0"),
        ([Order("RD", pch=1)], "command 0: pch 1 is outside 0 to 0"),
        ([Order("ACT", row=-1)], "command 0: row -1 is outside 0 to 7"),
    ],
)
def test_what_cannot_issue_is_named(orders, sentence):
    with pytest.raises(UserError) as error:
        gddr6(orders)
    assert str(error.value) == sentence


def test_the_stream_is_named_where_there_are_several():
    with pytest.raises(UserError) as error:
        gddr6([Order("ACT")], [Order("ACT", bg=1), Order("RD", bg=2)])
    assert str(error.value) == "command 1 of stream 1 (RD bg 2 bank 0 row 0) needs an open row, but nothing opened it"


def test_fields_are_taken_by_name():
    """Where streams become one array, too: numpy can copy fields by their places."""
    stream = to_array([Order("ACT", bg=1)], TABLE)
    names = [*(STREAM.names or ())]
    at = names.index("bg")
    names[at], names[at + 1] = names[at + 1], names[at]
    swapped = np.zeros(1, [(name, STREAM[name]) for name in names])
    for name in names:
        swapped[name] = stream[name]
    with pytest.raises(TypeError, match="field names"):
        issue(TABLE, [swapped, stream[:0]])


def test_an_opcode_that_is_none():
    stream = to_array([Order("PRE")], TABLE)
    stream["cmd"] = 8
    with pytest.raises(UserError, match=r"command 0: cmd 8 is outside 0 to 7$"):
        issue(TABLE, [stream])


def test_the_kernels_agree_without_their_compiler():
    """As plain Python, with bounds checks and no index below zero."""
    command = [sys.executable, "-m", "tests.strict", "tests.oracle_run", "60", "5"]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, check=True, capture_output=True, text=True)
    assert "60 cases equal" in done.stdout
