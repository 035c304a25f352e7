# amaranth: UnusedElaboratable=no
"""The sequencer's gates issue every command in the clock in which engine and oracle say, on the same tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random

import msgspec
import numpy as np
import pytest

from pimloom.arch.command import Level
from pimloom.arch.error import UserError
from pimloom.arch.names import list_names
from pimloom.arch.part import Organization, Part
from pimloom.arch.system import is_optics, load_part
from pimloom.arch.table import Table, bend, build_table, rule_rows, standard_of
from pimloom.arch.units import Time
from pimloom.commands.rtl import emitted
from pimloom.rtl.flow.cosim import TOP, Case, Walk, walk
from pimloom.rtl.flow.coverage import feels, reasons
from pimloom.rtl.flow.sequencer import corners, mismatches, most_ck, verify_sequencer
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.stimulus import (
    draw_case,
    draw_cases,
    draw_clocks,
    draw_pair,
    engine,
    own_table,
    shrink,
)
from pimloom.rtl.flow.verified import Verified
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.verilog import to_verilog
from tests import netlists, streams
from tests.naive import Outcome
from tests.netlists import BANKS, STREAMS, WAIT_BITS
from tests.simulators import needs
from tests.sleeping_rules import ASLEEP_AS_EMITTED, NEUPIMS, NO_TIMER, SLEEPING_IN_GATES
from tests.slow import slow

SIMULATOR: dict[str, Simulator] = {  # so that both are tried
    "gddr6_pim_gpt": "verilator",
    "hbm2_2000": "icarus",
    "hbm2_neupims": "verilator",
}
MOST_CK = 40_000
TURNS = 20  # cases that are drawn for a rule, at most
SEED = 1  # with which every rule binds; a test says so


def few_banks(part: Part) -> Organization:
    """More than four of a rank: fewer ACTs never wait for a window."""
    return shrink(part, 2, 4)


def soon_starved(name: str) -> Part:
    """A part whose refreshes come close to each other, so that nine are soon pending."""
    part = load_part(name).value
    return msgspec.structs.replace(part, timing=part.timing | {"tREFI": Time(4 * part.cycles("tRFC"))})


def simulated(part: Part, name: str, commands: int, simulator: Simulator, organization: Organization) -> Verified:
    return verify_sequencer(name, part, needs(simulator), commands, SEED, None, lambda *_: None, organization)


@pytest.mark.parametrize(
    "name", ["ddr4_3200", *map(slow, ("gddr6_pim_gpt", "hbm2_2400", "hbm2_neupims", "lpddr5_6400"))]
)
def test_emitted_gates_and_engine_agree_and_every_rule_decides_a_clock_or_has_a_reason(name):
    part = soon_starved(name)
    found = simulated(part, name, 900, "icarus", few_banks(part))
    assert (found.mismatches, found.first_mismatch) == (0, None)
    assert found.commands >= 900 and found.rules_total == len(rules_of(name))
    assert set(found.sleeping_rules) == set(ASLEEP_AS_EMITTED.get(name, {}))
    assert found.rules_bound + len(found.sleeping_rules) == found.rules_total


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in list_names("parts") if not is_optics(name)])
def test_ten_thousand_commands_on_the_text_of_each_part(name):
    part = load_part(name).value
    found = simulated(part, name, 10_000, "verilator", part.organization)
    assert (found.mismatches, found.first_mismatch) == (0, None)
    assert set(found.sleeping_rules) == set(ASLEEP_AS_EMITTED.get(name, {}))


def test_what_is_verified_is_what_is_emitted():
    """But for comments, letter for letter."""
    part = load_part("ddr4_3200").value
    text = emitted("sequencer", "ddr4_3200")
    block = Sequencer(own_table(part, part.organization))
    assert re.sub(r"^ *//.*\n", "", text, flags=re.MULTILINE).strip() == to_verilog(block, TOP).strip()


@cache
def text_and_cases() -> tuple[str, list[Case]]:
    """The emitted text of a part whose tFAW is longer than four tRRD, pairs of that rule's commands, and ends."""
    part = soon_starved("ddr4_3200")
    table, window = (
        own_table(part, few_banks(part)),
        next(i for i, r in enumerate(rules_of("ddr4_3200")) if r.window > 1),
    )
    pairs = [draw_pair(Random(f"window {i}"), table, few_banks(part), window) for i in range(12)]
    cases = [*(pair.case for pair in pairs if pair), *corners(table, few_banks(part), SEED, 0)]
    return to_verilog(Sequencer(table), TOP), cases


