# amaranth: UnusedElaboratable=no
"""What is proved of the pads of two halves: handshakes and counts of halves, told from the ports.

Arrays have 2 x 2 elements, halves 2 places; what comes and goes, and when, is any that the sequencer may do.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from amaranth.asserts import AnySeq
from amaranth.hdl import Assume, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In

from pimloom.rtl.formal.question import Question, Task
from pimloom.rtl.formal.tiles_checker import count
from pimloom.rtl.npu.pads import Accumulator, OperandPads
from pimloom.rtl.npu.shape import ArrayShape

SHAPE, DEPTH = ArrayShape(2, 2, "ws"), 2


class Loading:
    """Operand pads, and of each half whether it is loaded and not freed. empty: the half that is freed next; rows:
    of each row of the array, whether it is fed in this clock; later: whether row 1 is in the next."""

    def __init__(self, m: Module, pads: OperandPads) -> None:
        self.pads, self.full, self.fill, self.empty = pads, Signal(2), Signal(), Signal()
        word = pads.i.valid & pads.i.ready
        self.word, self.rows = word, [Signal(name="row_0"), Signal(name="row_1")]
        loaded, freed = Const(1, 2) << self.fill, Const(1, 2) << self.empty
        ends = word & pads.i.payload.last
        m.d.sync += self.full.eq((self.full | Mux(ends, loaded, 0)) & ~Mux(pads.freed, freed, 0))
        m.d.sync += [self.fill.eq(self.fill ^ ends), self.empty.eq(self.empty ^ pads.freed)]
        m.d.comb += Assume(~pads.freed | self.full.bit_select(self.empty, 1))
        m.d.sync += self.rows[0].eq(pads.across.valid & (pads.across.tile.rows >= 1))
        self.later = Signal(name="later_row")
        m.d.sync += [self.later.eq(pads.across.valid & (pads.across.tile.rows >= 2)), self.rows[1].eq(self.later)]


def loads(w: Loading) -> Iterator[Value]:
    """No operand is taken into a half that is loaded and not freed, and one is taken wherever a half is free; the last
    of a tile, and no other, says loaded; row i of the array is fed i clocks behind the first."""
    p = w.pads
    yield p.i.ready == ~w.full.bit_select(w.fill, 1)
    yield p.loaded == (w.word & p.i.payload.last)
    yield from (p.left[i].valid == w.rows[i] for i in range(2))


def loads_lemma(w: Loading) -> Iterator[Value]:
    """The pads' count and half are the checker's."""
    yield (w.pads.free + count(w.full) == 2) & (w.pads.half == w.fill)
    yield Mux(w.full.all() | ~w.full.any(), w.fill == w.empty, (w.fill != w.empty) & w.full.bit_select(w.empty, 1))
    yield w.later == (w.pads.rows[1].valid & (w.pads.rows[1].tile.rows >= 2))
    yield from loads(w)


def loads_seen(w: Loading) -> Iterator[Value]:
    """Both halves full; a half freed in the clock in which the other is."""
    yield w.full.all()
    yield w.pads.loaded & w.pads.freed


class Taking:
    """An accumulator, and of each half whether its last result is on its way or there. before: what was offered in the
    clock before and not taken; told: results that a half should hold, less one; taken: of this half so far."""

    def __init__(self, m: Module, sums: Accumulator) -> None:
        self.sums, self.closed, self.held = sums, Signal(2), Signal()
        now, moved = sums.now, sums.o.valid & sums.o.ready
        self.before, offered = Signal.like(sums.o.payload.as_value()), sums.o.payload.as_value()
        self.told, self.taken = [Signal(sums.bits, name=f"told_{half}") for half in range(2)], Signal(sums.bits + 1)
        self.half, self.ends = Signal(), moved & sums.o.payload.last
        closes, opens = Const(1, 2) << now.sums, Const(1, 2) << self.half
        end = now.valid & now.end
        m.d.sync += self.closed.eq((self.closed & ~Mux(self.ends, opens, 0)) | Mux(end, closes, 0))
        m.d.sync += [self.half.eq(self.half ^ self.ends), self.held.eq(sums.o.valid & ~sums.o.ready)]
        m.d.sync += [self.before.eq(offered), self.taken.eq(Mux(self.ends, 0, self.taken + moved))]
        with m.If(end):
            m.d.sync += [told.eq(Mux(now.sums == half, now.top, told)) for half, told in enumerate(self.told)]
        m.d.comb += Assume(~now.valid | ~self.closed.bit_select(now.sums, 1))


def takes(w: Taking) -> Iterator[Value]:
    """What is offered stays until it is taken; a half gives as many results as it was told, then says taken; none is
    offered of a half that is not complete."""
    s = w.sums
    yield ~w.held | (s.o.valid & (s.o.payload.as_value() == w.before))
    yield s.taken == w.ends
    yield ~s.o.valid | w.closed.bit_select(w.half, 1)
    told = Mux(w.half, w.told[1], w.told[0])
    yield ~s.o.valid | ((w.taken <= told) & (s.o.payload.last == (w.taken == told)))


def takes_lemma(w: Taking) -> Iterator[Value]:
    """The accumulator's halves and places are the checker's; what is on its way goes to a half that is not complete."""
    s, later = w.sums, w.sums.at[-1]
    yield (s.half == w.half) & (s.place == w.taken)
    yield (s.full & ~w.closed) == 0
    yield ~later.valid | ~s.full.bit_select(later.sums, 1)
    yield ~(later.valid & later.end) | w.closed.bit_select(later.sums, 1)
    for half in range(2):
        coming = later.valid & later.end & (later.sums == half)
        yield ~w.closed[half] | s.full[half] | coming
        yield ~s.full[half] | (s.top[half] == w.told[half])
        yield ~coming | (later.top == w.told[half])
    told = Mux(w.half, w.told[1], w.told[0])
    yield Mux(s.full.bit_select(w.half, 1), w.taken <= told, w.taken == 0)


def takes_seen(w: Taking) -> Iterator[Value]:
    """Both halves complete; a second result that waits."""
    yield w.sums.full.all()
    yield w.held & (w.taken == 1)


class Greedy(OperandPads):
    """Takes operands whether a half is free or not."""

    def _may_load(self) -> Value:
        return Const(1)


class Restless(Accumulator):
    """Does not wait until results are taken."""

    def _moved(self) -> Value:
        return self.o.valid


class PadTwin(NamedTuple):
    """A pad that breaks a property."""

    kind: type[OperandPads] | type[Accumulator]


class PadProperty(NamedTuple):
    """holds: bits that are always high; seen: bits that are high in some trace; lemma: proved first, then assumed."""

    kind: type[OperandPads] | type[Accumulator]
    watch: type[Loading] | type[Taking]
    holds: Callable[..., Iterator[Value]]
    seen: Callable[..., Iterator[Value]]
    twins: tuple[PadTwin, ...]
    lemma: Callable[..., Iterator[Value]]


PAD_PROPERTIES = {
    "loads": PadProperty(OperandPads, Loading, loads, loads_seen, (PadTwin(Greedy),), loads_lemma),
    "takes": PadProperty(Accumulator, Taking, takes, takes_seen, (PadTwin(Restless),), takes_lemma),
}


class PadQuestion(Question):
    """One property of a pad, for the tasks of `pimloom.rtl.formal.proof`. Reset is at the start."""

    def __init__(self, about: str, task: Task, twin: PadTwin | None = None) -> None:
        super().__init__(task)
        self.about = PAD_PROPERTIES[about]
        self.pad: Component = (twin.kind if twin else self.about.kind)(SHAPE, DEPTH)

    def elaborate(self, platform: object) -> Module:
        m = self.begun()
        m.submodules.pad = self.pad
        for _, member, value in self.pad.signature.flatten(self.pad):
            if member.flow is In:
                port = Value.cast(value)
                m.d.comb += port.eq(AnySeq(len(port)))
        watch = self.about.watch(m, self.pad)
        self.put(m, watch, self.about.holds, self.about.seen, self.about.lemma)
        return m
