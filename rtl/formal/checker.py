"""What a channel may do, told from its buses alone: the table read a second time, for proofs about the sequencer.

Nothing is shared with the sequencer but the layout of a command. Where the sequencer counts down what is left of a
wait, ages are counted up here; where it decodes a command into single bits, numbers are looked up by opcode.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from pimloom.arch.command import POSTPONED_MAX, Level, Row
from pimloom.arch.table import RuleRow, Rules, Table, rule_rows
from pimloom.rtl.command import COORDINATES

At = tuple[int, int]


class Word(NamedTuple):
    """A command. source: who brings it, refresh nodes first, then streams; place: number of a bank in its scope."""

    valid: Value
    source: Value
    cmd: Value
    place: Value
    row: Value

    @classmethod
    def of(cls, valid: Value, source: Value, command: data.View) -> "Word":
        """The command of a bus or of a head."""
        place = Cat(command[name] for name in reversed(COORDINATES))  # each level has 2^n nodes
        return cls(valid, source, command.cmd, place, command.row)

    def named(self, m: Module, name: str) -> "Word":
        """The same on wires with names."""
        return Word(*(wire(m, value, f"{name}_{field}") for field, value in zip(self._fields, self, strict=True)))


class Timing(NamedTuple):
    """Clocks: the wait of each rule, the interval of refresh, when the first falls due, how much later in each next
    node, and whether there is any."""

    waits: list[Value]
    refi: Value
    due: Value
    apart: Value
    refresh: Value


class State(NamedTuple):
    """What the past comes to, between two commands.

    ages: by rule and node, clocks since the latest, the second latest, … command that arms the rule, as many as its
    window; all ones is long ago. rows: by buffer and bank, whether a row is open, and which. owed: refreshes that are
    due and not served, by node.
    """

    ages: Mapping[At, list[Value]]
    rows: Mapping[At, tuple[Value, Value]]
    owed: list[Value]


class Channel:
    """Follows `words`: the commands that issue in this clock, in the order in which they were granted.

    registers: the state that is kept. states[n]: before the n-th word, with what falls due in this clock. quiet: clocks
    since anything issued. until_due: of each node, clocks until a refresh falls due.
    """

    def __init__(self, m: Module, table: Table, bits: int, timing: Timing, words: list[Word]) -> None:
        rules = table.rules
        self.m, self.rules, self.timing, self.rule_rows = m, rules, timing, rule_rows(rules)
        self.shift = {level: _log2(int(rules.size[Level.BANK] // rules.size[level])) for level in Level}
        self.refresh_scope = Level(int(rules.scope[rules.refresh]))
        self.nodes = int(rules.size[self.refresh_scope])
        self.quiet = Signal(bits, init=-1, name="quiet")
        self.registers = _registers(rules, bits)
        self.until_due, due = self._owed()
        self.states = [self.registers._replace(owed=due)]
        for word in words:
            self.states.append(self._after(self.states[-1], word))
        m.d.sync += self.quiet.eq(_older(Mux(words[0].valid, 0, self.quiet)))
        self._keep(self.states[-1])

    def refresh_word(self, node: int) -> Word:
        """The REFab that a node owes."""
        place = Const(node << self.shift[self.refresh_scope], self.shift[Level.CHANNEL])
        cmd = Const(self.rules.refresh, range(len(self.rules.scope)))
        return Word(Const(1), Const(node), cmd, place, Const(0))

    def at(self, word: Word, level: int, node: int) -> Value:
        """Whether the command's place lies in a node of a level."""
        return (word.place >> self.shift[Level(level)]) == node

    def bound_at(self, word: Word, row: RuleRow, node: int) -> Value:
        """Whether the command stands where the rule binds what it binds after a command at this node."""
        if not row.sibling:
            return self._meets(word, row, node)
        fan = int(self.rules.size[row.level] // self.rules.size[row.level - 1])
        family = range(node // fan * fan, node // fan * fan + fan)
        return any_of(self._meets(word, row, other) for other in family if other != node)

    def _meets(self, word: Word, row: RuleRow, node: int) -> Value:
        """Whether the node lies in the scope of the command, or the command's in the node."""
        if min(int(self.rules.scope[opcode]) for opcode in row.before) >= row.level:
            return self.at(word, row.level, node)
        bank = node << self.shift[Level(row.level)]
        wider = [min(level, row.level) for level in Level]
        levels = Array([self.at(word, level, bank >> self.shift[Level(level)]) for level in wider])
        return Value.cast(levels[self.number(word, self.rules.scope)])

    def number(self, word: Word, column: Iterable[int]) -> Value:
        """The command's entry in a column of the table."""
        return Value.cast(Array([int(entry) for entry in column])[word.cmd])

    def early(self, state: State, word: Word) -> Signal:
        """A bit for each rule: it makes the command wait."""
        early = Signal(len(self.rule_rows), name="early")
        for i, row in enumerate(self.rule_rows):
            nodes = range(int(self.rules.size[row.level]))
            young = (self.bound_at(word, row, n) & (state.ages[i, n][-1] < self.timing.waits[i]) for n in nodes)
            self.m.d.comb += early[i].eq(word.cmd.matches(*row.before) & any_of(young))
        return early

    def fits(self, state: State, word: Word) -> Signal:
        """Whether the rows in its scope are as the command needs them."""
        needs = wire(self.m, self.number(word, self.rules.needs), "needs")
        first, last = (self.number(word, buffers) for buffers in self.rules.needed)
        wrong = (
            self._around(word, at[1])
            & ((first <= at[0]) & (at[0] <= last))
            & ((needs == Row.OPEN) & ~(is_open & (row == word.row)) | (needs == Row.CLOSED) & is_open)
            for at, (is_open, row) in state.rows.items()
        )
        return wire(self.m, ~any_of(wrong), "fits")

    def held(self, state: State, word: Word) -> Signal:
        """Whether the command opens a row where a refresh is due."""
        opens = self.number(word, self.rules.leaves) == Row.OPEN
        owing = (self._covers(word, at) & (state.owed[self._refreshed_with(at[1])] != 0) for at in state.rows)
        return wire(self.m, opens & any_of(owing), "held")

    def near(self, state: State) -> list[Signal]:
        """Of each refresh node, whether a refresh is due and all rows are closed."""
        found = []
        for node, owed in enumerate(state.owed):
            open_rows = (row[0] for at, row in state.rows.items() if self._refreshed_with(at[1]) == node)
            found.append(wire(self.m, (owed != 0) & ~any_of(open_rows), f"near_{node}"))
        return found

    def _refreshed_with(self, bank: int) -> int:
        return bank >> self.shift[self.refresh_scope]

    def _covers(self, word: Word, at: At) -> Value:
        """Whether a bank, and the row buffer in it, lies in the scope of the command."""
        buffer, bank = at
        return self._around(word, bank) & (self.number(word, self.rules.buffer) == buffer)

    def _around(self, word: Word, bank: int) -> Value:
        """Whether a bank lies in the scope of the command."""
        levels = Array([self.at(word, level, bank >> self.shift[level]) for level in Level])
        return Value.cast(levels[self.number(word, self.rules.scope)])

    def _after(self, state: State, word: Word) -> State:
        """The state after the command, if it is valid."""
        m, ages, rows = self.m, {}, {}
        for (i, node), old in state.ages.items():
            rule = self.rule_rows[i]
            arms = wire(m, word.valid & word.cmd.matches(*rule.after) & self.at(word, rule.level, node), "arms")
            ages[i, node] = [wire(m, Mux(arms, a, b), "then_age") for a, b in zip([Const(0), *old], old, strict=False)]
        leaves = wire(m, self.number(word, self.rules.leaves), "leaves")
        for at, (is_open, row) in state.rows.items():
            mine = wire(m, word.valid & self._covers(word, at), "mine")
            opens, closes = mine & (leaves == Row.OPEN), mine & (leaves == Row.CLOSED)
            rows[at] = wire(m, opens | is_open & ~closes, "then_open"), wire(m, Mux(opens, word.row, row), "then_row")
        serves = [word.valid & (word.source == node) for node in range(self.nodes)]
        owed = [wire(m, (n - one)[: len(n)], "then_owed") for n, one in zip(state.owed, serves, strict=True)]
        return State(ages, rows, owed)

    def _owed(self) -> tuple[list[Value], list[Value]]:
        """Clocks until a refresh falls due, and what is owed with what falls due now, node by node."""
        m, timing = self.m, self.timing
        left, owed = list[Value](), list[Value]()
        for node, n in enumerate(self.registers.owed):
            since, again, falls = Signal(32, name="since_due"), Signal(name="due_before"), Signal(name="falls_due")
            goal = Signal(32, name="due_after")
            m.d.comb += [goal.eq(Mux(again, timing.refi, timing.due + node * timing.apart)), falls.eq(since == goal)]
            m.d.sync += [again.eq(again | falls), since.eq(Mux(falls, 1, since + 1))]
            more = falls & timing.refresh
            owed.append(wire(m, Mux(n > POSTPONED_MAX, n, n + more)[: len(n)], "due"))
            left.append((goal - since)[:32])
        return left, owed

    def _keep(self, then: State) -> None:
        now = self.registers
        for at, ages in now.ages.items():
            self.m.d.sync += [age.eq(_older(new)) for age, new in zip(ages, then.ages[at], strict=True)]
        for at, row in now.rows.items():
            self.m.d.sync += [old.eq(new) for old, new in zip(row, then.rows[at], strict=True)]
        self.m.d.sync += [old.eq(new) for old, new in zip(now.owed, then.owed, strict=True)]


def any_of(bits: Iterable[Value]) -> Value:
    """High where any of the single bits is."""
    return Cat(*bits).any()


def wire(m: Module, value: Value, name: str) -> Signal:
    """The value under a name, spelled out once however often it is used."""
    found = Signal(Value.cast(value).shape(), name=name)
    m.d.comb += found.eq(value)
    return found


def _registers(rules: Rules, bits: int) -> State:
    ages = {
        (i, node): [Signal(bits, init=-1, name=f"age_{i}_{node}_{n}") for n in range(row.window)]
        for i, row in enumerate(rule_rows(rules))
        for node in range(int(rules.size[row.level]))
    }
    rows = {
        (buffer, bank): (Signal(name=f"seen_open_{bank}"), Signal(range(rules.rows), name=f"seen_row_{bank}"))
        for buffer, bank in product(range(int(rules.buffer.max()) + 1), range(int(rules.size[Level.BANK])))
    }
    nodes = range(int(rules.size[rules.scope[rules.refresh]]))
    return State(ages, rows, [Signal(range(POSTPONED_MAX + 2), name=f"owed_{node}") for node in nodes])


def _older(age: Value) -> Value:
    return age + ~age.all()


def _log2(nodes: int) -> int:
    if nodes & (nodes - 1):
        raise ValueError(f"proofs are for levels of 2^n nodes, not {nodes}")
    return nodes.bit_length() - 1
