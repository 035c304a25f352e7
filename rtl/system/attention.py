# amaranth: UnusedElaboratable=no
"""Attention of the requests whose keys and values lie in one channel, step by step of a program."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import bits_for

from pimloom.rtl import bf16
from pimloom.rtl.system.columns import Writer
from pimloom.rtl.system.dots import Dots
from pimloom.rtl.system.plan import ChannelKind, Image, Sizes
from pimloom.rtl.system.scratchpad import Look, Store
from pimloom.rtl.system.vectors import Vectors
from pimloom.rtl.system.walker import Walker

LOOKS, STORES = 3, 2  # of words to write, x and y; of vectors and results


class Attention(wiring.Component):
    """Runs the jobs of one channel: keys, values and vectors to its banks, PIM commands, vectors.

    start: the program at entry[layer + 2**LB * sub_batch], for LB bits of a layer, begins in the next clock. done: high
    in the job's last clock. A step begins when its unit is free, and the next one may in the next clock.

    writes, dots: to the channel. issued: a WR of `column` issues in this clock; word: what it writes, in the next.
    copied, multiplied, results: what the channel answers in this clock.
    """

    def __init__(self, sizes: Sizes, image: Image, channel: int) -> None:
        self.sizes = sizes
        self.writer, self.dots_, self.vectors = Writer(sizes), Dots(sizes), Vectors(sizes)
        layers, sub_batches = range(sizes.layers), range(sizes.sub_batches)
        self.layer_bits = bits_for(sizes.layers - 1)
        jobs = 1 << self.layer_bits + bits_for(sizes.sub_batches - 1)
        own = image.of("program", channel), image.of("entry", channel)
        self.walker = Walker(sizes.channel_step(), sizes.steps, jobs, *own)
        ports = {"start": In(1), "layer": In(layers), "sub_batch": In(sub_batches), "done": Out(1)}
        ports |= {"writes": Out(self.writer.ask.signature), "dots": Out(stream.Signature(sizes.plan.dot()))}
        ports |= {"issued": In(1), "column": In(sizes.plan.command()), "word": Out(sizes.word)}
        ports |= {"copied": In(1), "multiplied": In(1), "results": In(data.ArrayLayout(bf16.WIDTH, sizes.lanes))}
        super().__init__(ports | {"look": Out(Look(sizes)).array(LOOKS), "store": Out(Store(sizes)).array(STORES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walker, writer, dots, vectors = self.walker, self.writer, self.dots_, self.vectors
        m.submodules.walker, m.submodules.vectors = walker, vectors
        m.submodules.writer, m.submodules.dots_ = writer, dots
        layer = Signal(self.layer_bits)
        m.d.comb += [layer.eq(self.layer), walker.job.eq(Cat(layer, self.sub_batch)), walker.start.eq(self.start)]
        m.d.comb += self.done.eq(walker.done)
        self._steps(m)
        connect(m, writer.ask, flipped(self.writes))
        connect(m, dots.o, flipped(self.dots))
        m.d.comb += [writer.issued.eq(self.issued), writer.column.eq(self.column), self.word.eq(writer.word)]
        m.d.comb += [dots.copied.eq(self.copied), dots.multiplied.eq(self.multiplied), dots.results.eq(self.results)]
        for port, look in zip(self.look, (writer.look, vectors.look_x, vectors.look_y), strict=True):
            connect(m, look, flipped(port))
        for port, store in zip(self.store, (vectors.store, dots.store), strict=True):
            connect(m, store, flipped(port))
        return m

    def _steps(self, m: Module) -> None:
        """A step to its unit."""
        walker, writer, dots, vectors = self.walker, self.writer, self.dots_, self.vectors
        step, bits = walker.step, self.sizes.lane_bits
        units: list[tuple[Any, ChannelKind, Value]] = [
            (writer, ChannelKind.WRITE, writer.idle),
            (dots, ChannelKind.DOT, dots.ready),
            (vectors, ChannelKind.VECTOR, vectors.idle),
        ]
        m.d.comb += walker.go.eq(Cat(free & (step.kind == kind) for _, kind, free in units).any())
        m.d.comb += walker.quiet.eq(writer.idle & dots.idle & vectors.idle)
        m.d.comb += [unit.begin.eq(walker.valid & free & (step.kind == kind)) for unit, kind, free in units]
        m.d.comb += [writer.bank.eq(step.bank), writer.place.eq(step.place), writer.count.eq(step.count)]
        m.d.comb += [writer.at.eq(step.x >> bits), dots.dot.eq(step.dot), dots.at.eq(step.o >> bits)]
        m.d.comb += [getattr(vectors, name).eq(step[name]) for name in self.sizes.vector()]
