# amaranth: UnusedElaboratable=no
"""What is proved of a timer, and of the MAC unit's handshake: both as a checker tells that counts up."""

from collections.abc import Callable, Iterator
from itertools import pairwise

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assume, Module, Mux, Signal, Value

from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.question import Claim
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.timer import Timer


class Aged(Timer):
    """The same, told by ages. ages[i]: clocks since the (i+1)-th latest arming, all ones long ago."""

    def __init__(self, window: int, wait: int | None, bits: int = 0, most: int = 1) -> None:
        super().__init__(window, wait, bits, most)
        self.ages = [Signal(bits, init=-1, name=f"aged_{i}") for i in range(window)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        older = [(age + ~age.all())[: len(age)] for age in self.ages]
        for i, age in enumerate(self.ages):
            m.d.comb += self.busy[i].eq(age < self.wait)
            choice = [1 if armed > i else older[i - armed] for armed in range(self.most + 1)]
            m.d.sync += age.eq(Array(choice)[self.arm])
        return m


class Armings:
    """A timer and one told by ages, between free armings, `most` in a clock. wait: None for any; twin: added to that of
    the timer alone. quiet: clocks since the latest arming or anything else, which comes at any time."""

    def __init__(
        self, window: int, m: Module, twin: int | None, bits: int, most: int = 1, wait: int | None = None
    ) -> None:
        self.m, self.timer, self.aged = m, Timer(window, wait, bits, most), Aged(window, wait, bits, most)
        m.submodules += [self.timer, self.aged]
        arm = wire(m, AnySeq(self.aged.arm.shape()), "arm")
        m.d.comb += [Assume(arm <= most), self.timer.arm.eq(arm), self.aged.arm.eq(arm)]
        self.quiet = Signal(bits, init=-1)
        anything = wire(m, arm.any() | AnySeq(1), "anything")
        m.d.sync += self.quiet.eq(Mux(anything, 1, self.quiet + ~self.quiet.all()))
        if wait is None:
            any_wait = wire(m, AnyConst(bits), "wait")
            given = wire(m, any_wait + (twin or 0), "given")
            m.d.comb += [self.aged.wait.eq(any_wait), self.timer.wait.eq(given)]
            m.d.comb += [Assume(given < 2**bits), Assume(given >= 0)]


def busy(s: Armings) -> Iterator[Value]:
    """busy[i] is high exactly where the (i+1)-th latest arming is less than `wait` clocks ago, whatever came between:
    no counter runs over."""
    yield from (bit == (age < s.aged.wait) for bit, age in zip(s.timer.busy, s.aged.ages, strict=True))


def busy_lemma(s: Armings) -> Iterator[Value]:
    """What is left and the age make up the wait; an earlier arming is older."""
    for left, age in zip(s.timer.left, s.aged.ages, strict=True):
        yield (age != 0) & Mux(age < s.aged.wait, left + age == s.aged.wait, left == 0)
    yield from (a.all() & b.all() | (a <= b) for a, b in pairwise(s.aged.ages))


def as_ages(s: Armings) -> Iterator[Value]:
    """A timer is busy, and what is left of its wait is, as the ages say."""
    yield from busy_lemma(s)
    yield from busy(s)


def no_younger(s: Armings) -> Iterator[Value]:
    """No arming is younger than the latest of anything: when that is a wait ago, the wait is over."""
    for age in s.aged.ages:
        yield age >= s.quiet
        yield (s.quiet < s.aged.wait) | (age >= s.aged.wait)


def busy_seen(s: Armings) -> Iterator[Value]:
    """The last clock in which each binds, after two."""
    yield from (bit & (age + 1 == s.aged.wait) & (age > 1) for bit, age in zip(s.timer.busy, s.aged.ages, strict=True))


TIMER_CLAIMS = {"busy": Claim(busy, busy_seen, (1, -1), busy_lemma)}


class Reads:
    """A MAC unit between free commands. due: a bit for each clock that a read takes; before: the result of the clock
    before this one, where there was one."""

    def __init__(self, unit: Callable[[], PimUnit], m: Module, twin: type[PimUnit] | None, bits: int) -> None:
        self.m, self.unit = m, unit()
        if twin is not None:
            self.unit.__class__ = twin
        m.submodules.unit = u = self.unit
        for port in (u.mac, u.read, u.load, u.bias, u.weights.as_value(), u.inputs.as_value()):
            m.d.comb += port.eq(AnySeq(len(port)))
        m.d.comb += Assume(~(u.mac & u.read | u.mac & u.load | u.read & u.load))
        self.due, self.before, self.started = Signal(u.latency), Signal.like(u.result), Signal()
        m.d.sync += [self.due.eq(self.due << 1 | u.read), self.before.eq(u.result), self.started.eq(1)]


def reads(s: Reads) -> Iterator[Value]:
    """`valid` is high exactly `latency` clocks after each read; in no other clock does the result change."""
    yield s.unit.valid == s.due[-1]
    yield ~s.started | s.unit.valid | (s.unit.result == s.before)


def reads_seen(s: Reads) -> Iterator[Value]:
    """Results in two clocks, one after the other, and a pause."""
    yield s.due[-2:].all()
    yield ~s.due.any() & (s.unit.result != 0)


class Leaky(PimUnit):
    """A mutant whose result takes any value in every clock."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.sync += self.result.eq(AnySeq(len(self.result)))
        return m


class Late(PimUnit):
    """Says of a load, too, that there is a result."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.sync += self.valid.eq(AnySeq(1))
        return m


def unit_claims(latency: int) -> dict[str, Claim]:
    """Of a MAC unit with that latency."""
    return {"reads": Claim(reads, reads_seen, (Leaky, Late), depth=latency + 2)}
