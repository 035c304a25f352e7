# amaranth: UnusedElaboratable=no
"""A sequencer between free streams and a checker: what a solver is asked."""

from dataclasses import replace

import numpy as np
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Const, Cover, Module, Mux, Signal, Value
from amaranth.utils import bits_for

from pimloom.arch.command import Row
from pimloom.arch.table import Table
from pimloom.rtl.formal.checker import Channel, Timing, Word, any_of, wire
from pimloom.rtl.formal.properties import PROPERTIES, Scene, Twin, known
from pimloom.rtl.formal.question import Question, Task
from pimloom.rtl.formal.timers import Aged, Armings
from pimloom.rtl.rows import Asker
from pimloom.rtl.sequencer import Sequencer

STEP = "state"  # the property that the others assume when they are proved


class AnyGrants(Sequencer):
    """Issues whatever it likes, one command on a bus: what holds of it holds of any sequencer with its registers. Its
    timers are told by ages, of `bits`: that these are those of the sequencer is a lemma about each kind of timer."""

    def __init__(self, table: Table, streams: int, bits: int, age_bits: int) -> None:
        super().__init__(table, streams, bits)
        waits = {at: t.wait.value if isinstance(t.wait, Const) else None for at, t in self.timers.items()}
        self.kinds = {(t.window, t.most, waits[at]) for at, t in self.timers.items()}
        self.timers = {at: Aged(t.window, waits[at], age_bits, t.most) for at, t in self.timers.items()}

    def _may(self, m: Module, name: str, who: Asker, wants: Value, granted: list[Value], askers: list[Asker]) -> Value:
        return wire(m, AnySeq(1), f"{name}_may") & ~self._taken(who, granted, askers)


