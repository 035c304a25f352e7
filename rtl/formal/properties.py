"""What is proved of the sequencer, how each property is seen at work, and the broken sequencers that must fail it.

All are about one clock in any state that can be reached. The checker's state is made of what was on the buses; that
it is the sequencer's own too is the property `state`, an induction over clocks, from which the others follow.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amaranth.asserts import Initial
from amaranth.hdl import Const, Module, Value

from pimloom.arch.command import POSTPONED_MAX, Row
from pimloom.rtl.formal.checker import Channel, State, Word, any_of, wire
from pimloom.rtl.formal.timers import Aged, Armings, as_ages, no_younger
from pimloom.rtl.sequencer import Sequencer

HELD = 2  # clocks: a cover of a wait asks for at least so many


class Scene:
    """A clock. words: what issues, in the order in which it was granted; heads: of the streams; waited: whether a head
    was there and released in the clock before but did not issue."""

    def __init__(
        self, m: Module, sequencer: Sequencer, channel: Channel, words: list[Word], waited: list[Value]
    ) -> None:
        self.sequencer, self.channel, self.words = sequencer, channel, words
        self.m, self.waited, self.nodes = m, waited, sequencer.nodes
        self.released = list(sequencer.released)
        self.heads = [Word.of(h.valid, Const(self.nodes + k), h.payload) for k, h in enumerate(sequencer.heads)]
        self.start = channel.states[0]
        self.fits = [wire(m, head.valid & channel.fits(self.start, head), "head_fits") for head in self.heads]
        self.near = channel.near(self.start)
        moves = (f & ~channel.held(self.start, head) for f, head in zip(self.fits, self.heads, strict=True))
        self.lifted = wire(m, ~any_of(moves) & ~any_of(self.near), "lifted")
        self.starved = wire(m, any_of(owed > POSTPONED_MAX for owed in self.start.owed), "is_starved")

    def each(self) -> Iterator[tuple[State, Word]]:
        """Each command that issues, and the state it finds."""
        return zip(self.channel.states, self.words, strict=False)

    def issues(self, source: int) -> Value:
        """Whether a command of this source issues."""
        return any_of(word.valid & (word.source == source) for word in self.words)


def state(s: Scene) -> Iterator[Value]:
    """What is left of each wait, which rows are open, what is owed and when more falls due: all as the buses say."""
    for at, timer in s.sequencer.timers.items():
        ages, wait = s.channel.registers.ages[at], s.channel.timing.waits[at[0]]
        yield ((timer.arm == 0) | s.words[0].valid) & (timer.wait == wait)
        if isinstance(timer, Aged):  # equal ages and waits are all
            yield from (mine == age for mine, age in zip(timer.ages, ages, strict=True))
        else:
            yield from ((left == 0) | (left + age == wait) for left, age in zip(timer.left, ages, strict=True))
            yield from (busy == (age < wait) for busy, age in zip(timer.busy, ages, strict=True))
    yield from _seen_from_buses(s)


def known(s: Scene) -> Iterator[Value]:
    """The part of `state` that is about one clock, which is all that the other properties rest on: not how much is left
    of a wait, but whether anything is."""
    for at, timer in s.sequencer.timers.items():
        ages, wait = s.channel.registers.ages[at], s.channel.timing.waits[at[0]]
        yield from (busy == (age < wait) for busy, age in zip(timer.busy, ages, strict=True))
    yield from _seen_from_buses(s)


def _seen_from_buses(s: Scene) -> Iterator[Value]:
    q, c = s.sequencer, s.channel
    yield from (age != 0 for ages in c.registers.ages.values() for age in ages)
    for at, latch in q.rows.state.items():
        is_open, row = c.registers.rows[at]
        yield (latch.open == is_open) & (latch.row == row)
    yield from (mine == owed for mine, owed in zip(q.pending, c.registers.owed, strict=True))
    counters = q.until_due if len(q.until_due) == len(c.until_due) else q.until_due * len(c.until_due)
    for mine, until in zip(counters, c.until_due, strict=True):
        yield Initial() | q.started & (mine == until)


def timing(s: Scene) -> Iterator[Value]:
    """No command issues before every rule allows it, what was granted earlier in the same clock included."""
    for found, word in s.each():
        yield ~(word.valid & s.channel.early(found, word).any())


def rows(s: Scene) -> Iterator[Value]:
    """A command that needs its row open finds it open in all its banks; one that needs closed rows finds all closed."""
    for found, word in s.each():
        yield ~word.valid | s.channel.fits(found, word)


def refresh(s: Scene) -> Iterator[Value]:
    """`starved` is high when a ninth refresh is owed and no sooner, and nothing issues then. A refresh issues where one
    is owed. No row is opened where one is owed, but by the first command of a clock in which the hold is lifted."""
    yield s.sequencer.starved == s.starved
    yield ~(s.starved & s.words[0].valid)
    for n, (found, word) in enumerate(s.each()):
        yield ~(word.valid & s.channel.held(found, word)) | (s.lifted if n == 0 else Const(0, 1))
        yield from (~(word.valid & (word.source == node) & (owed == 0)) for node, owed in enumerate(found.owed))


def progress(s: Scene) -> Iterator[Value]:
    """No deadlock: when nothing has issued for the longest wait no rule binds, and then something issues, if all heads
    are released, the rows fit one of them or a refresh, and nothing is starved. `stuck` is high when the rows fit none
    of the heads."""
    yield from none_binds(s)
    ages = s.channel.registers.ages
    young = any_of(age < s.channel.timing.waits[at[0]] for at in ages for age in ages[at])
    released = ~any_of(h.valid & ~r for h, r in zip(s.heads, s.released, strict=True))
    can = released & any_of([*s.fits, *s.near]) & ~s.starved
    yield ~can | young | s.words[0].valid
    yield s.sequencer.stuck == any_of(head.valid for head in s.heads) & ~any_of(s.fits)


def none_binds(s: Scene) -> Iterator[Value]:
    """No rule binds when nothing has issued for the longest wait: no command is younger than the latest one."""
    waits, quiet = s.channel.timing.waits, s.channel.quiet
    overdue = wire(s.m, ~any_of(quiet < wait for wait in waits), "overdue")
    for at, ages in s.channel.registers.ages.items():
        yield from (~overdue | (age >= waits[at[0]]) for age in ages)


def bus(s: Scene) -> Iterator[Value]:
    """What is on a bus belongs there and comes, as it is, from a released head, or is the REFab of a node, and never
    from one source on both buses. A head is taken in the clock in which it is on a bus, and in no other."""
    q, c = s.sequencer, s.channel
    for number, out in enumerate(q.buses):
        word = Word.of(out.valid, out.source, out.command)
        yield ~word.valid | (c.number(word, c.rules.bus) == number)
        yield ~word.valid | (word.source < s.nodes + len(s.heads))
        for k in range(s.nodes + len(s.heads)):
            yield ~(word.valid & (word.source == k)) | _is_of(s, k, word, out.command.as_value())
    yield ~any_of(a.valid & b.valid & (a.source == b.source) for a, b in zip(s.words, s.words[1:], strict=False))
    for k, head in enumerate(q.heads):
        yield head.ready == s.issues(s.nodes + k)


def _is_of(s: Scene, source: int, word: Word, wires: Value) -> Value:
    if source < s.nodes:
        refresh_word = s.channel.refresh_word(source)
        return (word.cmd == refresh_word.cmd) & (word.place == refresh_word.place)
    head = s.sequencer.heads[source - s.nodes]
    return head.valid & s.released[source - s.nodes] & (wires == head.payload.as_value())


def first(s: Scene) -> Iterator[Value]:
    """Who may issue does: each command leaves in its first legal clock, the order of asking being what it is."""
    for k in range(s.nodes + len(s.heads)):
        yield ~any_of(_legal(s, k)) | s.issues(k)


def _legal(s: Scene, k: int) -> Iterator[Value]:
    """Whether the k-th asker may issue, by how many were granted before it in this clock."""
    c = s.channel
    who = c.refresh_word(k) if k < s.nodes else s.heads[k - s.nodes]
    asked = [word.valid & (word.source < k) for word in s.words]
    for n, found in enumerate(c.states[:-1]):  # when all buses are taken nobody may
        free = ~any_of(c.number(word, c.rules.bus) == c.number(who, c.rules.bus) for word in s.words[:n])
        turn = ~asked[n] & (asked[n - 1] if n else Const(1, 1)) & free
        wants = s.near[k] if k < s.nodes else _wants(s, k - s.nodes, found)
        yield turn & wants & ~c.early(found, who).any() & ~s.starved


def _wants(s: Scene, stream: int, found: State) -> Value:
    head = s.heads[stream]
    fits, held = s.channel.fits(found, head), s.channel.held(found, head)
    return head.valid & s.released[stream] & fits & (s.lifted | ~held)


def state_seen(s: Scene) -> Iterator[Value]:
    """A wait that is half over, with a row open and a refresh owed."""
    age = s.channel.registers.ages[0, 0][0]
    yield (age == HELD) & (age < s.channel.timing.waits[0])
    yield s.channel.registers.rows[0, 0][0] & (s.channel.registers.owed[0] > 1)


def timing_seen(s: Scene) -> Iterator[Value]:
    """For each rule, a head that waited and issues exactly when the rule allows it."""
    c = s.channel
    for i, row in enumerate(c.rule_rows):
        seen = []
        for found, word in s.each():
            waited = any_of((word.source == s.nodes + k) & w for k, w in enumerate(s.waited))
            bound = word.valid & word.cmd.matches(*row.before) & waited
            for node in range(int(c.rules.size[row.level])):
                age = found.ages[i, node][-1]
                due = (age == c.timing.waits[i]) & (age >= HELD) & ~age.all()
                seen.append(bound & c.bound_at(word, row, node) & due)
        yield any_of(seen)


def rows_seen(s: Scene) -> Iterator[Value]:
    """A command on an open row; one of a stream that needs closed rows, after rows were open and closed again."""
    word, c = s.words[0], s.channel
    needs = c.number(word, c.rules.needs)
    yield word.valid & (needs == Row.OPEN)
    was_open = any_of(row[1] != 0 for row in s.start.rows.values())
    yield word.valid & (needs == Row.CLOSED) & (word.source >= s.nodes) & was_open


def refresh_seen(s: Scene) -> Iterator[Value]:
    """A refresh that was postponed as long as may be and is served; a lifted hold; starvation."""
    word = s.words[0]
    yield word.valid & (word.source == 0) & (s.start.owed[0] == POSTPONED_MAX)
    yield word.valid & s.channel.held(s.start, word)
    yield s.starved


def progress_seen(s: Scene) -> Iterator[Value]:
    """A command in the last clock in which it must come; heads that can never move."""
    quiet, waits = s.channel.quiet, s.channel.timing.waits
    longest = any_of(quiet == wait for wait in waits) & ~any_of(quiet < wait for wait in waits)
    yield s.words[0].valid & longest & (quiet > HELD) & ~quiet.all()
    yield s.sequencer.stuck


def bus_seen(s: Scene) -> Iterator[Value]:
    """Each stream on each bus, and all buses at once."""
    for out in s.sequencer.buses:
        yield from (out.valid & (out.source == s.nodes + k) for k in range(len(s.heads)))
    yield s.words[-1].valid


def first_seen(s: Scene) -> Iterator[Value]:
    """The last stream issues although the first waits; it waits in vain for the first; both are granted in turn."""
    last = s.nodes + len(s.heads) - 1
    yield s.issues(last) & s.waited[0] & s.heads[0].valid & ~s.issues(s.nodes)
    yield s.issues(s.nodes) & s.waited[-1] & s.fits[-1] & ~s.issues(last)


class NeverLifts(Sequencer):
    """Keeps the hold of a due refresh whatever waits."""

    def _lift(self, *arguments: Any) -> Value:
        super()._lift(*arguments)
        return Const(0, 1)


class AlwaysLifts(Sequencer):
    """Does not hold anything back for a refresh."""

    def _lift(self, *arguments: Any) -> Value:
        super()._lift(*arguments)
        return Const(1, 1)


class Careless(Sequencer):
    """Does not look whether the bus is taken."""

    def _taken(self, *arguments: Any) -> Value:
        return Const(0, 1)


class Twin(NamedTuple):
    """A sequencer that breaks a property. needs_no_row: the table's first command that needs rows so is let through
    whatever they are; wait: added to the wait of one rule, which the solver picks; refi: added to the interval of
    refresh."""

    kind: type[Sequencer] = Sequencer
    needs_no_row: Row | None = None
    wait: int = 0
    refi: int = 0


class Property(NamedTuple):
    """holds: bits that are always high; seen: bits that are high in some trace, so that what holds says something.

    lemma: what is proved first, of each kind of timer between free armings; as `state` has it that a sequencer's timers
    are as the buses say, `rests_on`, which says it of them all, may be assumed then.
    """

    holds: Callable[[Scene], Iterator[Value]]
    seen: Callable[[Scene], Iterator[Value]]
    twins: tuple[Twin, ...]
    lemma: Callable[[Armings], Iterator[Value]] | None = None
    rests_on: Callable[[Scene], Iterator[Value]] | None = None


PROPERTIES = {
    "state": Property(state, state_seen, (Twin(wait=-1), Twin(refi=1)), as_ages),
    "timing": Property(timing, timing_seen, (Twin(wait=-1),)),
    "rows": Property(rows, rows_seen, (Twin(needs_no_row=Row.OPEN), Twin(needs_no_row=Row.CLOSED))),
    "refresh": Property(refresh, refresh_seen, (Twin(refi=1), Twin(AlwaysLifts))),
    "progress": Property(progress, progress_seen, (Twin(NeverLifts),), no_younger, none_binds),
    "bus": Property(bus, bus_seen, (Twin(Careless),)),
    "first": Property(first, first_seen, (Twin(wait=1),)),
}
