# amaranth: UnusedElaboratable=no
"""The path controller's gates do in every clock what the model says, for any times and tables and the part's own."""

import json
from itertools import pairwise

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.optics import SwitchTable, load_optics, switch_table
from pimloom.cycle_sim.ocs import Request
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.lookup import part_of
from pimloom.rtl.flow.prove import prove
from pimloom.rtl.flow.scenes.optics import (
    BITS,
    TIMES,
    SwitchCase,
    decides,
    draw_switch_cases,
    own_switch_case,
    switch_scene,
)
from pimloom.rtl.flow.scenes.scene import mismatches, play
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.formal.ocs import SWITCH_PROPERTIES
from pimloom.rtl.ocs_switch import OcsSwitch
from pimloom.rtl.verilog import to_verilog
from tests.command import call
from tests.simulators import needs

CASES = draw_switch_cases(500, 1)


def bent() -> list[tuple[SwitchCase, SwitchCase]]:
    """Cases, and what they become when a time is one clock longer, or shorter, and that changes what happens."""
    found: list[tuple[SwitchCase, SwitchCase]] = []
    for time in TIMES:
        for by in (1, -1):
            for case in CASES:
                other = getattr(case.table, time) + by
                changed = case._replace(table=case.table._replace(**{time: other}))
                if other >= (time in ("decide", "blackout")) and changed.outcome() != case.outcome():
                    found.append((case, changed))
                    break
    return found


BENT = bent()
SCENE = switch_scene([*CASES, *(changed for _, changed in BENT)], ports=True)
UNBENT = switch_scene([*CASES, *(case for case, _ in BENT)], ports=True)


@pytest.fixture(scope="module")
def left() -> dict[str, np.ndarray]:
    """What the gates do, with times and tables on their ports."""
    return play(to_verilog(OcsSwitch(CASES[0].table, BITS), "ocs_switch"), "ocs_switch", SCENE, needs("icarus"))


def test_gates_and_model_agree_in_every_clock(left):
    assert mismatches(SCENE, left) == []


def test_each_time_off_by_one_in_the_gates_only_is_caught(left):
    assert len(BENT) == 8
    caught = {int(sentence.split(" of case ")[1].split()[0]) for sentence in mismatches(UNBENT, left)}
    assert caught == set(range(len(CASES), len(CASES) + 8))


def test_a_mismatch_says_which_case_and_clock(left):
    wrong = SCENE.expected["live"].copy()
    wrong[CASES[0].clocks + 1 + 3] ^= 7  # three clocks after the reset of the second case
    (said,) = mismatches(SCENE._replace(expected={**SCENE.expected, "live": wrong}), left)
    assert said.startswith("live of case 1 in clock 3 is 0x")


def test_what_is_proved_holds_in_every_clock_of_the_gates(left):
    """The properties in plain words, over what stood at the ports, without the model; tags do not repeat so soon."""
    first = 0
    for case in CASES:
        rows = slice(first, first := first + case.clocks + 1)
        live, closed, ends = (left[port][rows].tolist() for port in ("live", "closed", "ends"))
        dark = idle = 0
        for before, now in pairwise(zip(closed, live, strict=True)):
            assert all(bits & (bits - 1) == 0 for bits in now) and now[1] in (0, now[0])
            dark, was_dark = (0 if now[0] else dark + 1), dark
            idle, was_idle = (0 if now[1] else idle + 1), idle
            assert before[0] == now[0] or not now[0] or was_dark == case.table.blackout
            assert before[1] == now[1] or not now[1] or was_idle == case.table.switch
            assert idle <= case.table.switch
        asked = [event.cycle for event in case.events if isinstance(event, Request)]
        told = [(clock - 1, word >> 10 * s & 1023) for clock, word in enumerate(ends) for s in range(3)]
        ended = {number >> 2: clock for clock, number in told if number & 1}
        assert sorted(ended) == list(range(len(asked))) and sum(number & 1 for _, number in told) == len(asked)
        assert all(0 <= ended[n] - clock <= case.table.bound for n, clock in enumerate(asked))
    assert first > 2000


