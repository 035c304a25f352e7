"""Duplex's bank bundles: each wait blocked at n - 1 and legal at n, with clocks typed from the published simulator's
table; the row of a bundle beside those of its banks; how fast bundles and banks are read."""

from itertools import product

import numpy as np
import pytest

from pimloom.arch.command import STREAM
from pimloom.arch.error import UserError
from pimloom.arch.pim import duplex
from pimloom.arch.system import load_part
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.dram.trace import TRACE

QUIET = 10_000  # by then nothing of what came before is felt
NRFC = 456  # 350 ns in clocks of 0.769 ns, rounded up


def table_of(**timing: str) -> Table:
    overrides = {f"timing.{name}": text for name, text in timing.items()}
    return compile_table(load_part("hbm3_duplex_5200", overrides).value)


def trace_of(table: Table, orders: list[tuple[str, int, int]]) -> np.ndarray:
    """TRACE of (command, rank, clock), all in pseudo channel 0, row 0 of bank 0."""
    trace = np.zeros(len(orders), TRACE)
    for row, (name, rank, clock) in zip(trace, orders, strict=True):
        row["cmd"], row["rank"], row["clock"] = table.cmd(name), rank, clock
    return trace


RULES = {  # what comes long before, the pair, its wait in CK; S: nCL 19, nRCD 19, nRP 19, nRAS 45, nRTPS 6, nWR 21 ...
    "ALL_ACT to ALL_RD": ("", "ALL_ACT ALL_RD", 19),
    "ALL_ACT to ALL_WR": ("", "ALL_ACT ALL_WR", 19),
    "ALL_ACT to ALL_PRE": ("", "ALL_ACT ALL_PRE", 45),
    "ALL_PRE to ALL_ACT": ("ALL_ACT", "ALL_PRE ALL_ACT", 19),
    "ALL_PRE to REFab": ("ALL_ACT", "ALL_PRE REFab", 19),
    "ALL_RD to ALL_RD": ("ALL_ACT", "ALL_RD ALL_RD", 4),
    "ALL_WR to ALL_WR": ("ALL_ACT", "ALL_WR ALL_WR", 4),
    "ALL_RD to ALL_PRE": ("ALL_ACT", "ALL_RD ALL_PRE", 6),
    "ALL_RD to PREab": ("ALL_ACT", "ALL_RD PREab", 6),
    "ALL_WR to ALL_PRE": ("ALL_ACT", "ALL_WR ALL_PRE", 6 + 2 + 21),
    "ALL_WR to ALL_RD": ("ALL_ACT", "ALL_WR ALL_RD", 6 + 2 + 11),
    "ALL_RD to ALL_WR": ("ALL_ACT", "ALL_RD ALL_WR", 19 + 2 + 2 - 6),
    "REFab to ALL_ACT": ("", "REFab ALL_ACT", NRFC),
    "PREab to ALL_ACT": ("", "PREab ALL_ACT", 19),
}


@pytest.mark.parametrize("name", RULES)
def test_a_wait_blocks_at_one_less_and_lets_pass_at_its_clocks(name: str) -> None:
    table = table_of()
    before, pair, wait = RULES[name]
    first, second = pair.split()
    early = [(before, 0, 0)] if before else []
    for distance, faults in ((wait - 1, 1), (wait, 0)):
        trace = trace_of(table, [*early, (first, 0, QUIET), (second, 0, QUIET + distance)])
        assert len(check_trace(table, trace)) == faults
    stream = np.zeros(len(early) + 2, STREAM)
    stream["cmd"], stream["count"] = [table.cmd(n) for n in [*before.split(), first, second]], 1
    stream["release"][-2] = QUIET
    clocks = issue(table, [stream], refresh=False).issue_ck[0]
    assert clocks[-1] - clocks[-2] == wait


