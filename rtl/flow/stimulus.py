"""Random parts and command streams for co-simulation, biased so that every rule of a table binds now and then.

The streams are made from the table alone: pick a rule, prepare the rows of both its commands, then issue the one
right behind the other. Every case has a favourite rule, whose timings are long and whose commands come often.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

import msgspec
import numpy as np

from pimloom.arch.command import STREAM, Level, Row, Rule
from pimloom.arch.error import UserError
from pimloom.arch.part import Organization, Part
from pimloom.arch.table import RuleRow, Table, build_table, rule_rows, standard_of
from pimloom.cycle_sim.dram.stream import issue
from pimloom.rtl.flow.cosim import Case

Place = tuple[int, int, int, int]  # pseudo channel, rank, bank group, bank
ROWS_USED = 3  # few, so that streams meet the same row again
LENGTH = 40  # commands of a case, about
ANY, OPEN, CLOSED = map(int, Row)
CHANNEL = int(Level.CHANNEL)
ALONE = 3  # cases of each rule alone
QUIET = 6  # longest waits after an ACT, in which the rows of a few banks are prepared
FEW, LONGER = 50_000, 10  # of more commands than so many cases are longer, by as much at most: a case costs, too


def shrink(part: Part, bank_groups: int, banks_per_group: int) -> Organization:
    """The part's geometry with fewer banks, which its rules do not mind."""
    return msgspec.structs.replace(part.organization, bank_groups=bank_groups, banks_per_group=banks_per_group)


def own_table(part: Part, geometry: Organization) -> Table:
    """The part's own timings on another geometry."""
    return _table(part, geometry, {name: part.cycles(name) for name in part.timing})


