# amaranth: UnusedElaboratable=no
"""What is proved of a PIM channel: rows become commands, words and results come when they should.

That commands issue in their clocks is proved of the sequencer (`properties.py`). Here it lets any command issue in any
clock, adders and multipliers give any numbers (`streams.freed`), and cells hold any words.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from amaranth.asserts import AnySeq
from amaranth.hdl import Assume, Cat, Const, Module, Signal, Value

from pimloom.arch.command import SENDS, Role
from pimloom.rtl.bank import Bank
from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.question import Claim
from pimloom.rtl.formal.streams import freed
from pimloom.rtl.pim_channel import PimChannel
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.sequencer import Sequencer


@contextmanager
def any_commands() -> Iterator[None]:
    """Sequencers that are elaborated inside let anything issue; banks hold any words."""

    def issues(sequencer: Sequencer, platform: object) -> Module:
        m = Module()
        for head in sequencer.heads:
            m.d.comb += head.ready.eq(AnySeq(1))
        for bus in sequencer.buses:
            command = bus.command.as_value()
            m.d.comb += [bus.valid.eq(AnySeq(1)), command.eq(AnySeq(len(command)))]
        return m

    def holds(bank: Bank, platform: object) -> Module:
        m = Module()
        m.d.comb += bank.o.eq(AnySeq(len(bank.o)))
        return m

    with ExitStack() as stack:
        stack.enter_context(freed())
        stack.enter_context(patch.object(Sequencer, "elaborate", issues))
        stack.enter_context(patch.object(Bank, "elaborate", holds))
        yield


def latency_of(channel: PimChannel) -> int:
    """Clocks from a command that reads results to these."""
    return PimUnit(channel.part).latency + 1


class Channel:
    """A channel between any rows, which stand until they are taken, and any data. due: by role, a bit for each clock
    since a command with it issued; missed: a command that brings a word found none; behind: commands of the row that
    stands which have left; stands: whether one stood in the clock before."""

    def __init__(self, make: Callable[[], PimChannel], m: Module, twin: type[PimChannel] | None, bits: int) -> None:
        self.m, self.channel = m, make()
        if twin is not None:
            self.channel.__class__ = twin
        m.submodules.channel = c = self.channel
        row, data = Value.cast(c.rows.payload), Value.cast(c.data.payload)
        m.d.comb += [c.rows.valid.eq(AnySeq(1)), row.eq(AnySeq(len(row)))]
        m.d.comb += [c.data.valid.eq(AnySeq(1)), data.eq(AnySeq(len(data)))]
        stands, was = Signal(), Signal.like(row)
        m.d.sync += [stands.eq(c.rows.valid & ~c.rows.ready), was.eq(row)]
        m.d.comb += Assume(~stands | c.rows.valid & (row == was))
        m.d.comb += Assume(c.rows.payload.count != 0)
        self.takes = wire(m, self._issues(*SENDS), "takes_word")
        self.missed = Signal()
        m.d.sync += self.missed.eq(self.missed | self.takes & ~c.data.valid)
        self.results = self._later(m, self._issues(Role.RESULTS), latency_of(c))
        self.reads = self._later(m, self._issues(Role.READ), 2)
        self.head = c.sequencer.heads[0]
        left = self.head.valid & self.head.ready
        self.behind = Signal.like(c.rows.payload.count)
        ends = self.behind + 1 == c.rows.payload.count
        m.d.sync += self.behind.eq(self.behind + left)
        self.ends = wire(m, left & ends, "row_ends")
        with m.If(self.ends):
            m.d.sync += self.behind.eq(0)

    def _issues(self, *roles: Role) -> Value:
        bus, opcodes = self.channel.buses[0], self.channel.table.opcodes(roles)
        return bus.valid & any_of([Const(0, 1), *(bus.command.cmd == opcode for opcode in opcodes)])

    def _later(self, m: Module, now: Value, clocks: int) -> Signal:
        due = Signal(clocks)
        m.d.sync += due.eq(Cat(now, due)[:clocks])
        return due


def words(s: Channel) -> Iterator[Value]:
    """Each command that brings a burst takes a word in its clock, and no other does; `underrun` is high from the clock
    behind the first that found none."""
    yield s.channel.data.ready == s.takes
    yield s.channel.underrun == s.missed


def answers(s: Channel) -> Iterator[Value]:
    """Results are there the unit's latency and a clock after each command that reads them, words 2 clocks after each
    read of a bank, and never else."""
    yield s.channel.results.valid == s.results[-1]
    yield s.channel.reads.valid == s.reads[-1]


def rows(s: Channel) -> Iterator[Value]:
    """A row becomes `count` commands on consecutive columns, one at a time, in order; it leaves with its last."""
    row = s.channel.rows
    yield s.head.valid == row.valid
    for name in s.head.payload.shape().members:
        begins = s.behind if name == "col" else Const(0, 1)
        asked = row.payload.command[name]
        yield ~row.valid | (s.head.payload[name] == (asked + begins)[: len(asked)])
    yield (row.valid & row.ready) == s.ends


def rows_lemma(s: Channel) -> Iterator[Value]:
    """The count is the checker's, and below that of the row."""
    yield s.channel.repeat.done == s.behind
    yield (s.behind == 0) | s.channel.rows.valid & (s.behind < s.channel.rows.payload.count)


def words_seen(s: Channel) -> Iterator[Value]:
    """Two words one after the other; one missed."""
    before = Signal()
    s.m.d.sync += before.eq(s.takes & s.channel.data.valid)
    yield before & s.takes & s.channel.data.valid & ~s.missed
    yield s.missed & s.takes


def answers_seen(s: Channel) -> Iterator[Value]:
    """Two results one after the other; a word behind another."""
    yield s.results[-2:].all()
    yield s.reads.all()


def rows_seen(s: Channel) -> Iterator[Value]:
    """A row of one; the third command of one of three."""
    yield s.ends & (s.behind == 0)
    yield s.ends & (s.behind == 2)


class Deaf(PimChannel):
    """Takes no word of its first command that brings one."""

    def _take_data(self, m: Module, takes: Value) -> None:
        before = Signal()
        m.d.sync += before.eq(before | takes)
        super()._take_data(m, takes & before)


class Hasty(PimChannel):
    """Says of each command that reads a bank that its word is there."""

    def _read(self, m: Module, words: list[Value], command: Any, reads: Value) -> None:
        super()._read(m, words, command, reads)
        m.d.sync += self.reads.valid.eq(reads)


class Stuttering(PimChannel):
    """Gives every command of a row on the first column."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.sequencer.heads[0].payload.col.eq(self.rows.payload.command.col)
        return m


def claims(latency: int) -> dict[str, Claim]:
    """Of a channel whose results come so many clocks after their command."""
    return {
        "words": Claim(words, words_seen, (Deaf,)),
        "answers": Claim(answers, answers_seen, (Hasty,), depth=latency + 2),
        "rows": Claim(rows, rows_seen, (Stuttering,), rows_lemma),
    }
