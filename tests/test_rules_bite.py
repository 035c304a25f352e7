"""Every rule bites: with its wait changed by one clock, the engine no longer agrees with the oracle.

First whole rules, then each pair of an earlier and a later command that a rule holds apart. The streams are random
but the same every time; pairs that need odd timings or rare neighbours have a stream of their own in `DIRECTED`, and
the window of ACTs has one.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import NamedTuple

import pytest

from pimloom.arch.command import Rule
from pimloom.arch.standard import given, join_tables
from pimloom.arch.table import Table, bend
from pimloom.cycle_sim.dram.stream import Issue
from tests.naive import Order, Outcome
from tests.oracle_run import run_engine
from tests.sleeping_rules import SLEEPING
from tests.slow import slow
from tests.streams import STANDARDS, Case, draw_case, table_of

CASES, FEW = 800, 50  # FEW: in the quick suite, where all of them would be looked at
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
def directed(machine: str) -> list[Case]:
    """Cases of one stream that is written out."""
    names = join_tables(*STANDARDS[machine]).timings
    cases = [
        Case(machine, (1, 1, 1, 1), dict.fromkeys(names, 2) | {long: LONG}, [[Order(c) for c in text.split()]], False)
        for long, text in DIRECTED.get(machine, ())
    ]
    acts = [Order("ACT", bg=i % 4, bank=i // 4) for i in range(5)]  # tFAW is longer than they take without it
    return [*cases, Case(machine, (1, 2, 4, 2), dict.fromkeys(names, 2) | {"tFAW": LONG}, [acts], False)]


@cache
def drawn(machine: str, number: int) -> Case:
    """The cases, some of which end in an error; nobody asks for all of them."""
    written = directed(machine)
    return written[number] if number < len(written) else draw_case(Random(f"bite {number - len(written)}"), machine)


def all_cases(machine: str) -> range:
    return range(len(directed(machine)) + CASES)


@cache
def outcome(machine: str, number: int) -> Outcome:
    """What the oracle says, which takes longer than all else."""
    return drawn(machine, number).oracle()


Clocks = tuple[list[list[int]], list[list[int]]]  # per stream, of the first and of the last command of each row


class Told(NamedTuple):
    """What the engine says with the rules as they are. issued: names and clocks, refreshes among them."""

    clocks: Clocks
    issued: list[tuple[str, int]]


def clocks_of(case: Case, table: Table, found: Issue) -> Clocks:
    done = [table.rules.done[stream["cmd"]] for stream in case.arrays(table)]
    last = [(end - d).tolist() for end, d in zip(found.end_ck, done, strict=True)]
    return [x.tolist() for x in found.issue_ck], last


@cache
def told(machine: str, number: int) -> Told | None:
    """None for a case that ends in an error."""
    case = drawn(machine, number)
    table = case.table()
    found = run_engine(case, table)
    if isinstance(found, str):
        return None
    clocks = clocks_of(case, table, found)
    issued = [("REFab", ck) for ck in found.refresh_ck[:, 0].tolist()]
    for each in clocks:
        rows = (pair for pairs in map(zip, case.streams, each) for pair in pairs)
        issued += [(order.name, ck) for order, ck in rows]
    return Told(clocks, issued)


@cache
def table_for(machine: str, number: int, rules: tuple[Rule, ...]) -> Table:
    case = drawn(machine, number)
    return table_of(machine, case.size, case.clocks, rules)


def runs(machine: str, rules: tuple[Rule, ...], rule: Rule) -> Iterator[int]:
    """Cases that end well and hold commands of the rule, but for those of one rank in which rules between ranks are
    left out."""
    for number in all_cases(machine):
        case = drawn(machine, number)
        wanted = has(case, rule.after) and has(case, rule.before) and told(machine, number)
        if wanted and len(table_for(machine, number, rules).rules.wait) == len(rules):
            yield number


def tight(issued: list[tuple[str, int]], rule: Rule, wait: int) -> bool:
    """Whether two of the rule's commands are as far apart as it says: there it is felt most often."""
    later = {ck for name, ck in issued if name in rule.before}
    return any(ck + wait in later for name, ck in issued if name in rule.after)


def differs(machine: str, number: int, table: Table) -> bool:
    """Whether any issue clock differs from the oracle's; who has the clocks of the right rules is not asked about."""
    case, right = drawn(machine, number), told(machine, number)
    found = run_engine(case, table)
    clocks = None if isinstance(found, str) else clocks_of(case, table, found)
    if right and clocks == right.clocks:
        return False
    expected = outcome(machine, number)
    return expected.error is None and clocks != (expected.first, expected.last)


def has(case: Case, names: tuple[str, ...]) -> bool:
    return any(o.name in names for s in case.streams for o in s) or (case.refresh and "REFab" in names)


def asleep(machine: str, rules: tuple[Rule, ...], by: int, cases: int = CASES) -> list[Rule]:
    """The rules that nobody misses when their wait is changed; of those that may sleep in so many cases."""

    def bent(i: int, number: int) -> bool:
        return differs(machine, number, bend(table_for(machine, number, rules), i, by))

    def bites(i: int, rule: Rule) -> bool:
        met, others = runs(machine, rules, rule), list[int]()
        if named(rule) in SLEEPING:
            return any(bent(i, number) for number in islice(met, cases))
        for number in met:
            found, wait = told(machine, number), int(table_for(machine, number, rules).rules.wait[i])
            if not found or not tight(found.issued, rule, wait):
                others.append(number)
            elif bent(i, number):
                return True
        return any(bent(i, number) for number in others)

    return [rule for i, rule in enumerate(rules) if not bites(i, rule)]


def named(rule: Rule) -> tuple[str, str, str]:
    return rule.after[0], rule.before[0], rule.wait


def rules_of(machine: str) -> tuple[Rule, ...]:
    found = join_tables(*STANDARDS[machine])
    return given(found, found.timings)[1]


@pytest.mark.parametrize(("machine", "cases"), [("gddr6", FEW), *(slow(name, CASES) for name in STANDARDS)])
def test_the_corpus_agrees_when_nothing_is_changed(machine, cases):
    well = [n for n in all_cases(machine)[:cases] if outcome(machine, n).error is None]
    assert len(well) > 0.8 * cases
    for number in well:
        found, expected = told(machine, number), outcome(machine, number)
        assert found and found.clocks == (expected.first, expected.last), drawn(machine, number)


@changes
@machines
def test_every_rule_bites(machine, by):
    assert asleep(machine, rules_of(machine), by) == []


@changes
@pytest.mark.parametrize(("machine", "cases"), [("gddr6", FEW), *(slow(name, CASES) for name in STANDARDS)])
def test_every_pair_of_every_rule_bites_but_those_that_may_sleep(machine, by, cases):
    pairs = tuple(r._replace(after=(a,), before=(b,)) for r in rules_of(machine) for a in r.after for b in r.before)
    assert set(map(named, asleep(machine, pairs, by, cases))) == SLEEPING.keys() & set(map(named, pairs))
