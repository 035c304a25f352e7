"""Streams of vectors, and a memory that sends a vector again."""

from functools import reduce
from operator import and_
from typing import Any, TypeAlias

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl import bf16, float32
from pimloom.rtl.asic.pipeline import Shape, layout

Stream: TypeAlias = Any  # of Amaranth: an interface
NARROW, WIDE = {"x": bf16.WIDTH, "last": 1}, {"x": float32.WIDTH, "last": 1}  # payloads of vectors


def vector(x: Shape) -> stream.Signature:
    """A stream of elements `x`; with `last`, a vector ends."""
    return stream.Signature(layout({"x": x, "last": 1}))


def join(m: Module, sink: Stream, *sources: Stream) -> None:
    """The sink takes one of each source at once; payloads are not connected."""
    m.d.comb += sink.valid.eq(reduce(and_, (source.valid for source in sources)))
    for source in sources:
        others = (other.valid for other in sources if other is not source)
        m.d.comb += source.ready.eq(reduce(and_, others, sink.ready))


def carry(m: Module, sink: Stream, source: Stream, **others: Value) -> None:
    """Payloads of two streams of vectors; the sink's may have `others` besides, or instead."""
    fields = {"x": source.payload.x, "last": source.payload.last} | others
    m.d.comb += [sink.payload[name].eq(value) for name, value in fields.items()]


def feed(m: Module, sink: Stream, source: Stream, **others: Value) -> None:
    """Connect two streams: `join` their handshakes and `carry` the payload, `others` beside it."""
    join(m, sink, source)
    carry(m, sink, source, **others)


class Buffer(Component):
    """Takes a vector of at most `length` elements, `width` bits each, one a clock; `i` is always ready.

    replay: sends the vector to `o`, its first element 2 clocks later. It may be high as early as in the clock that
    takes `last`, but not before an earlier replay has offered its last element.
    """

    def __init__(self, width: int, length: int) -> None:
        self.width, self.length = width, length
        super().__init__({"i": In(vector(width)), "o": Out(vector(width)), "replay": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.width, depth=self.length, init=[])
        write, read = memory.write_port(), memory.read_port()
        end, reading, move, done = (
            Signal.like(write.addr, name="end"),
            Signal(name="reading"),
            Signal(name="move"),
            Signal(name="done"),
        )
        m.d.comb += [self.i.ready.eq(1), write.en.eq(self.i.valid), write.data.eq(self.i.payload.x)]
        with m.If(self.i.valid):
            m.d.sync += [write.addr.eq(Mux(self.i.payload.last, 0, write.addr + 1)), end.eq(write.addr)]
        m.d.comb += [move.eq(self.o.ready | ~self.o.valid), done.eq(read.addr == end)]
        m.d.comb += [read.en.eq(move), self.o.payload.x.eq(read.data)]
        with m.If(move):
            m.d.sync += [self.o.valid.eq(reading), self.o.payload.last.eq(done)]
        with m.If(move & reading):
            m.d.sync += [read.addr.eq(Mux(done, 0, read.addr + 1)), reading.eq(~done)]
        with m.If(self.replay):
            m.d.sync += reading.eq(1)
        return m