@pytest.mark.parametrize(("right", "wrong"), [
    ("", ""),
    (r"busy\[3\] = \|left_3", "busy[3] = 1'h0"),  # the fourth counter is off: tFAW is never enforced
    (r"1'h1: left_3 <= lower_2", "1'h1: left_3 <= lower_1"),  # the third latest counts as the fourth
    (r"assign starved = .*;", "assign starved = 1'h0;"),
    (r"assign stuck = .*;", "assign stuck = 1'h0;"),
    (r"head_0_opens = \{8\{heads__0__payload__cmd == CMD_ACT", "head_0_opens = {8{heads__0__payload__cmd == CMD_SRX"),
    (r"row_0_5 <= after_opens_0\[BG1_BANK1\] \? (\S+) : row_0_5", r"row_0_5 <= \1"),  # follows each head
    (r"(row_0_7 <= .*? \? )heads__0__payload\[(\d+):(\d+)\]", r"\1heads__0__payload[\2:\3] & ~16'h8000"),
    (r"refresh_falls_due = .*;", "refresh_falls_due = 1'h0;"),
])  # fmt: skip
def test_a_broken_text_is_caught(right: str, wrong: str) -> None:
    text, cases = text_and_cases()
    broken, times = re.subn(right, wrong, text, count=1)
    assert times == 1
    walks = walk(cases, 1, 0, most_ck=most_ck(cases), simulator=needs("icarus"), verilog=broken).walks
    assert any(mismatches(case, w)[0] for case, w in zip(cases, walks, strict=True)) == bool(right)


def test_few_rules_that_have_a_timer_sleep():
    for part, rules in ASLEEP_AS_EMITTED.items():
        assert sum(why != NO_TIMER for why in rules.values()) <= 3 + (rules is NEUPIMS), part


def reason(name: str, rule: str) -> str:
    part = load_part(name).value
    return reasons(rules_of(name), own_table(part, few_banks(part)), few_banks(part), [rule])[rule]


def test_the_reasons_of_sleeping_rules_name_what_takes_longer():
    """Four tRRD_S of 4 CK take longer than tFAW; PIM_PRECHARGE has to come before a G_ACT."""
    window, opening = "ACT → ACT, same pseudo channel, 4th latest: tFAW", "PIM_GEMV → G_ACT, same channel: tRTP + tRP"
    why = reason("hbm2_2000", window)
    assert why.startswith("it asks for 15 CK, and without it at least 16 CK pass, because of: ACT → ACT, same pseudo")
    why = reason("hbm2_neupims", opening)
    assert "PIM_PRECHARGE → G_ACT, same bank: tRP" in why and "PIM_GEMV → PIM_PRECHARGE" in why


def rules_of(part: str):
    return standard_of(load_part(part).value).rules


def asleep(part: str) -> list[str]:
    """The rules that no stream can feel to the clock."""
    pim = load_part(part).value.pim
    return [str(rule) for rule in rules_of(part) if (pim, str(rule)) in SLEEPING_IN_GATES]


def mutants(part: str) -> list[tuple[int, int, Case]]:
    """(rule, by, case) of each rule changed by one clock, both ways, with a case that should notice.

    A rule that sleeps is late by two: then the clock in which it would not bind is past.
    """
    device, rules = load_part(part).value, rules_of(part)
    wanted = [(i, by) for i, rule in enumerate(rules) for by in ((2,) if str(rule) in asleep(part) else (1, -1))]
    return list(noticed(part, device, shrink(device, *BANKS), wanted))


def noticed(
    part: str, device: Part, geometry: Organization, wanted: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, Case]]:
    """(rule, by, case) of each (rule, by) that a drawn case feels; every fourth has the part's own timings."""
    rules, own = standard_of(device).rules, own_table(device, geometry)
    for rule, by in wanted:
        for turn in range(TURNS):
            rng = Random(f"{part} {rule} {by} {turn}")
            clocks = draw_clocks(rng, device, rules[rule], turn)
            table = own if turn % 4 == 3 else build_table(own.commands, rules, clocks, geometry, own.refresh)
            case = draw_case(rng, table, geometry, STREAMS, rule)
            model = engine(case)
            if model.end == "done" and feels([case], [model], rule, by) is not None:
                yield rule, by, case
                break


@pytest.mark.parametrize("part", ["gddr6_pim_gpt", slow("hbm2_2000"), slow("hbm2_neupims")])
def test_each_rule_off_by_one_in_the_gates_only_is_caught(part):
    found = mutants(part)
    assert {rule for rule, by, _ in found if by > 0} == set(range(len(rules_of(part))))
    assert len(found) == 2 * len(rules_of(part)) - len(asleep(part))
    assert_all_caught(found, SIMULATOR[part], netlists.sequencer(part))


def assert_all_caught(found: list[tuple[int, int, Case]], simulator: Simulator, verilog: str | None = None) -> None:
    """Gates with a bent rule are not the engine with the right one, but that with the bent one."""
    bent = [case._replace(table=bend(case.table, rule, by)) for rule, by, case in found]
    walks = walk(bent, STREAMS, WAIT_BITS, most_ck=MOST_CK, simulator=needs(simulator), verilog=verilog).walks
    missed = [(rule, by) for (rule, by, case), w in zip(found, walks, strict=True) if not mismatches(case, w)[0]]
    assert missed == []
    for case, w in zip(bent, walks, strict=True):
        assert mismatches(case, w) == (0, "")


def beside_or_wide(table: Table) -> list[int]:
    """Rules between siblings, and those that a command meets at several nodes at once."""
    scope = table.rules.scope
    rows = enumerate(rule_rows(table.rules))
    return [i for i, row in rows if row.sibling or min(scope[list(row.before)]) < row.level]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "changed", "number"), [("hbm2_neupims", {}, 7), ("ddr4_3200", {"ranks": 3}, 4)])