def test_a_row_cycle_is_a_rule_of_its_own() -> None:
    """nRC of 63 or 64 hides behind nRAS and nRP: here it is longer than both."""
    table = table_of(tRC="70 nCK")
    for distance, faults in ((69, 1), (70, 0)):
        orders = [("ALL_ACT", 0, 0), ("ALL_PRE", 0, 45), ("ALL_ACT", 0, distance)]
        assert len(check_trace(table, trace_of(table, orders))) == faults


def test_ranks_share_the_path_to_the_logic_die_and_nothing_else() -> None:
    table = table_of()
    both = [("ALL_ACT", 0, 0), ("ALL_ACT", 1, 2)]
    assert not check_trace(table, trace_of(table, [*both, ("ALL_RD", 0, 19), ("ALL_RD", 1, 23)]))
    assert check_trace(table, trace_of(table, [*both, ("ALL_RD", 0, 19), ("ALL_RD", 1, 22)]))
    assert check_trace(table, trace_of(table, [("ALL_ACT", 0, 0), ("ALL_ACT", 1, 1)]))  # the row bus is held


@pytest.mark.parametrize(("first", "second"), list(product(("ALL_RD", "ALL_WR"), repeat=2)))
def test_reads_and_writes_of_two_ranks_share_the_path(first: str, second: str) -> None:
    """tCCD_L of 4 between ranks, whichever way the data go."""
    table = table_of()
    both = [("ALL_ACT", 0, 0), ("ALL_ACT", 1, 2)]
    for distance, faults in ((3, 1), (4, 0)):
        found = check_trace(table, trace_of(table, [*both, (first, 0, 30), (second, 1, 30 + distance)]))
        assert len(found) == faults


def test_where_both_ranks_share_the_activation_window() -> None:
    """The fifth ACT of a pseudo channel is 39 clocks behind the first where tFAW_R says so, else of a rank alone."""
    for timing, faults in (({}, [0, 0]), ({"tFAW_R": "39 nCK"}, [1, 0])):
        table = table_of(**timing)
        for at, expected in zip((38, 39), faults, strict=True):
            trace = trace_of(table, [("ACT", n % 2, 2 * n) for n in range(4)] + [("ACT", 0, at)])
            trace["bg"] = [0, 0, 1, 1, 2]
            assert len(check_trace(table, trace)) == expected


def test_one_bus_carries_rows_and_columns() -> None:
    orders = [("ACT", 0, 0), ("RD", 0, 19), ("PREab", 1, 19)]
    shared = compile_table(load_part("hbm3_duplex_5200", {"one_bus": "true"}).value)
    assert not check_trace(table_of(), trace_of(table_of(), orders))
    (fault,) = check_trace(shared, trace_of(shared, orders))
    assert fault.kind == "bus"
    with pytest.raises(UserError, match=r"--set one_bus: gddr6 has one command bus; leave this out"):
        load_part("gddr6_14000", {"one_bus": "true"})


def test_what_a_part_leaves_out_can_be_set() -> None:
    """Optional timings of its standard and fields with a default; no other keys."""
    more = {"organization.ranks": "2", "organization.capacity_bytes": str(2 * 2**30), "timing.tCCD_R": "3 nCK"}
    assert load_part("hbm3_6400", more).value.cycles("tCCD_R") == 3
    assert load_part("hbm3_6400", {"devices": "2"}).value.devices == 2
    for key in ("timing.tCCD_Q", "timing.tFAW_R", "standards", "pim_unit"):
        with pytest.raises(UserError, match=f"--set {key}: no such key in hbm3_6400.yaml"):
            load_part("hbm3_6400", {key: "2 nCK"})


def test_a_refresh_finds_the_bundle_closed() -> None:
    table = table_of()
    (fault,) = check_trace(table, trace_of(table, [("ALL_ACT", 0, 0), ("REFab", 0, 200)]))
    assert fault.sentence.endswith("needs closed rows in bank 0 of the channel, but ALL_ACT opened row 0 at CK 0")
    assert not check_trace(table, trace_of(table, [("ALL_ACT", 0, 0), ("REFab", 1, 200)]))
    assert not check_trace(table, trace_of(table, [("ALL_ACT", 0, 0), ("ALL_PRE", 0, 45), ("REFab", 0, 200)]))


