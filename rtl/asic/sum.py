# amaranth: UnusedElaboratable=no
"""Sums of a stream, in exactly the order of `tree_sum` and `accumulate_partials` in `cycle_sim/asic_math.py`."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from pimloom.arch.asic import ADDERS
from pimloom.rtl import bf16
from pimloom.rtl.asic.pipeline import Pipeline, Shape, Wire, add, combine, to_bf16
from pimloom.rtl.asic.vector import feed, vector
from pimloom.rtl.float32 import WIDTH, Add


class Pair(Component):
    """x0 + x1, x2 + x3, …, an odd last one + (+0); 1 clock after the later of the two. 1 adder."""

    def __init__(self) -> None:
        super().__init__({"i": In(vector(WIDTH)), "o": Out(vector(WIDTH))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.add = adder = Add()
        x, last = self.i.payload.x, self.i.payload.last
        first, second = Signal(WIDTH, reset_less=True, name="first"), Signal(name="second")
        m.d.comb += [adder.a.eq(Mux(second, first, x)), adder.b.eq(Mux(second, x, 0))]
        m.d.comb += self.i.ready.eq(self.o.ready | ~self.o.valid)
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid & (second | last))
        with m.If(self.i.ready & self.i.valid):
            m.d.sync += [first.eq(x), second.eq(~second & ~last)]
            m.d.sync += [self.o.payload.x.eq(adder.o), self.o.payload.last.eq(last)]
        return m


class InOrder(Component):
    """+0 + x0 + x1 + …, float32, from the left; 1 clock after `last`. 1 adder, which adds once a clock."""

    def __init__(self) -> None:
        super().__init__({"i": In(vector(WIDTH)), "o": Out(stream.Signature(WIDTH))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.add = adder = Add()
        empty, last = Signal(init=1, name="empty"), self.i.payload.last
        m.d.comb += [adder.a.eq(Mux(empty, 0, self.o.payload)), adder.b.eq(self.i.payload.x)]
        m.d.comb += self.i.ready.eq(self.o.ready | ~self.o.valid)
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid & last)
        with m.If(self.i.ready & self.i.valid):
            m.d.sync += [empty.eq(last), self.o.payload.eq(adder.o)]
        return m


class TreeSum(Component):
    """`tree_sum` of float32 vectors of any length but 0, `lanes` elements a clock (a power of two, at most `width`).

    x: the next element, or an array of the next `lanes`; what the last one leaves free must be +0. The sum is offered
    log2(width) + 1 clocks after `last` is taken (`latency`), and the next vector may follow at once. Above the lanes'
    tree each level has an adder of its own, which works in every second clock, every fourth, and so on.
    """

    def __init__(self, lanes: int = 1, width: int = ADDERS) -> None:
        if lanes > width or not all(n > 0 and n & n - 1 == 0 for n in (lanes, width)):
            raise ValueError(f"lanes and width are powers of two, lanes at most width; not {lanes} and {width}")
        levels, in_lanes = width.bit_length() - 1, lanes.bit_length() - 1
        self.width = width
        self.lanes, self.pairs = lanes, levels - in_lanes
        self.latency, self.adders, self.multipliers = levels + 1, lanes + self.pairs, 0
        super().__init__({"i": In(vector(self._shape)), "o": Out(stream.Signature(WIDTH))})

    @property
    def _shape(self) -> Shape:
        return WIDTH if self.lanes == 1 else ArrayLayout(WIDTH, self.lanes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        chain: dict[str, Component] = {}
        if self.lanes > 1:
            chain["tree"] = Pipeline({"x": self._shape, "last": 1}, {"x": WIDTH, "last": 1}, self._tree)
        chain |= {f"pair{level}": Pair() for level in range(self.pairs)}
        chain["accumulator"] = accumulator = InOrder()
        for name, unit in chain.items():
            m.submodules[name] = unit
        connect(m, flipped(self.i), next(iter(chain.values())).i)
        for earlier, later in pairwise(chain.values()):
            connect(m, earlier.o, later.i)
        connect(m, accumulator.o, flipped(self.o))
        return m

    def _tree(self, x: Wire, last: Wire) -> dict[str, Wire]:
        level = [_lane(x, lane) for lane in range(self.lanes)]
        while len(level) > 1:
            level = [add(a, b) for a, b in zip(level[0::2], level[1::2], strict=True)]
        return {"x": level[0], "last": last}


def _lane(x: Wire, lane: int) -> Wire:
    return combine(lambda lanes: lanes[lane], x)


class AccumulatePartials(Component):
    """`accumulate_partials_bf16`, one result after the other: its partials in order, then its bias as `last`.

    bfloat16 in and out; a term a clock, the result 2 clocks after the bias. 1 adder, no multiplier. For several results
    at once, as chunks of a product bring them, take as many of these.
    """

    latency, adders, multipliers = 2, 1, 0

    def __init__(self) -> None:
        super().__init__({"i": In(vector(bf16.WIDTH)), "o": Out(stream.Signature(bf16.WIDTH))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sum = total = InOrder()
        m.submodules.round = rounding = Pipeline(WIDTH, bf16.WIDTH, to_bf16)
        feed(m, total.i, self.i, x=bf16.widen(self.i.payload.x))
        connect(m, total.o, rounding.i)
        connect(m, rounding.o, flipped(self.o))
        return m
