# amaranth: UnusedElaboratable=no
"""What is proved of the vector unit: which of its four units takes and gives, whatever they do as long as each gives as
many vectors as it takes, none before its first element came, and lets an offer stand.

That of each unit by itself is proved (`streams.py`) or, of softmax and LayerNorm, simulated.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component

from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.question import Claim
from pimloom.rtl.formal.streams import DEAF, Flows, offers, offers_seen
from pimloom.rtl.npu.vector import Op, VectorUnit

WIDTH = 16  # bits of the unit's count of vectors


class AnyUnit(Component):
    """Any unit with the ports of another one. whole: vectors of which the last element came in, and that are not out;
    open: another one has begun; began: whether there is anything."""

    def __init__(self, other: Component) -> None:
        super().__init__(other.signature)
        self.whole, self.open = Signal(WIDTH + 1), Signal()
        self.takes, self.gives = Signal(), Signal()
        self.stands, self.offer = Signal(), Signal.like(Value.cast(self.o.payload))  # not taken in the clock before

    @property
    def began(self) -> Value:
        """Whether a vector is in it, all of it or not."""
        return self.open | (self.whole != 0)

    @property
    def last(self) -> Value:
        """Whether what stands ends a vector."""
        return self.o.payload.shape()(self.offer).last

    def elaborate(self, platform: object) -> Module:
        m, i, o = Module(), self.i, self.o
        stands, offer = self.stands, self.offer
        for name, member in self.signature.members.items():
            if name != "o" and member.is_signature:
                m.d.comb += getattr(self, name).ready.eq(AnySeq(1))
        payload, first = Value.cast(o.payload), wire(m, AnySeq(len(offer)), "any_element")
        m.d.comb += [o.valid.eq(stands | AnySeq(1) & self.began), payload.eq(Mux(stands, offer, first))]
        with m.If(~stands & (self.whole == 0)):
            m.d.comb += o.payload.last.eq(0)
        m.d.comb += [self.takes.eq(i.valid & i.ready), self.gives.eq(o.valid & o.ready)]
        m.d.sync += [stands.eq(o.valid & ~o.ready), offer.eq(payload)]
        m.d.sync += self.whole.eq(self.whole + (self.takes & i.payload.last) - (self.gives & o.payload.last))
        with m.If(self.takes):
            m.d.sync += self.open.eq(~i.payload.last)
        return m


class Hasty(VectorUnit):
    """Does not wait for the unit before."""

    def _may(self, op: Value) -> Value:
        return Const(1)


class Alternating(VectorUnit):
    """Sends each element where its own operation says."""

    def _goes_to(self, op: Value) -> Value:
        return op


class Turns(Flows):
    """A vector unit between free streams. units: by operation; op: that of the vector which comes in; inside: vectors
    that began and are not out, in the order in which they began."""

    def __init__(self, m: Module, twin: Any, bits: int) -> None:
        kind = twin if isinstance(twin, type) else VectorUnit
        unit = kind(1)
        unit.units = self.units = {op: AnyUnit(made) for op, made in unit.units.items()}
        unit.norm = self.units[Op.NORM]
        super().__init__(m, unit, twin if isinstance(twin, str) else None)
        i, last = unit.i, unit.i.payload.last
        self.middle, self.was = Signal(), Signal(2)
        self.op = wire(m, Mux(self.middle, self.was, i.payload.op), "op_of_vector")
        with m.If(self.taken):
            m.d.sync += [self.middle.eq(~last), self.was.eq(self.op)]
        self.inside = Signal(WIDTH + 1)
        begins, ends = self.taken & ~self.middle, self.given & self.o.payload.last
        m.d.sync += self.inside.eq(self.inside + begins - ends)


def turns(s: Turns) -> Iterator[Value]:
    """An element goes to the unit of its vector's operation, named by the first element, and to no other; only where
    all others are empty; what is given comes from the one that is not; as many vectors are given as were taken, and
    their count does not run over."""
    for op, unit in s.units.items():
        others = any_of(other.began for kind, other in s.units.items() if kind != op)
        yield unit.takes == (s.taken & (s.op == op))
        yield ~(unit.takes & others)
        yield ~(unit.gives & others)
    yield any_of(unit.gives for unit in s.units.values()) == s.given
    yield s.inside == sum((unit.whole + unit.open for unit in s.units.values()), Const(0, 1))
    yield s.inside < 1 << WIDTH


def lemma(s: Turns) -> Iterator[Value]:
    """The count is the checker's; all units but the one in use are empty; only that one has a vector half way."""
    unit = s.block
    yield unit.inside == s.inside
    yield (unit.open == s.middle) & (~s.middle | (unit.now == s.was))
    for op, each in s.units.items():
        used = unit.now == op
        yield used | ~each.began
        yield ~each.stands | each.began & (~each.last | (each.whole != 0))
        yield ~used | (each.open == s.middle) & (each.whole + each.open == s.inside)
    yield s.inside < 1 << WIDTH


def turns_seen(s: Turns) -> Iterator[Value]:
    """Each unit takes behind another one; a vector begins in the one that still has one."""
    yield from (unit.takes & ~s.middle & (s.block.now != op) for op, unit in s.units.items())
    yield s.taken & ~s.middle & (s.inside != 0)


CLAIMS = {
    "offers": Claim(offers, offers_seen, (DEAF,), lemma),
    "turns": Claim(turns, turns_seen, (Hasty, Alternating), lemma),
}
