"""Random parts and command streams for co-simulation, biased so that every rule of a table binds now and then.

The streams are made from the table alone: pick a rule, prepare the rows of both its commands, then issue the one
right behind the other. Every case has a favourite rule, whose timings are long and whose commands come often.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

from pimloom.arch.command import POSTPONED_MAX, STREAM, Level, Row, Rule
from pimloom.arch.part import Organization, Part
from pimloom.arch.table import RuleRow, Table, bend, build_table, rule_rows, standard_of
from pimloom.cycle_sim.dram.stream import EndError, issue
from pimloom.rtl.flow.cosim import Case

Place = tuple[int, int, int, int]  # pseudo channel, rank, bank group, bank
LATE = 8  # of so many biased streams one comes when the first refresh falls due
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
        if engine(case).end == "done":
            left -= sum(map(len, case.streams))
            yield case


def draw_own_cases(part: Part, geometry: Organization, commands: int, seed: int, apart_ck: int = 0) -> Iterator[Case]:
    """Cases of one stream with the part's own timings and refresh, until they hold so many: each rule by itself,
    then biased streams."""
    length, rng = length_of(commands), Random(f"{part.standard} {part.pim} own {seed}")
    left, number, own = commands, 0, own_table(part, geometry)
    rows = rule_rows(own.rules)
    while left > 0:
        rule = number % len(rows)
        alone = draw_pair(rng, own, geometry, rule) if number < ALONE * len(rows) else None
        case = alone.case if alone else draw_case(rng, own, geometry, 1, rule, length)
        if number % LATE == LATE - 1 and not alone:
            case.streams[0]["release"] += own.rules.refi - rng.randrange(100)
        number += 1
        left -= sum(map(len, case.streams))
        yield case._replace(refresh=True, due_ck=None, apart_ck=apart_ck)


def length_of(commands: int) -> int:
    """Commands of a case at most, where there are so many in all."""
    return LENGTH * min(max(commands // FEW, 1), LONGER)


class Model(NamedTuple):
    """What the engine says of a case. issue_ck: int64 clocks by stream, of what issues; refresh_ck: int64[k, 2], clock
    and node of each refresh; end: "done", or "starved" or "stuck", after which nothing can issue."""

    issue_ck: list[np.ndarray]
    refresh_ck: np.ndarray
    end: str

    def equals(self, other: "Model") -> bool:
        """Whether all clocks are the same."""
        same = self.end == other.end and np.array_equal(self.refresh_ck, other.refresh_ck)
        return same and all(map(np.array_equal, self.issue_ck, other.issue_ck))


def engine(case: Case) -> Model:
    """Clocks [CK] of issue and of refreshes by the cycle engine, and how the case ends."""
    try:
        found = issue(case.table, case.streams, refresh=case.refresh, due_ck=case.due_ck, apart_ck=case.apart_ck)
    except EndError as error:
        return Model(error.issue_ck, error.refresh_ck, error.end)
    return Model(found.issue_ck, found.refresh_ck, "done")


class Pair(NamedTuple):
    """The commands of one rule in a case of one stream. first, last: places in the stream of the latest command but
    window - 1 that arms the rule, and of the first that waits for it."""

    case: Case
    first: int
    last: int

    @property
    def gap_ck(self) -> int | None:
        """Clocks between both [CK], or None where the case does not end."""
        model = engine(self.case)
        return None if model.end != "done" else int(model.issue_ck[0][self.last] - model.issue_ck[0][self.first])

    def bent(self, rule: int) -> "Pair":
        """With one clock more of a rule."""
        return self._replace(case=self.case._replace(table=bend(self.case.table, rule, 1)))


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
    banks = banks_of(geometry)
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


def draw_pair(rng: Random, table: Table, geometry: Organization, rule: int) -> Pair | None:
    """Two commands of a rule, when the waits of all that prepares their rows are over; None where they do not meet."""
    row, banks = rule_rows(table.rules)[rule], banks_of(geometry)
    if not row.after or not row.before:
        return None
    writer = Writer(rng, table, geometry, banks, banks, rule)
    opening = (known.wait for known in writer.known if {*writer.openers} & {*known.after})
    last = writer.pair(row, rng.choice(row.after), rng.choice(row.before), QUIET * max(opening, default=1))
    armed = [i for i in range(last) if writer.rows[i][0] in row.after and writer.meet(row, writer.rows[i], last)]
    if len(armed) < row.window:
        return None
    return Pair(Case(table, [np.array(writer.rows, STREAM)]), armed[-row.window], last)


def draw_ends(table: Table, geometry: Organization, seed: int, apart_ck: int = 0) -> Iterator[Case]:
    """Streams that cannot end: a row is open for longer than refreshes may be postponed; a bank is read whose row is
    closed; one with another row open, which differs in the highest bit alone."""
    rng, banks, rules = Random(seed), banks_of(geometry), table.rules
    late, closed, other = ([rules.refi * (POSTPONED_MAX + 3), 0], None, [0, 0])
    for opened in (late, closed, other)[rules.refresh < 0 :]:
        writer = Writer(rng, table, geometry, banks, banks, 0)
        needy = [c for c in range(len(table.names)) if writer.needs[c] == OPEN]
        opcode, place = rng.choice(needy), rng.choice(banks)
        if opened:
            writer.prepare(opcode, place, 0)
        highest = 1 << (rules.rows - 1).bit_length() - 1
        writer.put(opcode, place, highest if opened is other and rules.rows > 1 else 0, opened[0] if opened else 0)
        yield Case(table, [np.array(writer.rows, STREAM)], apart_ck=apart_ck)


def draw_tour(table: Table, geometry: Organization, seed: int) -> Case:
    """Rows of all banks open at once, different ones in banks beside each other, and then accessed, each in its turn;
    so that each bank has each of the rows."""
    rng, banks, rows = Random(seed), banks_of(geometry), few_rows(table.rules.rows)
    writer = Writer(rng, table, geometry, banks, banks, 0)
    needy = [c for c in range(len(table.names)) if writer.needs[c] == OPEN]
    of_bank = [c for c in needy if writer.scopes[c] == Level.BANK] or needy
    for turn in range(len(rows)):
        accesses = [(rng.choice(of_bank), bank, rows[(i + turn) % len(rows)]) for i, bank in enumerate(banks)]
        for access in accesses:
            writer.prepare(*access)
        for opcode, bank, row in accesses:
            writer.prepare(opcode, bank, row)
            writer.put(opcode, bank, row)
    return Case(table, [np.array(writer.rows, STREAM)])


def draw_held(table: Table, geometry: Organization, seed: int) -> Case:
    """A row that is closed just before the first refresh falls due, which then waits for tRP, and a command that opens
    a row in another bank: the refresh holds it."""
    rng, banks = Random(seed), banks_of(geometry)
    writer = Writer(rng, table, geometry, banks, banks, 0)
    needy = [c for c in range(len(table.names)) if writer.needs[c] == OPEN]
    opcode = next((c for c in needy if writer.scopes[c] == Level.BANK), needy[0])
    writer.prepare(opcode, banks[0], 0)
    buffer = writer.needed[opcode][0]
    closers = [c for c in writer.closers if writer.buffer[c] == buffer]
    if closers:
        writer.put(max(closers, key=lambda c: writer.scopes[c]), banks[0], 0, max(table.rules.refi - 1, 0))
    writer.prepare(opcode, banks[-1], 0)
    return Case(table, [np.array(writer.rows, STREAM)])


def few_rows(rows: int) -> list[int]:
    """Rows that streams use: few, so that they meet the same again, and apart in every bit of their number."""
    return sorted({0, rows - 1, rows // 3})


def banks_of(geometry: Organization) -> list[Place]:
    """The place of every bank of a channel: pseudo channel, rank, bank group, bank."""
    size = (geometry.pseudo_channels, geometry.ranks, geometry.bank_groups, geometry.banks_per_group)
    return list(product(*map(range, size)))  # type: ignore[arg-type]


class Writer:
    """Writes one stream over the banks it owns, keeping track of their rows; without banks, what needs no row."""

    def __init__(
        self, rng: Random, table: Table, geometry: Organization, owned: list[Place], all_: list[Place], favourite: int
    ) -> None:
        rules = table.rules
        self.rng, self.table, self.rules, self.columns = rng, table, rules, geometry.columns
        self.few_rows = few_rows(rules.rows)
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
        """A stream of at most `length` commands, whose rules are drawn at random."""
        while self.known and len(self.rows) < length:
            rule = self.rng.choice(self.rng.choice((self.often, self.known)))
            self.pair(rule, self.rng.choice(rule.after), self.rng.choice(rule.before))
        return np.array(self.rows[:length], STREAM)

    def pair(self, rule: RuleRow, a: int, b: int, release: int = 0) -> int:
        """`a` as often as the rule counts, and then `b`, with their rows prepared before; place of `b` in the stream.
        release: of each `a`."""
        first = self.rng.choice([place for place in self.places if self.may(a, place)])
        near = set(self.same(rule.level, first))
        heads = [first] + self.pick(a, near - {first}, rule.window - 1)
        last = self.pick(b, self.beside(rule.level, first) if rule.sibling else near, 1)
        if rule.window > 1 and self.rng.randrange(2):
            *heads, end = self.in_turn(a, first, near, rule.window + 1)
            last = [end] if self.may(b, end) else last
        row = self.rng.choice(self.few_rows)
        for opcode, places in ((b, last), (a, heads)):
            for place in places:
                self.prepare(opcode, place, row)
        for place in heads:
            self.prepare(a, place, row)
            self.put(a, place, row, release)
        at = 0
        for place in last:
            self.prepare(b, place, row)
            self.put(b, place, row)
            at = len(self.rows) - 1
            if self.leaves[b] == ANY and self.rng.randrange(4) == 0:
                self.put(b, place, row)
        return at

    def meet(self, rule: RuleRow, command: tuple[int, ...], last: int) -> bool:
        """Whether the rule binds the `last` command of the stream after this one."""
        depth = min(rule.level, self.scopes[self.rows[last][0]]) - CHANNEL
        one, other = command[1 : 1 + depth], self.rows[last][1 : 1 + depth]
        return one[:-1] == other[:-1] and one != other if rule.sibling else one == other

    def pick(self, opcode: int, near: Iterable[Place], n: int) -> list[Place]:
        """Up to n places where the stream may issue the command, each another one if there are so many."""
        found = [place for place in self.places if place in near and self.may(opcode, place)]
        return self.rng.sample(found, min(n, len(found)))

    def in_turn(self, opcode: int, first: Place, near: Iterable[Place], n: int) -> list[Place]:
        """The same, n places from the first on, each in another bank group than the one before where there are some:
        there the waits between two are shortest."""
        found = sorted((place for place in near if self.may(opcode, place)), key=lambda place: place[::-1])
        at = found.index(first)
        return [found[(at + i) % len(found)] for i in range(n)]

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
