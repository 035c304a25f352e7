"""Which rules of a table decide a clock in some cases, and why the others never do."""

from collections.abc import Iterator, Sequence
from random import Random

from pimloom.arch.command import Level, Rule
from pimloom.arch.part import Organization
from pimloom.arch.table import Table, bend, rule_rows
from pimloom.rtl.binding import can_bind
from pimloom.rtl.flow.cosim import Case
from pimloom.rtl.flow.stimulus import Model, Pair, draw_pair, engine

TRIES = 100  # cases of a rule by itself, with other commands and places, of which the fastest counts


def coverage(rules: Sequence[Rule], cases: Sequence[Case]) -> dict[str, int | None]:
    """For each rule of the cases' table the number of the first case whose clocks it decided, or None.

    A rule decides where one clock more of it changes a clock of issue.
    """
    expected = [engine(case) for case in cases]
    return {str(rule): feels(cases, expected, i, 1) for i, rule in enumerate(rules)}


def feels(cases: Sequence[Case], expected: Sequence[Model], rule: int, by: int) -> int | None:
    """Number of the first case whose issue clocks change when the rule's wait does by so many clocks."""
    for number, (case, want) in enumerate(zip(cases, expected, strict=True)):
        if not engine(case._replace(table=bend(case.table, rule, by))).equals(want):
            return number
    return None


def reasons(rules: Sequence[Rule], table: Table, geometry: Organization, asleep: Sequence[str]) -> dict[str, str]:
    """Why each of the rules `asleep`, as `coverage` names them, never decides a clock on the table of the rules.

    Without the rule, its commands are issued as soon as the others allow, at several places: a reason names the fewest
    clocks [CK] that pass between them, and the rules that decide these.
    """
    names = [str(rule) for rule in rules]
    return {rule: _reason(table, geometry, names, names.index(rule)) for rule in asleep}


def _reason(table: Table, geometry: Organization, names: Sequence[str], number: int) -> str:
    row = rule_rows(table.rules)[number]
    if row.sibling and table.rules.size[row.level] == table.rules.size[row.level - 1]:
        return f"the part has no other {Level(row.level).name.lower().replace('_', ' ')}"
    if not can_bind(table.rules, row):
        return f"it asks for {row.wait} CK and has no timer: commands on a bus are a clock apart"
    pairs = _pairs(bend(table, number, -row.wait), geometry, number)
    timed = [(pair, gap) for pair in pairs if (gap := pair.gap_ck) is not None]
    if not timed:
        return "no stream brings its commands one after the other"
    fastest, gap = min(timed, key=lambda each: each[1])
    deciding = [i for i in range(len(names)) if i != number and (fastest.bent(i).gap_ck or gap) > gap]
    because = "; ".join(names[i] for i in deciding) or "one command a clock"
    return f"it asks for {row.wait} CK, and without it at least {gap} CK pass, because of: {because}"


def _pairs(table: Table, geometry: Organization, number: int) -> Iterator[Pair]:
    """The rule's commands by themselves, at random places."""
    for turn in range(TRIES):
        if pair := draw_pair(Random(f"{number} {turn}"), table, geometry, number):
            yield pair
