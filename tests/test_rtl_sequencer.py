# amaranth: UnusedElaboratable=no
"""The sequencer's gates issue every command in the clock in which engine and oracle say, on the same tables."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import msgspec
import numpy as np
import pytest

from pimloom.arch.command import Level
from pimloom.arch.error import UserError
from pimloom.arch.part import Organization, Part
from pimloom.arch.system import load_part
from pimloom.arch.table import Table, bend, build_table, rule_rows, standard_of
from pimloom.rtl.flow.cosim import Case, Walk, walk
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.stimulus import draw_case, draw_cases, draw_clocks, draw_own_cases, engine, own_table, shrink
from pimloom.rtl.flow.verify import (
    BANKS,
    OWN_BANKS,
    STREAMS,
    WAIT_BITS,
    Run,
    feels,
    mismatches,
    verify,
    verify_sequencer,
)
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import VERILOG
from tests import netlists, streams
from tests.naive import Outcome
from tests.simulators import needs
from tests.sleeping_rules import SLEEPING_IN_GATES
from tests.slow import slow

COMMANDS = {"gddr6_pim_gpt": 11_000, "hbm2_2000": 9_500, "hbm2_neupims": 11_000}
SIMULATOR: dict[str, Simulator] = {  # so that both are tried
    "gddr6_pim_gpt": "verilator",
    "hbm2_2000": "icarus",
    "hbm2_neupims": "verilator",
}
MOST_CK = 40_000
TURNS = 20  # cases that are drawn for a rule, at most
SEED = 1  # with which every rule binds; a test says so


@pytest.mark.slow
@pytest.mark.parametrize("part", ["gddr6_pim_gpt", "hbm2_2000", "hbm2_neupims"])
def test_gates_and_engine_agree_and_every_rule_binds(part):
    (found,) = verify("sequencer", part, simulator=needs(SIMULATOR[part]), commands=COMMANDS[part], seed=SEED)
    assert (found.mismatches, found.first_mismatch) == (0, None)
    assert found.commands >= COMMANDS[part]
    assert found.sleeping_rules == asleep(part)
    assert found.rules_bound + len(asleep(part)) == found.rules_total == len(rules_of(part))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["gddr6_pim_gpt", "hbm2_2000"])
def test_gates_and_engine_agree_on_sixteen_banks(part):
    found = verify_sequencer(part, load_part(part).value, "verilator", 20_000, SEED, None, lambda *_: None, (4, 4))
    assert (found.mismatches, found.sleeping_rules) == (0, [])


def test_a_window_that_the_emitted_timer_does_not_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """tFAW of this part is longer than four tRRD, and its ranks have more than four banks here."""
    part = load_part("ddr4_3200").value
    run = Run(list(draw_own_cases(part, shrink(part, *OWN_BANKS), 1000, 0)), 1, 0)
    never = VERILOG.replace("busy[i] = |left", "busy[i] = i != 3 && |left")
    assert never != VERILOG
    for text, caught in ((VERILOG, False), (never, True)):
        monkeypatch.setattr("pimloom.rtl.verilog.VERILOG", text)
        walks = run.walk(needs("verilator")).walks
        assert any(mismatches(case, w)[0] for case, w in zip(run.cases, walks, strict=True)) == caught


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
            if (model := engine(case)) and feels([case], [model], rule, by) is not None:
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
        if engine(case) is not None:
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
    model = engine(case)
    assert model is not None
    (clocks,), refreshes = model
    right = Walk([clocks], refreshes, int(clocks[-1]) + 1, starved=False, stuck=False, echoed=True)
    assert mismatches(case, right) == (0, "")
    late = clocks.copy()
    late[3] += 1
    n, sentence = mismatches(case, right._replace(issue_ck=[late]))
    assert n == 1
    assert sentence.startswith("command 3 (") and sentence.endswith(f") issued at CK {late[3]}, model says {clocks[3]}")
    cut = mismatches(case, right._replace(issue_ck=[clocks[:-2]]))
    assert cut[0] == 2 and cut[1].endswith(f") never issued, model says {clocks[-2]}")
    assert mismatches(case, right._replace(echoed=False)) == (1, "a command left the bus other than it came")


@pytest.mark.slow
def test_a_mismatch_leaves_its_waveform(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pimloom.rtl.flow.verify.mismatches", lambda *_: (1, "wrong"))
    (found,) = verify("sequencer", "gddr6_pim_gpt", simulator=needs("icarus"), commands=50)
    assert found.mismatches > 0 and found.waves == "sequencer-gddr6_pim_gpt-0.fst"
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