def draw_cases(part: Part, geometry: Organization, streams: int, commands: int, seed: int) -> Iterator[Case]:
    """Cases that end well until they hold `commands` commands; every fourth has the part's own timings."""
    length = length_of(commands)
    left, number, own, rules = commands, 0, own_table(part, geometry), standard_of(part).rules
    while left > 0:
        rng, favourite = Random(f"{part.standard} {part.pim} {seed} {number}"), number % len(rules)
        drawn = _table(part, geometry, draw_clocks(rng, part, rules[favourite], number // len(rules)))
        turn = number // len(rules) + favourite  # each rule has its turns with either
        case = draw_case(rng, own if turn % 4 == 0 else drawn, geometry, streams, favourite, length)
        number += 1
        if engine(case) is not None:
            left -= sum(map(len, case.streams))
            yield case


def draw_own_cases(part: Part, geometry: Organization, commands: int, seed: int, apart_ck: int = 0) -> Iterator[Case]:
    """Cases of one stream that end well, with the part's own timings and refresh, until they hold `commands`."""
    length = length_of(commands)
    left, number, own = commands, 0, own_table(part, geometry)
    while left > 0:
        rng = Random(f"{part.standard} {part.pim} own {seed} {number}")
        rules = len(own.rules.wait)
        if number < ALONE * rules:
            case = draw_alone(rng, own, geometry, number % rules)
        else:
            case = draw_case(rng, own, geometry, 1, number % rules, length)
        case = case._replace(refresh=True, due_ck=None, apart_ck=apart_ck)
        number += 1
        if engine(case) is not None:
            left -= sum(map(len, case.streams))
            yield case


def length_of(commands: int) -> int:
    """Commands of a case at most, where there are so many in all."""
    return LENGTH * min(max(commands // FEW, 1), LONGER)


def engine(case: Case) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Issue clocks and refreshes of the model; None where the case cannot end."""
    try:
        found = issue(case.table, case.streams, refresh=case.refresh, due_ck=case.due_ck, apart_ck=case.apart_ck)
    except UserError:
        return None
    return found.issue_ck, found.refresh_ck


def draw_clocks(rng: Random, part: Part, favourite: Rule, turn: int = 0) -> dict[str, int]:
    """Each timing of the part's standard on its own, now and then zero; one of the favourite rule's is long."""
    names = standard_of(part).timings
    top = rng.choice((4, 9, 16, 24))
    clocks = {name: rng.randint(rng.choice((0, 1, 1)), top) for name in names}
    own = [name for name in re.findall(r"\w+", favourite.wait) if name in names]
    if own:
        clocks[own[-1 - turn % len(own)]] += rng.randint(top, 6 * top)
    clocks["tRFC"] = rng.randint(5, 60)
    clocks["tREFI"] = 2 * clocks["tRFC"] + rng.randint(60, 400)
    return clocks


def _table(part: Part, geometry: Organization, clocks: dict[str, int]) -> Table:
    found = standard_of(part)
    return build_table(found.commands, found.rules, clocks, geometry, found.refresh)


def draw_case(
    rng: Random, table: Table, geometry: Organization, streams: int, favourite: int, longest: int = LENGTH
) -> Case:
    """One case: the banks dealt out among its streams, or all to the first and to the others what needs no row.

    favourite: number of the rule whose commands come often; longest: commands of all streams together, at most.
    """
    size = (geometry.pseudo_channels, geometry.ranks, geometry.bank_groups, geometry.banks_per_group)
    banks: list[Place] = list(product(*map(range, size)))  # type: ignore[arg-type]
    many = rng.randint(1, streams)
    if rng.randrange(2) and many > 1:
        rng.shuffle(banks)
        owned = [banks[i::many] for i in range(many)]
    else:
        owned = [banks] + [[]] * (many - 1)
    length = rng.randint(longest // 4, longest) // many
    writers = [Writer(rng, table, geometry, mine, banks, favourite) for mine in owned]
    due = rng.choice((None, None, rng.randint(0, 80)))
    case = Case(table, [writer.write(length) for writer in writers], rng.random() < 0.7, due)
    return case._replace(apart_ck=rng.choice((0, 0, table.rules.refi // 2, rng.randint(1, 80))))


def draw_alone(rng: Random, table: Table, geometry: Organization, rule: int) -> Case:
    """The commands of one rule, when the waits of all that prepares their rows are over: its own wait decides."""
    size = (geometry.pseudo_channels, geometry.ranks, geometry.bank_groups, geometry.banks_per_group)
    banks: list[Place] = list(product(*map(range, size)))  # type: ignore[arg-type]
    writer = Writer(rng, table, geometry, banks, banks, rule)
    if writer.often == writer.known:  # no stream brings the commands of this rule
        return draw_case(rng, table, geometry, 1, rule)
    openers = set(writer.openers)
    longest = max(row.wait for row in writer.known if openers & set(row.after))
    (row,) = writer.often
    writer.pair(row, rng.choice(row.after), rng.choice(row.before), QUIET * longest)
    return Case(table, [np.array(writer.rows, STREAM)])


class Writer:
    """Writes one stream over the banks it owns, keeping track of their rows; without banks, what needs no row."""

    def __init__(
        self, rng: Random, table: Table, geometry: Organization, owned: list[Place], all_: list[Place], favourite: int
    ) -> None:
        rules = table.rules
        self.rng, self.table, self.rules, self.columns = rng, table, rules, geometry.columns
        self.places, self.owned, self.all = owned or all_, set(owned), all_
        # asked for again and again: of commands, the banks of a node, whether a command may issue at a place
        self.needs, self.leaves = rules.needs.tolist(), rules.leaves.tolist()
        self.buffer, self.scopes = rules.buffer.tolist(), rules.scope.tolist()
        self.needed = list(zip(*(buffers.tolist() for buffers in rules.needed), strict=True))
        self.nodes: dict[tuple[int, ...], list[Place]] = {}
        self.allowed: dict[tuple[int, Place], bool] = {}
        self.row: dict[tuple[int, Place], int | None] = {(b, p): None for b in set(self.buffer) for p in all_}
        opcodes = [c for c in range(len(table.names)) if any(self.may(c, place) for place in self.places)]
        self.openers = [c for c in opcodes if self.leaves[c] == OPEN]
        self.closers = [c for c in opcodes if self.leaves[c] == CLOSED and self.needs[c] == ANY]
        known = [
            r._replace(after=[a for a in r.after if a in opcodes], before=[b for b in r.before if b in opcodes])
            for r in rule_rows(rules)
        ]
        self.known = [rule for rule in known if rule.after and rule.before]
        self.often = [rule for rule in (known[favourite],) if rule in self.known] or self.known
        self.rows: list[tuple[int, ...]] = []
        self.clock = 0  # a guess of the time, for releases
        self.patience = rng.choice((0, 0, 0, 9, 30))  # % of commands with a release in the future

    def may(self, opcode: int, place: Place) -> bool:
        """Whether the stream owns all banks whose rows the command needs or moves."""
        if (opcode, place) not in self.allowed:
            rowless = self.needs[opcode] == self.leaves[opcode] == ANY
            self.allowed[opcode, place] = rowless or self.owned.issuperset(self.scope(opcode, place))
        return self.allowed[opcode, place]

    def scope(self, opcode: int, place: Place) -> list[Place]:
        """The banks a command acts on."""
        return self.same(self.scopes[opcode], place)

    def same(self, level: int, place: Place) -> list[Place]:
        """The banks of the place's node of a level."""
        node = place[: level - CHANNEL]
        if node not in self.nodes:
            self.nodes[node] = [bank for bank in self.all if bank[: len(node)] == node]
        return self.nodes[node]

    def beside(self, level: int, place: Place) -> set[Place]:
        """The banks of the other nodes under the same parent."""
        return set(self.same(level - 1, place)) - set(self.same(level, place))

    def write(self, length: int) -> np.ndarray:
        """At most `length` commands."""
        while self.known and len(self.rows) < length:
            rule = self.rng.choice(self.rng.choice((self.often, self.known)))
            self.pair(rule, self.rng.choice(rule.after), self.rng.choice(rule.before))
        return np.array(self.rows[:length], STREAM)

    def pair(self, rule: RuleRow, a: int, b: int, release: int = 0) -> None:
        """`a` as often as the rule counts, and then `b`, with their rows prepared before. release: of the first `a`."""
        first = self.rng.choice([place for place in self.places if self.may(a, place)])
        near = set(self.same(rule.level, first))
        heads = [first] + self.pick(a, near - {first}, rule.window - 1)
        last = self.pick(b, self.beside(rule.level, first) if rule.sibling else near, 1)
        row = self.rng.randrange(min(ROWS_USED, self.rules.rows))
        for opcode, places in ((b, last), (a, heads)):
            for place in places:
                self.prepare(opcode, place, row)
        for place in heads:
            self.prepare(a, place, row)
            self.put(a, place, row, release)
        for place in last:
            self.prepare(b, place, row)
            for _ in range(self.rng.choice((1, 1, 1, 2)) if self.leaves[b] == ANY else 1):
                self.put(b, place, row)

    def pick(self, opcode: int, near: Iterable[Place], n: int) -> list[Place]:
        """Up to n places where the stream may issue the command, each another one if there are so many."""
        found = [place for place in self.places if place in near and self.may(opcode, place)]
        return self.rng.sample(found, min(n, len(found)))

    def prepare(self, opcode: int, place: Place, row: int) -> None:
        """Open or close what the command needs open or closed."""
        need = self.needs[opcode]
        if need == ANY:
            return
        want, (first, last) = row if need == OPEN else None, self.needed[opcode]
        rows = list(product(range(first, last + 1), self.scope(opcode, place)))
        for buffer, bank in rows:
            if self.row[buffer, bank] not in (None, want):
                self.close(buffer, bank)
        for buffer, bank in rows:
            if self.row[buffer, bank] != want:
                self.open(buffer, bank, row)

    def close(self, buffer: int, bank: Place) -> None:
        """By any command that closes the bank and needs nothing."""
        found = [c for c in self.closers if self.buffer[c] == buffer and self.may(c, bank)]
        if found:
            self.put(self.rng.choice(found), bank, 0)

    def open(self, buffer: int, bank: Place, row: int) -> None:
        """By any command that opens the bank's row."""
        found = [c for c in self.openers if self.buffer[c] == buffer and self.may(c, bank)]
        if found:
            opener = self.rng.choice(found)
            self.prepare(opener, bank, row)
            self.put(opener, bank, row)

    def put(self, opcode: int, place: Place, row: int, release: int = 0) -> None:
        """One more command; its rows are kept in mind."""
        self.clock += 3
        late = self.rng.randrange(100) < self.patience
        release = release or (self.clock + self.rng.randint(0, 40) if late else 0)
        self.rows.append((opcode, *place, row, self.rng.randrange(self.columns), 1, release, len(self.rows)))
        leaves, buffer = self.leaves[opcode], self.buffer[opcode]
        if leaves != ANY:
            for bank in self.scope(opcode, place):
                self.row[buffer, bank] = row if leaves == OPEN else None
