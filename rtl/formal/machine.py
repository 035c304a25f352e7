# amaranth: UnusedElaboratable=no
"""What is proved of the machine beside its NPU, its channels and its interleave controller: columns and PIM commands go
over once and in order, whatever the channel does, and when; of its programs see `rtl/formal/programs.py`.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assume, Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import connect

from pimloom.arch.part import Part
from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.claim import Claim
from pimloom.rtl.formal.programs import PROGRAM_CLAIMS, STEPS
from pimloom.rtl.system.columns import Merge, Mover, Reader, Writer
from pimloom.rtl.system.dots import Dots
from pimloom.rtl.system.plan import Sizes, small_channel

COUNT, RESULTS = 3, 2  # columns of a step, results that are yet to come, at most


def sizes_of(part: Part) -> Sizes:
    """A machine with few rows and words."""
    return Sizes(small_channel(part, 4), words=16, steps=STEPS)


# --- columns


class Hasty(Merge):
    """Takes the next one before the one that it holds has gone."""

    def _free(self) -> Value:
        return Const(1)


class _Early:
    """Is idle when all columns have been asked for."""

    left: Any

    def _idle(self) -> Value:
        found: Value = self.left == 0
        return found


class EarlyReader(_Early, Reader):
    """Such a reader."""


class Asked:
    """What the checker knows of a mover: its step, columns that went over, and that are done."""

    def __init__(self, m: Module, mover: Mover, name: str) -> None:
        self.mover = mover
        self.bank = Signal.like(mover.bank, name=f"{name}_bank")
        self.place = Signal.like(mover.place, name=f"{name}_place")
        self.count, self.over, self.done = (Signal(8, name=f"{name}_{of}") for of in ("count", "over", "done"))
        m.d.comb += [mover.begin.eq(AnySeq(1)), mover.bank.eq(AnySeq(len(mover.bank)))]
        m.d.comb += [mover.place.eq(AnySeq(len(mover.place))), mover.count.eq(AnySeq(8))]
        m.d.comb += Assume(~mover.begin | mover.idle & (mover.count != 0) & (mover.count <= COUNT))

    def went(self, m: Module, over: Value, done: Value) -> None:
        m.d.sync += [self.over.eq(self.over + over), self.done.eq(self.done + done)]
        with m.If(self.mover.begin):
            m.d.sync += [self.bank.eq(self.mover.bank), self.place.eq(self.mover.place)]
            m.d.sync += [self.count.eq(self.mover.count), self.over.eq(0), self.done.eq(0)]


class Lane:
    """A reader and a writer before a channel that takes columns, and is done with them, at any time."""

    def __init__(self, sizes: Sizes, m: Module, twin: Any, bits: int) -> None:
        merge = (Hasty if twin is Hasty else Merge)(sizes)
        reader, writer = (EarlyReader if twin is EarlyReader else Reader)(sizes), Writer(sizes)
        m.submodules.merge, m.submodules.reader, m.submodules.writer = merge, reader, writer
        connect(m, reader.ask, merge.reads)
        connect(m, writer.ask, merge.writes)
        self.o, self.reads, self.writes = merge.o, Asked(m, reader, "reads"), Asked(m, writer, "writes")
        m.d.comb += [merge.o.ready.eq(AnySeq(1)), reader.came.eq(AnySeq(1)), writer.issued.eq(AnySeq(1))]
        self.goes = wire(m, merge.o.valid & merge.o.ready, "goes")
        column = merge.o.payload
        self.row_col = Cat(column.col, column.row)
        for asked, done, mine in ((self.reads, reader.came, ~column.write), (self.writes, writer.issued, column.write)):
            m.d.comb += Assume(~done | (asked.done < asked.over))
            asked.went(m, self.goes & mine, done)
        self.stood, self.was = Signal(), Signal.like(column.as_value())
        m.d.sync += [self.stood.eq(merge.o.valid & ~merge.o.ready), self.was.eq(column.as_value())]


def columns(s: Lane) -> Iterator[Value]:
    """The columns of a step go over once each, in order; an offer stands until it is taken; a mover is idle when all of
    its columns are done, and not before."""
    yield ~s.stood | s.o.valid & (s.o.payload.as_value() == s.was)
    for asked, mine in ((s.reads, ~s.o.payload.write), (s.writes, s.o.payload.write)):
        place = (asked.place + asked.over)[: len(asked.place)]
        right = (s.o.payload.bank == asked.bank) & (s.row_col == place) & (asked.over < asked.count)
        yield ~(s.o.valid & mine) | right
        yield asked.mover.idle == (asked.done == asked.count)


def columns_lemma(s: Lane) -> Iterator[Value]:
    """What is left to ask for, on its way in the register, and gone over, is the step."""
    for asked, mine in ((s.reads, ~s.o.payload.write), (s.writes, s.o.payload.write)):
        mover, held = asked.mover, s.o.valid & mine
        yield mover.left + asked.over + held == asked.count
        yield mover.pending + asked.done == asked.count
        yield (asked.done <= asked.over) & (asked.over <= asked.count) & (asked.count <= COUNT)
        yield mover.of_bank == asked.bank
        yield mover.next_ == (asked.place + asked.over + held)[: len(asked.place)]
        place = (asked.place + asked.over)[: len(asked.place)]
        yield ~held | (s.o.payload.bank == asked.bank) & (s.row_col == place)
    yield ~s.stood | s.o.valid & (s.o.payload.as_value() == s.was)


def columns_seen(s: Lane) -> Iterator[Value]:
    """A write behind a read that waited; a step of each kind is over."""
    yield s.stood & s.goes & ~s.o.payload.write & (s.writes.mover.left == COUNT)
    yield s.reads.mover.idle & s.writes.mover.idle & (s.reads.count == COUNT) & (s.writes.count == COUNT)


# --- PIM commands


class Boundless(Dots):
    """Keeps more places for results than there are."""

    def _room(self, room: Value) -> Value:
        return Const(1)


class Commands:
    """PIM commands before a channel that takes them, and answers, at any time. copies, products: that are begun and not
    answered; entered: of both, that went over and are not."""

    def __init__(self, sizes: Sizes, m: Module, twin: Any, bits: int) -> None:
        m.submodules.dots = self.d = d = (twin or Dots)(sizes, RESULTS)
        value = d.dot.as_value()
        m.d.comb += [d.begin.eq(AnySeq(1)), value.eq(AnySeq(len(value))), d.at.eq(AnySeq(len(d.at)))]
        m.d.comb += [d.o.ready.eq(AnySeq(1)), d.copied.eq(AnySeq(1)), d.multiplied.eq(AnySeq(1))]
        m.d.comb += Assume(~d.begin | d.ready)
        op = sizes.plan.op
        self.copies, self.products = Signal(8), Signal(8)
        self.out_copies, self.out_products = Signal(8), Signal(8)
        goes = d.o.valid & d.o.ready
        for name, kind, begun, out in (
            ("copied", op.gwrite, self.copies, self.out_copies),
            ("multiplied", op.gemv, self.products, self.out_products),
        ):
            answer = getattr(d, name)
            m.d.comb += Assume(~answer | (out != 0))
            m.d.sync += begun.eq(begun + (d.begin & (d.dot.cmd == kind)) - answer)
            m.d.sync += out.eq(out + (goes & (d.o.payload.cmd == kind)) - answer)
        m.d.comb += Assume(self.copies < 1 << 6)  # a program has waits between
        self.stood, self.was, self.begun = Signal(), Signal.like(value), Signal()
        m.d.sync += [self.stood.eq(d.o.valid & ~d.o.ready), self.begun.eq(d.begin)]
        with m.If(d.begin):
            m.d.sync += self.was.eq(value)
        self.op = op


def results(s: Commands) -> Iterator[Value]:
    """Each command goes over once, as it was begun, and stands until then; there is a place for each result that comes,
    and never more than are kept; all is idle when each copy and product is answered, and not before."""
    d = s.d
    yield d.o.valid == (s.stood | s.begun)
    yield ~d.o.valid | (d.o.payload.as_value() == s.was)
    yield s.products <= RESULTS
    yield ~d.multiplied | (s.products != 0)
    yield d.idle == ((s.copies == 0) & (s.products == 0) & ~d.o.valid)


def results_lemma(s: Commands) -> Iterator[Value]:
    """Counts of the gates and of the checker."""
    d = s.d
    held = d.o.valid & (d.o.payload.cmd == s.op.gwrite), d.o.valid & (d.o.payload.cmd == s.op.gemv)
    yield d.pending == (s.copies + s.products)
    yield (s.copies == s.out_copies + held[0]) & (s.products == s.out_products + held[1])
    yield (s.products == s.d.level) & (s.products <= RESULTS) & (s.copies <= 1 << 6)
    yield ~d.o.valid | (d.o.payload.as_value() == s.was)
    yield d.o.valid == (s.stood | s.begun)


def results_seen(s: Commands) -> Iterator[Value]:
    """Several products under way at once; a copy and a product answered in one clock."""
    yield s.products == RESULTS
    yield s.d.copied & s.d.multiplied


CLAIMS = {
    **PROGRAM_CLAIMS,
    "columns": (Lane, Claim(columns, columns_seen, (Hasty, EarlyReader), columns_lemma)),
    "results": (Commands, Claim(results, results_seen, (Boundless,), results_lemma)),
}
