"""AttAcc's cycles of a stack against those measured on the authors' simulator, run fresh."""

import pytest

from pimloom.arch.system import load_part
from pimloom.arch.table import Table, bend, compile_table, rule_rows
from pimloom.cycle_sim.attacc.simulate import Issue, simulate
from pimloom.mappers.attacc.layout import Placement, Work, lay_out
from pimloom.mappers.attacc.stream import streams
from tests.slow import slow

FREE = {"timing.nCCDAB": "4 nCK", "timing.nCCDSB": "4 nCK"}  # no power limit
MEASURED = {  # placement, power limit, (heads, context, width, bytes): cycles
    ("bank", True, (60, 2048, 128, 2)): 16_161,
    ("bank", True, (188, 2048, 128, 2)): 48_485,
    ("bank", False, (188, 2048, 128, 2)): 35_284,
    ("bank", True, (157, 2048, 160, 1)): 40_185,
    ("bank", True, (228, 2048, 128, 1)): 30_062,
    ("bg", True, (130, 2048, 128, 2)): 122_255,
    ("bg", False, (130, 2048, 128, 2)): 81_615,
    ("buffer", True, (130, 2048, 128, 2)): 326_797,
    ("bank", True, (130, 256, 128, 2)): 4_033,
    ("bank", True, (130, 1024, 128, 2)): 18_052,
    ("bg", True, (188, 512, 128, 2)): 40_371,
    ("buffer", False, (188, 512, 128, 2)): 108_863,
    ("bank", True, (3, 2049, 128, 2)): 3_930,
    ("bank", True, (3, 2161, 128, 2)): 4_098,
}
WITHIN = {"bank": 0.006, "bg": 0.006, "buffer": 0.006}  # what is asked: 3 % at banks, 5 % else
LONG = ("buffer", True, (130, 2048, 128, 2))  # what breaks a rule shows in the other one of buffers as well
GRADES = {4800: 15_819, 5200: 16_161, 5600: 15_980, 6000: 16_174, 6400: 18_538}
SIXTY = Work(60, 2048, 128, 2)


def table_of(limited: bool = True, rate: int = 5200) -> Table:
    return compile_table(load_part(f"hbm3_attacc_{rate}", {} if limited else FREE).value)


def cycles(table: Table, work: Work, placement: str = "bank", *, as_released: bool = True, **options) -> int:
    """Of the channel that takes longest."""
    org = load_part("hbm3_attacc_5200").value.organization
    layout = lay_out(org, Placement(placement), work)
    every = streams(org, layout, work, as_released=as_released)
    return max(simulate(table, placement, same.requests, **options).cycles for same in every)


def slipping(table: Table) -> Table:
    """With the simulator's slips: REFab follows PREA in the next clock, and ACTAB waits for the first REFab of four."""
    for i, row in enumerate(rule_rows(table.rules)):
        after, before = ({table.names[c] for c in found} for found in (row.after, row.before))
        if "PREA" in after and "REFab" in before:
            table = bend(table, i, 1 - row.wait)
        if "REFab" in after and "ACTAB" in before:
            table = bend(table, i, -3)
    return table


def as_compiled(table: Table, work: Work, issue: Issue = Issue.ALWAYS) -> int:
    """And its clocks begin at 1."""
    return cycles(slipping(table), work, issue=issue, due_ck=table.rules.refi - 1)


@pytest.mark.parametrize("run", [slow(run) if run == LONG else run for run in MEASURED], ids=str)
def test_cycles_of_a_stack(run: tuple[str, bool, tuple[int, int, int, int]]) -> None:
    placement, limited, work = run
    assert cycles(table_of(limited), Work(*work), placement) == pytest.approx(MEASURED[run], rel=WITHIN[placement])


def test_each_sixteen_tokens_take_24_clocks() -> None:
    found = [cycles(table_of(), Work(3, context, 128, 2)) for context in range(2049, 2177, 16)]
    assert [b - a for a, b in zip(found, found[1:], strict=False)] == [24] * 7
    assert cycles(table_of(), Work(3, 2175, 128, 2)) == found[-1]


def test_what_the_power_limit_costs() -> None:
    free, limited = (cycles(table_of(on), Work(188, 2048, 128, 2)) for on in (False, True))
    assert free / limited == pytest.approx(0.728, abs=0.002)  # asked: 0.02


def test_without_refresh_it_is_the_simulator_to_the_clock() -> None:
    assert cycles(table_of(), SIXTY, refresh=False) == 14_847


@pytest.mark.parametrize("rate", GRADES)
def test_with_its_slips_of_refresh_it_is_the_simulator_to_the_clock(rate: int) -> None:
    assert as_compiled(table_of(rate=rate), SIXTY) == GRADES[rate]


def test_dual_issue_bounds_what_the_simulator_leaves_undefined() -> None:
    """What it reads where it finds no first command depends on its compiler: guarded and without a second command."""
    most = Work(188, 2048, 128, 2)
    assert [as_compiled(table_of(on), most) for on in (True, False)] == [48_485, 35_284]
    assert [as_compiled(table_of(on), SIXTY) for on in (True, False)] == [16_161, 11_755]
    assert [as_compiled(table_of(on), SIXTY, Issue.BESIDE) for on in (True, False)] == [16_281, 11_845]
    assert as_compiled(table_of(False), most, Issue.BESIDE) == 36_005
    assert as_compiled(table_of(), SIXTY, Issue.ONE) == 16_283
    found = [cycles(table_of(), SIXTY, issue=issue) for issue in (Issue.ALWAYS, Issue.BESIDE, Issue.ONE)]
    assert found == sorted(found) and found[-1] / found[0] < 1.01


def test_the_intended_schedule_takes_no_longer_where_rows_are_long() -> None:
    """But for short contexts: the context taken twice finds its rows open, another one has to open its own."""
    assert cycles(table_of(), SIXTY, as_released=False) == cycles(table_of(), SIXTY)
    short = Work(130, 256, 128, 2)
    assert cycles(table_of(), short, as_released=False) / cycles(table_of(), short) == pytest.approx(1.04, abs=0.005)
