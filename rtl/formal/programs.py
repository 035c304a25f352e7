# amaranth: UnusedElaboratable=no
"""What is proved of the machine's programs: steps leave one by one, jobs of the NPU have all their programs, whatever
the units do, and when.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assume, Const, Module, Mux, Signal, Value

from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.claim import Claim
from pimloom.rtl.system.plan import Sizes
from pimloom.rtl.system.walker import END, Jobs, Walker

STEPS = 4  # places of a program


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


PROGRAM_CLAIMS = {
    "steps": (Programs, Claim(steps, steps_seen, (Eager,), steps_lemma)),
    "parts": (Parts, Claim(parts, parts_seen, (Forgetful,), parts_lemma)),
}