def test_rules_between_siblings_off_by_one_in_the_gates_only_are_caught(part, changed, number):
    """Of ranks, of banks that load one buffer, and of a command on all banks of a group."""
    device = load_part(part).value
    geometry = msgspec.structs.replace(shrink(device, *BANKS), **changed)
    device = msgspec.structs.replace(device, organization=geometry)
    rows = beside_or_wide(own_table(device, geometry))
    found = list(noticed(part, device, geometry, list(product(rows, (1, -1)))))
    assert len(rows) == number and [(rule, by) for rule, by, _ in found] == list(product(rows, (1, -1)))
    assert_all_caught(found, "icarus")


SIZES = {"gddr6": (1, 1, 2, 2), "gddr6+aim": (1, 1, 2, 2), "hbm2": (2, 1, 2, 2), "ddr4": (1, 2, 2, 2)}


def oracle_cases(machine: str, size: streams.Size, n: int) -> list[tuple[streams.Case, Outcome]]:
    """Cases of the generator behind the engine's own tests, with what the oracle says; some end in an error."""
    found = []
    for i in range(n):
        drawn = streams.draw_case(Random(f"gates {i}"), machine, size=size)._replace(refreshed=None)
        case = drawn._replace(streams=[streams.expand(s) for s in drawn.streams])
        expected = case.oracle()
        if expected.error or i < n // 8:  # all that can never issue, and some of the others
            found.append((case, expected))
    return found


@pytest.mark.parametrize(
    ("machine", "size", "drawn"), [("ddr4", (1, 2, 2, 1), 60), *(slow(*pair, 160) for pair in SIZES.items())]
)
def test_gates_and_oracle_agree_also_on_what_can_never_issue(machine, size, drawn):
    simulator = needs("icarus")
    cases = oracle_cases(machine, size, drawn)
    tables = [case.table() for case, _ in cases]
    given = [
        Case(table, case.arrays(table), case.refresh, case.due, case.apart)
        for table, (case, _) in zip(tables, cases, strict=True)
    ]
    walks = walk(given, 3, WAIT_BITS, most_ck=MOST_CK, simulator=simulator).walks
    for (case, expected), found in zip(cases, walks, strict=True):
        kind = expected.error[0] if expected.error else None
        assert [clocks.tolist() for clocks in found.issue_ck] == expected.first, case
        assert found.echoed
        assert (found.stuck, found.starved) == (kind == "stuck", kind == "starved"), case
        if kind is None:
            assert [tuple(x) for x in found.refresh_ck.tolist()] == expected.refreshes, case
    kinds = {expected.error[0] if expected.error else None for _, expected in cases}
    assert kinds == {None, "stuck", "starved"}


def test_a_mismatch_is_one_sentence():
    device = load_part("gddr6_pim_gpt").value
    cases = draw_cases(device, shrink(device, *BANKS), STREAMS, 1000, SEED)
    case = next(case for case in cases if len(case.streams) == 1)
    (clocks,), refreshes, _ = engine(case)
    right = Walk([clocks], refreshes, int(clocks[-1]) + 1, starved=False, stuck=False, echoed=True)
    assert mismatches(case, right) == (0, "")
    late = clocks.copy()
    late[3] += 1
    n, sentence = mismatches(case, right._replace(issue_ck=[late]))
    assert n == 1
    assert sentence.startswith("command 3 (") and sentence.endswith(f") issued at CK {late[3]}, model says {clocks[3]}")
    cut = mismatches(case, right._replace(issue_ck=[clocks[:-2]]))
    assert cut[0] == 2 and cut[1].endswith(f") never issued, model says {clocks[-2]}")
    assert mismatches(case, right._replace(stuck=True)) == (
        1,
        "after its last command the block is stuck, model says done",
    )
    assert mismatches(case, right._replace(echoed=False)) == (1, "a command left the bus other than it came")


@pytest.mark.slow
def test_a_mismatch_leaves_its_waveform(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pimloom.rtl.flow.sequencer.mismatches", lambda *_: (1, "wrong"))
    (found,) = verify("sequencer", "gddr6_pim_gpt", simulator=needs("icarus"), commands=50)
    assert found.mismatches > 0 and found.waves == "sequencer-gddr6_pim_gpt-0.vcd"
    assert (tmp_path / found.waves).stat().st_size > 1000


def test_three_buses_are_refused():
    table = load_table_with_three_buses()
    with pytest.raises(UserError, match="one or two command buses, not 3"):
        Sequencer(table)


def load_table_with_three_buses():
    part = load_part("hbm2_2000").value
    table = own_table(part, shrink(part, *BANKS))
    bus = np.arange(len(table.names)) % 3
    return replace(table, rules=table.rules._replace(bus=bus))


def test_the_geometry_keeps_two_groups_of_two_banks():
    device = load_part("gddr6_pim_gpt").value
    size = own_table(device, shrink(device, *BANKS)).rules.size
    assert size[Level.BANK_GROUP] == 2 and size[Level.BANK] == 4
