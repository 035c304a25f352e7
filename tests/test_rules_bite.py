"""Every rule bites: with its wait changed by one clock, the engine no longer agrees with the oracle.

First whole rules, then each pair of an earlier and a later command that a rule holds apart. The streams are random
but the same every time; pairs that need odd timings or rare neighbours have a stream of their own in `DIRECTED`, and
the window of ACTs has one.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from random import Random

import pytest

from pimloom.arch.command import Rule
from pimloom.arch.standard import given, join_tables
from pimloom.arch.table import Table, bend
from tests.naive import Order, Outcome
from tests.oracle_run import run_engine
from tests.sleeping_rules import SLEEPING
from tests.slow import slow
from tests.streams import STANDARDS, Case, draw_case, table_of

CASES, FEW = 800, 100  # FEW: in the quick suite, where all of them would be looked at
machines = pytest.mark.parametrize("machine", STANDARDS)
changes = pytest.mark.parametrize("by", [1, -1])
LONG = 40
DIRECTED = {  # on one bank; all clocks 2 but the one that is LONG
    "gddr6+aim": (
        ("tRC", "ACTab PREab REFab"),
        ("tWTR_L", "ACTab WRAab ACTab MACab"),
        ("tWTR_L", "ACTab WRAab ACTab RD"),
        ("tWTR_L", "ACTab WRAab ACTab RDA"),
        ("nRTW", "ACT RDA ACT WRAab"),
        ("tCCD_L", "ACT RDA ACT MACab"),
        ("tRCDRD", "ACTab RDA"),
        ("tRCDWR", "ACTab WRA"),
        ("nMODCH", "ACTab TMOD RD"),
        ("nMODCH", "ACTab TMOD RDA"),
    ),
}


@cache
def drawn(machine: str) -> list[Case]:
    """The cases, some of which end in an error."""
    names = join_tables(*STANDARDS[machine]).timings
    cases = [
        Case(machine, (1, 1, 1, 1), dict.fromkeys(names, 2) | {long: LONG}, [[Order(c) for c in text.split()]], False)
        for long, text in DIRECTED.get(machine, ())
    ]
    acts = [Order("ACT", bg=i % 4, bank=i // 4) for i in range(5)]  # tFAW is longer than they take without it
    cases.append(Case(machine, (1, 2, 4, 2), dict.fromkeys(names, 2) | {"tFAW": LONG}, [acts], False))
    return cases + [draw_case(Random(f"bite {i}"), machine) for i in range(CASES)]


@cache
def outcome(machine: str, number: int) -> Outcome:
    """What the oracle says, which takes longer than all else: nobody asks for all cases."""
    return drawn(machine)[number].oracle()


@cache
def table_for(machine: str, number: int, rules: tuple[Rule, ...]) -> Table:
    case = drawn(machine)[number]
    return table_of(machine, case.size, case.clocks, rules)


Run = tuple[Case, Outcome, Table]


def runs(machine: str, rules: tuple[Rule, ...], wanted: Callable[[Case], bool] = lambda case: True) -> Iterator[Run]:
    """Cases that end well, with what the oracle says and their tables, but for those of one rank in which rules between
    ranks are left out."""
    for number, case in enumerate(drawn(machine)):
        if wanted(case) and len(table_for(machine, number, rules).rules.wait) == len(rules):
            expected = outcome(machine, number)
            if expected.error is None:
                yield case, expected, table_for(machine, number, rules)


def differs(case: Case, expected: Outcome, table: Table) -> bool:
    """Whether any issue clock differs from the oracle's."""
    found = run_engine(case, table)
    if isinstance(found, str) or [x.tolist() for x in found.issue_ck] != expected.first:
        return True
    done = [table.rules.done[stream["cmd"]] for stream in case.arrays(table)]
    return [(end - d).tolist() for end, d in zip(found.end_ck, done, strict=True)] != expected.last


def has(case: Case, names: tuple[str, ...]) -> bool:
    return any(o.name in names for s in case.streams for o in s) or (case.refresh and "REFab" in names)


def asleep(machine: str, rules: tuple[Rule, ...], by: int, cases: int = CASES) -> list[Rule]:
    """The rules that nobody misses when their wait is changed; of those that may sleep in so many cases."""

    def bites(i: int, rule: Rule) -> bool:
        met = runs(machine, rules, lambda case: has(case, rule.after) and has(case, rule.before))
        if named(rule) in SLEEPING:
            met = islice(met, cases)
        return any(differs(case, expected, bend(table, i, by)) for case, expected, table in met)

    return [rule for i, rule in enumerate(rules) if not bites(i, rule)]


def named(rule: Rule) -> tuple[str, str, str]:
    return rule.after[0], rule.before[0], rule.wait


def rules_of(machine: str) -> tuple[Rule, ...]:
    found = join_tables(*STANDARDS[machine])
    return given(found, found.timings)[1]


@pytest.mark.parametrize(("machine", "cases"), [("gddr6", FEW), *(slow(name, CASES) for name in STANDARDS)])
def test_the_corpus_agrees_when_nothing_is_changed(machine, cases):
    agree = [not differs(*run) for run in islice(runs(machine, rules_of(machine)), cases // 2)]
    assert all(agree) and len(agree) == cases // 2
    assert sum(outcome(machine, number).error is None for number in range(cases)) > 0.8 * cases


@machines
@changes
def test_every_rule_bites(machine, by):
    assert asleep(machine, rules_of(machine), by) == []


@pytest.mark.parametrize(("machine", "cases"), [("gddr6", FEW), *(slow(name, CASES) for name in STANDARDS)])
@changes
def test_every_pair_of_every_rule_bites_but_those_that_may_sleep(machine, by, cases):
    pairs = tuple(r._replace(after=(a,), before=(b,)) for r in rules_of(machine) for a in r.after for b in r.before)
    assert set(map(named, asleep(machine, pairs, by, cases))) == SLEEPING.keys() & set(map(named, pairs))