def test_the_cases_have_everything_in_them():
    fates = [fate for case in CASES for fate in case.outcome().fates]
    assert len(fates) == 500
    assert {(fate.stage, fate.why) for fate in fates} == {
        ("arrival", ""),
        ("arrival", "no such entry"),
        ("arrival", "path failed"),
        ("kept", ""),
        ("kept", "path failed"),
        ("kept", "superseded"),
        ("switch", ""),
        ("switch", "path failed"),
    }
    assert sum(len(case.outcome().failovers) for case in CASES) > 5
    assert any(fate.taken not in (None, fate.request.entry) for fate in fates)
    assert {time: decides(CASES, time) is not None for time in TIMES} == dict.fromkeys(TIMES, True)


SMALLEST = SwitchTable(0, 1, 1, 0, 2, ((0, 0), (1, 0)))
THREE = SwitchTable(3, 2, 5, 4, 3, ((2, 0), (0, 2), (1, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("table", [SMALLEST, THREE])
def test_times_and_entries_may_be_constants(table):
    case = own_switch_case(table, 3)
    assert len(case.outcome().failovers) == 1
    scene = switch_scene([case], ports=False)
    verilog = to_verilog(OcsSwitch(table), "ocs_switch")
    assert mismatches(scene, play(verilog, "ocs_switch", scene, needs("icarus"))) == []


@pytest.mark.slow
def test_the_parts_own_controller_at_full_length():
    (found,) = verify("ocs_switch", "ocstrx", simulator=needs("icarus"), commands=2000, seed=1)
    assert (found.block, found.part, found.mismatches, found.sleeping_rules) == ("ocs_switch", "ocstrx", 0, {})
    assert found.cycles > 40_000 and found.commands == 2002 and found.rules_bound == found.rules_total == 4


@pytest.mark.slow
def test_a_wrong_model_is_a_mismatch_and_leaves_its_waveform(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right = switch_table(load_optics("ocstrx").value)
    monkeypatch.setattr("pimloom.rtl.flow.verify.optics.own_switch_case", lambda table, seed: wrong_case(right, seed))
    (found,) = verify("ocs_switch", "gddr6_aim", simulator=needs("icarus"), commands=50)
    assert found.mismatches > 0 and found.waves == "ocs_switch-ocstrx-0.vcd" and (tmp_path / found.waves).exists()


def wrong_case(table: SwitchTable, seed: int) -> SwitchCase:
    """Of a table with a blackout that is a clock longer."""
    return own_switch_case(table._replace(blackout=table.blackout + 1), seed)


def test_an_optical_block_takes_an_optical_part():
    assert part_of("ocs_switch", "gddr6_aim") == part_of("ocs_switch", "ocstrx") == "ocstrx"
    assert part_of("timer", "gddr6_aim") == part_of(None, "gddr6_aim") == "gddr6_aim"
    for block in ("timer", None):
        with pytest.raises(
            UserError, match="ocstrx is an optical part; name a block that is made from one: ocs_switch"
        ):
            part_of(block, "ocstrx")
    table = BLOCKS["ocs_switch"].build(load_optics("ocstrx", {"timing.retrain": "2 ms"}).value).switch_table
    assert table.retrain == 20_000


def test_emit_names_every_port():
    done = call("rtl", "emit", "ocs_switch", "--part", "ocstrx")
    assert (done.code, done.err) == (0, "") and done.out.startswith("// ocs_switch of ocstrx, by pimloom ")
    assert "//   in  request [11:0]: valid [0], entry [3:1], tag [11:4]\n" in done.out
    assert call("rtl", "emit", "timer", "--part", "ocstrx").code == 2


@pytest.mark.slow
def test_every_property_is_proved_seen_and_fails_for_its_twins():
    found = list(prove("ocs_switch", "ocstrx"))
    assert [proof.property for proof in found] == list(SWITCH_PROPERTIES) * 2
    assert {(proof.block, proof.result, proof.method) for proof in found} == {("ocs_switch", "proved", "k-induction")}
    assert all(proof.covered and proof.twin_failed for proof in found if proof.timings.startswith("any"))


@pytest.mark.slow
def test_synthesis_of_the_controller():
    (row,) = json.loads(call("rtl", "synth", "ocs_switch", "--json", "-").out)["rows"]
    assert row["block"] == "ocs_switch" and row["part"] == "ocstrx" and 80 < row["flip_flops"] < 300
