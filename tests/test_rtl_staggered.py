# amaranth: UnusedElaboratable=no
"""Refreshes of ranks and pseudo channels that fall due in turn: engine, and gates with the part's own timings."""

import msgspec
import numpy as np
import pytest

from pimloom.arch.command import STREAM
from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.arch.units import Time
from pimloom.cycle_sim.dram.stream import issue
from pimloom.rtl.flow.cosim import Case, walk
from pimloom.rtl.flow.stimulus import draw_own_cases, engine, own_table, shrink
from pimloom.rtl.sequencer import Sequencer
from tests.simulators import needs
from tests.slow import slow

OFTEN = {"tREFI": Time(100), "tRFC": Time(40)}  # CK: so that refreshes come among commands


def test_nodes_are_refreshed_in_turn():
    part = load_part("ddr4_2400").value
    table = own_table(part, msgspec.structs.replace(shrink(part, 1, 1), ranks=2))
    refi = table.rules.refi
    idle, opened = np.zeros(1, STREAM), np.zeros(2, STREAM)
    idle["count"] = opened["count"] = 1
    idle["cmd"], idle["release"] = table.cmd("PREab"), 3 * refi
    apart = issue(table, [idle], apart_ck=refi // 2).refresh_ck
    assert apart.tolist() == [[refi * n // 2, n % 2] for n in range(2, 7)]
    assert issue(table, [idle]).refresh_ck[:, 1].tolist() == [0, 1, 0, 1, 0, 1]
    opened["cmd"], opened["release"], opened["rank"] = [table.cmd("ACT"), table.cmd("PRE")], [0, 3 * refi], 1
    late = issue(table, [opened], apart_ck=refi // 2).refresh_ck  # the other rank is refreshed in its clocks
    assert late.tolist() == [[refi, 0], [2 * refi, 0], [3 * refi, 0]]


@pytest.mark.parametrize(
    ("name", "banks", "bent", "simulator", "commands"),
    [
        ("hbm2_neupims", (1, 1), OFTEN, "icarus", 60),
        slow("hbm2_neupims", (2, 2), OFTEN, "verilator", 400),
        slow("hbm2_neupims", (2, 2), {}, "verilator", 400),
        slow("hbm2_2400", (2, 2), {}, "icarus", 400),
    ],
)  # of two refresh nodes
def test_gates_refresh_in_turn(name, banks, bent, simulator, commands):
    part = load_part(name).value
    part = msgspec.structs.replace(part, timing=part.timing | bent)
    geometry = shrink(part, *banks)
    apart = Sequencer(own_table(part, geometry), refresh="staggered").apart
    assert apart == part.cycles("tREFI") // 2
    cases = list(draw_own_cases(part, geometry, commands, 1, apart))
    idle = np.zeros(1, STREAM)
    idle["count"] = 1
    idle["cmd"], idle["release"] = cases[0].table.cmd("PREab"), 3 * part.cycles("tREFI")
    cases.append(Case(cases[0].table, [idle], apart_ck=apart))
    found = walk(cases, 1, 0, most_ck=100_000, simulator=needs(simulator)).walks
    for case, walked in zip(cases, found, strict=True):
        model = engine(case)
        issue_ck, refresh_ck, _ = model
        assert np.array_equal(walked.issue_ck[0], issue_ck[0]) and np.array_equal(walked.refresh_ck, refresh_ck)
    assert not bent or sum(len(walked.refresh_ck) for walked in found[:-1]) > 5
    nodes = found[-1].refresh_ck
    assert nodes[:, 1].tolist() == [0, 1] * 2 + [0] and set(np.diff(nodes[:, 0])) <= {apart, apart + 1}


def test_gates_of_another_distance_are_not_taken_for_these():
    part = load_part("hbm2_neupims").value
    (case, *_) = draw_own_cases(part, shrink(part, 2, 2), 20, 1)
    with pytest.raises(ValueError, match="as far apart as in the netlist"):
        walk([case._replace(apart_ck=7)], 1, 0, most_ck=1)


@pytest.mark.parametrize(("refresh", "name", "said"), [
    ("staggered", "gddr6_aim", "refreshes of 1 node fall due one by one"),
    ("in_turn", "hbm2_neupims", "unknown refresh; known: all_bank .*, staggered"),
])  # fmt: skip
def test_what_cannot_be_is_refused(refresh, name, said):
    part = load_part(name).value
    with pytest.raises(UserError, match=f"^--refresh {refresh}: {said}"):
        Sequencer(own_table(part, part.organization), refresh=refresh)
