# amaranth: UnusedElaboratable=no
"""What is proved of every block with streams: offers stand; a pipeline neither loses nor makes elements.

Numbers steer nothing but themselves there, so adders and multipliers give any numbers (`freed`): what holds for any
holds for theirs.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from amaranth.asserts import AnySeq
from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, Flow

from pimloom.rtl import bf16, float32
from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.question import Claim

DEAF, GREEDY = "deaf", "greedy"  # twins: takes every offer of its own as taken; takes an element and forgets it


@contextmanager
def freed() -> Iterator[None]:
    """Adders and multipliers that are made inside give any numbers."""

    def elaborate(unit: Any, platform: object) -> Module:
        m = Module()
        m.d.comb += unit.o.eq(AnySeq(float32.WIDTH))
        return m

    with ExitStack() as stack:
        for kind in (float32.Add, float32.Mul, bf16.Mul):
            stack.enter_context(patch.object(kind, "elaborate", elaborate))
        yield


@contextmanager
def standing_in(function: Callable[[Value, Value], Value]) -> Iterator[None]:
    """Adders that are made inside are that function, a clock later if they are registered."""

    def elaborate(unit: Any, platform: object) -> Module:
        m, value = Module(), function(unit.a, unit.b)
        (held,) = float32.held(m, bool(unit.latency), value)
        m.d.comb += unit.o.eq(held)
        return m

    with patch.object(float32.Add, "elaborate", elaborate):
        yield


class Flows:
    """A block between free streams. taken, given: whether an element of `i`, of `o` goes over in this clock; offer:
    what stands at `o`; stood, before: whether one stood in the clock before and was not taken, and which."""

    def __init__(self, m: Module, block: Component, twin: str | None) -> None:
        self.m, self.block, self.o = m, block, block.o
        m.submodules.block = block
        self.forgets = wire(m, AnySeq(1) if twin == GREEDY else Const(0, 1), "forgets")
        for name, member in block.signature.members.items():
            if member.flow is Flow.In:
                self._feed(name, getattr(block, name))
        self.ready = wire(m, AnySeq(1), "outside_ready")
        m.d.comb += self.o.ready.eq(Const(1, 1) if twin == DEAF else self.ready)
        self.taken = wire(m, self.offered & block.i.ready, "i_taken")
        self.given = wire(m, self.o.valid & self.ready, "o_given")
        self.offer = wire(m, Value.cast(self.o.payload), "offer")
        self.stood, self.before = Signal(), Signal.like(self.offer)
        m.d.sync += [self.stood.eq(self.o.valid & ~self.ready), self.before.eq(self.offer)]

    def _feed(self, name: str, stream: Any) -> None:
        """A source, whose offers stand."""
        m, payload = self.m, stream.payload
        value = Value.cast(payload)
        offers, held, was = wire(self.m, AnySeq(1), f"{name}_offers"), Signal(name=f"{name}_held"), Signal.like(value)
        valid = wire(m, offers | held, f"{name}_offered")
        m.d.comb += value.eq(Mux(held, was, AnySeq(len(value))))
        m.d.comb += stream.valid.eq(valid & ~self.forgets if name == "i" else valid)
        m.d.sync += [held.eq(valid & ~stream.ready), was.eq(value)]
        if name == "i":
            self.offered = valid


class Pipe(Flows):
    """A pipeline. flight: a bit for each of its stages, the last one offered."""

    def __init__(self, m: Module, block: Component, twin: str | None) -> None:
        super().__init__(m, block, twin)
        self.flight = Signal(block.latency)
        with m.If(self.ready | ~self.flight[-1]):
            m.d.sync += self.flight.eq(self.flight << 1 | self.offered)


def offers(s: Flows) -> Iterator[Value]:
    """An offer stands as it is until it is taken."""
    yield ~s.stood | s.o.valid & (s.offer == s.before)


def offers_seen(s: Flows) -> Iterator[Value]:
    """An offer that stood, and is taken."""
    yield s.stood & s.given


def flights(s: Pipe) -> Iterator[Value]:
    """Each element comes out, once, `latency` clocks after it came in, clocks in which an offer waits not counted; and
    one is taken in each of the others."""
    yield s.o.valid == s.flight[-1]
    yield s.block.i.ready == (s.ready | ~s.flight[-1])


def flights_lemma(s: Pipe) -> Iterator[Value]:
    """The checker and the block agree on which stages are filled."""
    yield s.flight == s.block.filled


def flights_seen(s: Pipe) -> Iterator[Value]:
    """Full, and at rest; taken after a stop."""
    yield s.flight.all() & ~s.ready
    yield s.stood & s.given & s.taken


def make(kind: Callable[..., Flows], block: Callable[[], Component], m: Module, twin: str | None, bits: int) -> Flows:
    """The block, or a twin, between free streams."""
    return kind(m, block(), twin)


OFFERS = Claim(offers, offers_seen, (DEAF,))
PIPE_CLAIMS = {"offers": OFFERS, "flights": Claim(flights, flights_seen, (DEAF, GREEDY), flights_lemma)}
VECTOR_CLAIMS = {"offers": OFFERS}