class SequencerQuestion(Question):
    """One property of a sequencer with `streams` streams.

    Task `prove`: assertions for an induction; that of `state` is about a sequencer that grants anything, as registers
    follow what is granted; those of the others assume what `state` says of one clock, and what the lemma comes to.
    `lemma`: what is proved of each kind of timer. `search`: the property, assuming neither, for a search from reset.
    `see`: covers that show it at work; `break`: a cover that shows it violated.

    With `bits`, waits are any constants of that many bits, and the interval of refresh, its first clock and whether
    there is any are free too; without, all are the table's. Heads come, with any commands of the table, and are
    released at any time; but for `prove` they stay until they are taken, as a stream's must. Reset is at
    the start.
    """

    def __init__(
        self,
        table: Table,
        streams: int,
        bits: int,
        about: str,
        task: Task,
        twin: Twin | None = None,
    ) -> None:
        super().__init__(task)
        self.table, self.bits, self.about = table, bits, about
        self.twin = twin or Twin()
        needs = table.rules.needs.copy()
        if self.twin.needs_no_row is not None:
            needs[np.flatnonzero(needs == self.twin.needs_no_row)[0]] = Row.ANY
        table = replace(table, rules=table.rules._replace(needs=needs))
        self.age_bits = bits or bits_for(max(table.rules.wait.tolist()))
        self.any_grants = AnyGrants(table, streams, bits, self.age_bits)
        any_will_do = (task, about) == ("prove", STEP)
        self.sequencer = self.any_grants if any_will_do else self.twin.kind(table, streams, bits)

    def elaborate(self, platform: object) -> Module:
        m = self.begun()
        if self.task == "lemma":
            return self._timers(m)
        m.submodules.sequencer = self.sequencer
        timing = self._timing(m)
        waited = self._heads(m)
        words = self._words(m)
        channel = Channel(m, self.table, self.age_bits, timing, words)
        scene = Scene(m, self.sequencer, channel, words, waited)
        about = PROPERTIES[self.about]
        if self.task == "see":
            m.d.comb += [Cover(wire(m, bit, "seen")) for bit in about.seen(scene)]
            return m
        holds = [wire(m, bit, "holds") for bit in about.holds(scene)]
        if self.task == "break":
            m.d.comb += Cover(any_of(~bit for bit in holds))
            return m
        if self.about == STEP:  # its bits carry each other from clock to clock
            m.d.comb += [Assert(bit) for bit in holds]
            return m
        m.d.comb += Assert(_any_one(m, holds))
        if self.task == "prove":
            m.d.comb += [Assume(bit) for bits in (about.rests_on, known) if bits for bit in bits(scene)]
        return m

    def _timers(self, m: Module) -> Module:
        """Each kind of timer that the sequencer has, between free armings."""
        lemma = PROPERTIES[self.about].lemma
        assert lemma
        for window, most, wait in sorted(self.any_grants.kinds, key=repr):
            armings = Armings(window, m, None, self.age_bits, most, wait)
            m.d.comb += [Assert(wire(m, bit, "lemma")) for bit in lemma(armings)]
        return m

    def _timing(self, m: Module) -> Timing:
        """The checker's timings; the twin's differ."""
        rules, twin = self.table.rules, self.twin
        if not self.bits:
            refi, apart = Const(rules.refi), Const(self.sequencer.apart)
            return Timing([Const(int(w)) for w in rules.wait], refi, refi, apart, Const(1))
        waits = [wire(m, AnyConst(self.bits), f"wait_{i}") for i in range(len(rules.wait))]
        sizes = {"refi": 32, "due": 32, "apart": 32, "refresh": 1}
        timing = Timing(waits, *(wire(m, AnyConst(n), name) for name, n in sizes.items()))
        given = self.sequencer.timings
        m.d.comb += [given.refi.eq(timing.refi + twin.refi), given.due.eq(timing.due), given.refresh.eq(timing.refresh)]
        m.d.comb += given.apart.eq(timing.apart)
        m.d.comb += [Assume(timing.refi != 0), Assume(given.refi != 0)]
        bent = wire(m, AnyConst(bits_for(len(rules.wait))), "bent_rule")
        for i, (wait, into) in enumerate(zip(waits, given.waits, strict=True)):
            m.d.comb += into.eq(Mux(bent == i, wait + twin.wait, wait))
            if twin.wait:  # does not wrap
                m.d.comb += Assume((bent != i) | (wait != 0 if twin.wait < 0 else ~wait.all()))
        return timing

    def _heads(self, m: Module) -> list[Value]:
        """Of each stream, whether its head was there and released in the clock before, and was not taken."""
        waited = []
        for head, released in zip(self.sequencer.heads, self.sequencer.released, strict=True):
            command = head.payload.as_value()
            m.d.comb += [head.valid.eq(AnySeq(1)), released.eq(AnySeq(1)), command.eq(AnySeq(len(command)))]
            m.d.comb += Assume(head.payload.cmd < len(self.table.names))
            stays, was_released, was = Signal(), Signal(), Signal.like(command)
            m.d.sync += [stays.eq(head.valid & ~head.ready), was_released.eq(released), was.eq(command)]
            if self.task != "prove":
                as_it_was = head.valid & (command == was) & (released | ~was_released)
                m.d.comb += Assume(~stays | as_it_was)
            waited.append(stays & was_released)
        return waited

    def _words(self, m: Module) -> list[Word]:
        """What is on the buses, in the order in which it was granted."""
        words = [Word.of(bus.valid, bus.source, bus.command) for bus in self.sequencer.buses]
        if len(words) == 1:
            return words
        one, two = words
        swap = wire(m, ~one.valid | (two.valid & (two.source < one.source)), "swap")
        first = Word(*(Mux(swap, b, a) for a, b in zip(one, two, strict=True)))
        second = Word(*(Mux(swap, a, b) for a, b in zip(one, two, strict=True)))
        return [first.named(m, "first"), second.named(m, "second")]


def _any_one(m: Module, bits: list[Signal]) -> Value:
    """One of the bits, whichever the solver likes least: all at once are too much for it."""
    which = wire(m, AnyConst(range(len(bits))), "which")
    m.d.comb += Assume(which < len(bits))
    return Array(bits)[which]
