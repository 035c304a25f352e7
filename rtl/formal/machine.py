# amaranth: UnusedElaboratable=no
"""What is proved of the machine beside its NPU, its channels and its interleave controller: programs leave step by
step, columns and PIM commands go over once and in order, whatever channels and units do, and when.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assume, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import connect

from pimloom.arch.part import Part
from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.claim import Claim
from pimloom.rtl.system.columns import Merge, Mover, Reader, Writer
from pimloom.rtl.system.dots import Dots
from pimloom.rtl.system.plan import Sizes, small_channel
from pimloom.rtl.system.walker import END, Jobs, Walker

STEPS, COUNT, RESULTS = 4, 3, 2  # places of a program; columns of a step, results that are yet to come, at most


def sizes_of(part: Part) -> Sizes:
    """A machine with few rows and words."""
    return Sizes(small_channel(part, 4), words=16, steps=STEPS)


# --- programs


class AnyProgram(Walker):
    """Whose steps and entries are any."""

    words: list[Value]
    begins: list[Value]

    def _memories(self, m: Module) -> tuple[Value, Value]:
        return Array(self.words)[self.at], Array(self.begins)[self.job]


class Eager(AnyProgram):
    """Does not wait."""

    def _may(self) -> Value:
        return Const(1)


class Programs:
    """A walker with any program of `STEPS` steps. running, next_: what the checker counts."""

    def __init__(self, sizes: Sizes, m: Module, twin: Any, bits: int) -> None:
        kind = twin or AnyProgram
        m.submodules.walker = self.w = w = kind(sizes.npu_step(), STEPS, 2, (), ())
        w.words = [wire(m, AnyConst(len(w.step.as_value())), f"word_{i}") for i in range(STEPS)]
        w.begins = [wire(m, AnyConst(range(STEPS)), f"begin_{i}") for i in range(2)]
        self.running, self.next_ = Signal(), Signal(range(STEPS))
        m.d.comb += [w.start.eq(AnySeq(1)), w.job.eq(AnySeq(1)), w.go.eq(AnySeq(1)), w.quiet.eq(AnySeq(1))]
        m.d.comb += Assume(~w.start | ~self.running | w.done)
        self.leaves = w.valid & w.go
        with m.If(w.start):
            m.d.sync += [self.running.eq(1), self.next_.eq(Array(w.begins)[w.job])]
        with m.Elif(w.done):
            m.d.sync += self.running.eq(0)
        with m.Elif(self.leaves):
            m.d.sync += self.next_.eq(self.next_ + 1)


def steps(s: Programs) -> Iterator[Value]:
    """The steps of a program leave one by one from its entry on, as they are written; one that waits, and the end, only
    while nothing is under way; a program whose units are free never stands still."""
    w = s.w
    here = Array(w.words)[s.next_]
    yield ~w.valid | s.running & (w.step.as_value() == here) & (w.step.kind != END)
    yield ~w.valid | ~w.step.wait | w.quiet
    yield ~w.done | s.running & (w.step.as_value() == here) & (w.step.kind == END) & w.quiet
    yield ~(s.running & w.quiet) | w.valid | w.done


def steps_lemma(s: Programs) -> Iterator[Value]:
    """The checker's count is the walker's."""
    yield s.w.active == s.running
    yield ~s.running | (s.w.at == s.next_)


def steps_seen(s: Programs) -> Iterator[Value]:
    """A step that waited leaves; the end of one program and the start of the next in one clock."""
    yield s.leaves & s.w.step.wait & (s.next_ == STEPS - 1)
    yield s.w.done & s.w.start


# --- the two programs of a job of the NPU


class Forgetful(Jobs):
    """Goes without the second program."""

    def _another(self, is_qkv: Value) -> Value:
        return Const(0)


class Parts:
    """Jobs of the NPU, whose programs end at any time. busy: a program runs; left: programs of the job yet to begin."""

    def __init__(self, sizes: Sizes, m: Module, twin: Any, bits: int) -> None:
        m.submodules.jobs = self.j = j = (twin or Jobs)(sizes)
        job = j.unit.job
        value = job.as_value()
        self.busy, self.left, self.works = Signal(), Signal(2), Signal()
        was = Signal.like(value)
        m.d.comb += [j.unit.start.eq(AnySeq(1)), value.eq(AnySeq(len(value))), j.ended.eq(AnySeq(1))]
        m.d.comb += [Assume(~j.ended | self.busy), Assume(~j.unit.start | ~self.works)]
        m.d.comb += Assume(~j.unit.start | job.through | job.qkv.any())
        m.d.comb += Assume(~self.works | (value == was))
        m.d.sync += [was.eq(value), self.works.eq(j.unit.start | self.works & ~j.unit.done)]
        m.d.sync += self.busy.eq(j.start | self.busy & ~j.ended)
        parts = job.through + job.qkv.any()
        m.d.sync += self.left.eq(Mux(j.unit.start, parts, self.left) - j.start)


def parts(s: Parts) -> Iterator[Value]:
    """As many programs as the job has, each behind the end of the one before, the first of them in its first clock; it
    is done with the last one's end."""
    j = s.j
    yield ~j.start | j.unit.start | j.ended & (s.left != 0)
    yield ~j.unit.start | j.start
    yield j.unit.done == (j.ended & (s.left == 0))
    is_qkv = j.job[-1]
    yield ~j.start | (is_qkv == Mux(j.unit.start, ~j.unit.job.through, 1))


def parts_lemma(s: Parts) -> Iterator[Value]:
    """What the gates remember is whether a program is left."""
    yield s.works == s.busy
    yield s.left < 2
    yield ~s.busy | (s.j.qkv_next == (s.left != 0))
    yield s.busy | (s.left == 0)


def parts_seen(s: Parts) -> Iterator[Value]:
    """The second program of a job ends; a job of one program."""
    yield s.j.unit.done & s.j.job[-1] & s.j.unit.job.through
    yield s.j.unit.done & ~s.j.unit.job.through


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
    "steps": (Programs, Claim(steps, steps_seen, (Eager,), steps_lemma)),
    "parts": (Parts, Claim(parts, parts_seen, (Forgetful,), parts_lemma)),
    "columns": (Lane, Claim(columns, columns_seen, (Hasty, EarlyReader), columns_lemma)),
    "results": (Commands, Claim(results, results_seen, (Boundless,), results_lemma)),
}
