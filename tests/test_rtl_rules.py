# amaranth: UnusedElaboratable=no
"""Rules of every kind in gates: random tables whose commands issue when the rules' words say, read from the history."""

from dataclasses import replace
from functools import cache
from itertools import product
from random import Random

import numpy as np
import pytest

from pimloom.arch.command import STREAM
from pimloom.arch.table import Table, bend, rule_rows
from pimloom.rtl.flow.cosim import Case, walk
from pimloom.rtl.flow.coverage import feels
from pimloom.rtl.flow.stimulus import engine
from tests.simulators import needs
from tests.test_device_rules import draw, literally

Kind = tuple[bool, bool, bool]  # between siblings, with a window, met at several nodes at once
KINDS, TABLES, BANKS_MOST = 8, 3, 16
EACH, LENGTH, SEED = 3, 20, 6  # of which every rule is felt
WAIT_BITS, NETLIST_STREAMS = 6, 2  # with one source, its number would have no wire


def kinds(table: Table) -> set[Kind]:
    """Of the rules that can bind."""
    scope = table.rules.scope
    return {
        (row.sibling, row.window > 1, bool(min(scope[list(row.before)]) < row.level))
        for row in rule_rows(table.rules)
        if row.wait > 1
    }


@cache
def tables() -> list[Table]:
    """Small ones that have all kinds together."""
    found, seen, rng = list[Table](), set[Kind](), Random(SEED)
    while len(seen) < KINDS:
        table, _ = draw(rng)
        if table.rules.size[-1] <= BANKS_MOST and len(kinds(table) - seen) > 1 + (not found):
            found, seen = [*found, table], seen | kinds(table)
    return found


def cases_of(table: Table, rng: Random) -> list[Case]:
    """Streams of any commands anywhere; each rule is the longest in some."""
    size, rules, found = table.rules.size, len(table.rules.wait), []
    fan = [int(n) for n in size[1:] // size[:-1]]
    for favourite in range(rules * EACH):
        wait = np.array([rng.randint(0, 9) for _ in range(rules)])
        wait[favourite % rules] += 40
        places = [[rng.randrange(n) for n in fan] for _ in range(LENGTH)]
        rows = [(rng.randrange(len(table.names)), *place, 0, 0, 1, 0, i) for i, place in enumerate(places)]
        drawn = replace(table, rules=table.rules._replace(wait=wait))
        found.append(Case(drawn, [np.array(rows, STREAM)]))
    return found


@pytest.mark.parametrize("number", range(TABLES))
def test_rules_of_every_kind_bind_in_gates_as_their_words_say(number):
    """And one clock more or less in the gates only is seen, of each rule."""
    table, cases = tables()[number], cases_of(tables()[number], Random(number))
    expected = [engine(case) for case in cases]
    bent, rules = list[tuple[Case, Case]](), len(table.rules.wait)
    for rule, by in product(range(rules), (1, -1)):
        first = feels(cases, expected, rule, by)
        assert first is not None
        case = cases[first]
        bent.append((case, case._replace(table=bend(case.table, rule, by))))
    given = [*cases, *(case for _, case in bent)]
    walks = walk(given, NETLIST_STREAMS, WAIT_BITS, most_ck=20_000, simulator=needs("icarus")).walks
    for case, found in zip(given, walks, strict=True):
        assert found.issue_ck[0].tolist() == in_words(case)
        assert found.echoed
    for (right, _), found in zip(bent, walks[len(cases) :], strict=True):
        assert found.issue_ck[0].tolist() != in_words(right)
    assert len(tables()) == TABLES


def in_words(case: Case) -> list[int]:
    return literally(case.table, case.streams[0])[0]
