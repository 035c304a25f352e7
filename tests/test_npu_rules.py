"""Rules of a PIM channel as its engine reads them bind each bank as the rules of its table do."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.system import load_system
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.dram.kernels.device import (
    COUNTS,
    DEPTH,
    FIELDS,
    KIND,
    NEXT,
    PLAIN,
    PUSH,
    SIBLINGS,
    WAIT,
    Shape,
    device,
)
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.places import names_of
from pimloom.cycle_sim.npu_pim.rules import AWAY, device_of, one_by_one, plainer, ring_of_siblings
from pimloom.systems.devices.npu_pim.laid import channel_of

SIZES = (1, 2, 4, 12)  # nodes of each depth: a channel, its ranks, their bank groups, their banks
BANKS = range(SIZES[-1])


def node(bank, depth):
    return bank * SIZES[depth] // SIZES[-1]


def waits(rules):
    """(issued to bank, waiting bank, command): the longest wait, by what PLAIN and SIBLINGS mean."""
    found = dict[tuple[int, int, int], int]()
    for a, b, (next_, depth, wait, kind, *_) in product(BANKS, BANKS, rules):
        bound = node(a, depth) == node(b, depth)
        if kind == SIBLINGS:
            bound = not bound and node(a, depth - 1) == node(b, depth - 1)
        if bound:
            found[a, b, next_] = max(found.get((a, b, next_), 0), wait)
    return found


def rule(next_, depth, wait, kind):
    made = [0] * FIELDS
    made[NEXT], made[DEPTH], made[WAIT], made[KIND] = next_, depth, wait, kind
    return tuple(made)


def drawn(next_, depth, wait, beside):
    return rule(next_, depth, wait, SIBLINGS if beside and depth else PLAIN)


RULES = st.lists(st.builds(drawn, st.integers(0, 1), st.integers(0, 3), st.integers(1, 5), st.booleans()), max_size=8)


@given(RULES)
def test_each_bank_is_bound_as_it_was(rules):
    made = plainer(rules)
    assert waits(made) == waits(rules)
    assert len(made) <= len(rules)


@given(RULES)
def test_siblings_are_bound_one_by_one(rules):
    """As the kernel binds: the node as many places further in the ring of siblings."""
    shape = Shape(SIZES, tuple(sum(SIZES[:d]) for d in range(len(SIZES))))
    ring = ring_of_siblings(shape)
    found = dict[tuple[int, int, int], int]()
    for a, made in product(BANKS, one_by_one(rules, shape)):
        n = shape.base[made[DEPTH]] + node(a, made[DEPTH])
        for _ in range(made[AWAY]):
            n = ring[n]
        for b in BANKS:
            if n == shape.base[made[DEPTH]] + node(b, made[DEPTH]):
                found[a, b, made[NEXT]] = max(found.get((a, b, made[NEXT]), 0), made[WAIT])
    assert found == waits(rules)


@given(RULES, st.integers(0, 8))
def test_rules_that_count_stay(rules, at):
    counts = rule(0, 1, 30, COUNTS)
    made = plainer([*rules[:at], counts, *rules[at:]])
    assert [a for a in made if a[KIND] == COUNTS] == [counts]
    assert [a for a in made if a[KIND] != COUNTS] == plainer(rules)


def test_rules_for_siblings_of_which_none_is_left():
    """GWRITE after GWRITE in a rank: that of a bank, of its bank group, of the other groups."""
    every = [rule(0, 3, 96, PLAIN), rule(0, 3, 96, SIBLINGS), rule(0, 2, 96, SIBLINGS)]
    assert plainer(every) == [rule(0, 1, 96, PLAIN)]


def test_a_rule_that_binds_all_that_its_parent_holds_is_the_parent_s():
    """tCCD_S, and longer where the other rank takes its turn of the bus."""
    assert plainer([rule(0, 1, 2, PLAIN), rule(0, 1, 4, SIBLINGS)]) == [rule(0, 0, 2, PLAIN), rule(0, 1, 4, SIBLINGS)]


def test_a_count_of_siblings_is_kept_once():
    counts = list(rule(0, 2, 30, COUNTS | SIBLINGS))
    counts[PUSH] = 1
    made = list(one_by_one([tuple(counts)], Shape((1, 2, 8), (0, 1, 3))))
    assert [(a[PUSH], a[AWAY]) for a in made] == [(1, 1), (0, 2), (0, 3)]


def test_rd_and_gwrite_of_neupims():
    """Each record is gone through at each command."""
    table = compile_table(channel_of(load_system("neupims")).device())
    names = names_of(table)
    made = device_of(table, names)
    plain = device(table, frozenset(names) & frozenset(table.names), {}, names)
    records = {c: made.first_rule[2 * c + 2] - made.first_rule[2 * c] for c in (f.RD, f.GWRITE)}
    before = {c: plain["first_rule"][c + 1] - plain["first_rule"][c] for c in records}
    assert (before, records) == ({f.RD: 7, f.GWRITE: 9}, {f.RD: 6, f.GWRITE: 7})