@pytest.mark.parametrize("first", ["ACT", "PRE", "PREab", "REFpb", "ALL_ACT", "ALL_PRE"])
@pytest.mark.parametrize("second", ["ACT", "ALL_ACT"])
def test_an_activation_holds_the_row_bus_for_two_clocks(first: str, second: str) -> None:
    """In another pseudo channel, where nothing else binds it."""
    table = table_of()
    for distance, faults in ((1, 1), (2, 0)):
        trace = trace_of(table, [(first, 0, QUIET), (second, 1, QUIET + distance)])
        trace["pch"][1] = 1
        assert len(check_trace(table, trace)) == faults


def test_every_rule_of_the_table_is_tested() -> None:
    own = [rule for rule in duplex.RULES if rule.level.name == "RANK"]
    assert sum(len(rule.after) * len(rule.before) for rule in own) == len(RULES) - 2 + 1  # two at the pseudo channel


def test_a_bundle_reads_beside_banks() -> None:
    """The row of a bundle is not that of a bank: both are open, and both are read in the same clocks."""
    table = table_of()
    orders = [("ALL_ACT", 0, 0), ("ACT", 0, 2), ("ALL_RD", 0, 21), ("RD", 0, 22), ("ALL_RD", 0, 25), ("RD", 0, 26)]
    assert not check_trace(table, trace_of(table, orders))


def test_an_open_bundle_is_not_opened_again() -> None:
    table = table_of()
    stream = np.zeros(2, STREAM)
    stream["cmd"], stream["count"] = table.cmd("ALL_ACT"), 1
    with pytest.raises(UserError, match="needs closed rows"):
        issue(table, [stream], refresh=False)


def test_refresh_waits_for_the_bundle() -> None:
    table = table_of()
    stream = np.zeros(4, STREAM)
    stream["cmd"], stream["count"] = [table.cmd(name) for name in ("ALL_ACT", "ALL_RD", "ALL_PRE", "ALL_ACT")], 1
    stream["release"][2] = 6000  # tREFI is 5070
    found = issue(table, [stream])
    clock = {int(node): int(at) for at, node in found.refresh_ck}
    assert found.issue_ck[0][3] == 6000 + 19 + NRFC
    assert clock[0] == 6000 + 19  # the rank of the bundle, once ALL_PRE is over
    assert {clock[node] for node in (1, 2, 3)} <= set(range(5070, 5080))


def test_a_bundle_has_four_times_the_bandwidth_of_the_pins() -> None:
    part = load_part("hbm3_duplex_5200").value
    bits_per_ck = 8 * part.organization.access_bits / part.cycles("tCCD_L")
    assert bits_per_ck == 4 * part.organization.access_bits / part.cycles("tCCD_S") == 2048 / 4
    assert part.peak_gb_s * 16 == pytest.approx(665.6)


def test_a_refresh_of_a_stream_waits_for_the_bundle() -> None:
    """It could never issue, and the sentence names the row buffer's own command."""
    table = table_of()
    stream = np.zeros(2, STREAM)
    stream["cmd"], stream["count"] = [table.cmd("ALL_ACT"), table.cmd("REFab")], 1
    with pytest.raises(UserError, match="REFab.*needs closed rows, but ALL_ACT opened row 0 at CK 0"):
        issue(table, [stream], refresh=False)
    closes = np.zeros(3, STREAM)
    closes["cmd"], closes["count"] = [table.cmd(name) for name in ("ALL_ACT", "ALL_PRE", "REFab")], 1
    assert issue(table, [closes], refresh=False).issue_ck[0].tolist() == [0, 45, 45 + 19]
