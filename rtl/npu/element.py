# amaranth: UnusedElaboratable=no
"""Processing elements: one bfloat16 product and one float32 sum a clock."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl import bf16, float32
from pimloom.rtl.npu.shape import RESULT, ArrayShape, activation, weight


class WeightElement(Component):
    """An element that holds a weight; activations go right, sums go down, both a register an element.

    above, below: weights on their way, through a second register, which keeps the one that has no more rows to fall.
    The first activation of a tile brings that weight into use, in its own clock. An element without a weight of the
    tile, or without an activation, hands down the sum from above as it is. A sum is that from above plus the product,
    each rounded once (`rtl/float32.py`).
    """

    def __init__(self, shape: ArrayShape) -> None:
        across, down = activation("ws"), weight(shape)
        ports = {"left": In(across), "right": Out(across), "above": In(down), "below": Out(down)}
        super().__init__(ports | {"sum": In(RESULT), "o": Out(RESULT)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        next_ = Signal.like(self.above)
        held = Signal(bf16.WIDTH)
        has_weight = Signal()
        used = Signal(bf16.WIDTH)
        active = Signal()
        first = self.left.valid & self.left.first
        falls = next_.valid & (next_.fall != 0)
        m.d.comb += used.eq(Mux(first, next_.x, held))
        m.d.comb += active.eq(self.left.valid & Mux(first, next_.valid, has_weight))
        m.d.comb += [self.below.x.eq(next_.x), self.below.fall.eq(next_.fall - 1), self.below.valid.eq(falls)]
        m.d.sync += [self.right.eq(self.left), next_.valid.eq(next_.valid & ~falls & ~first)]
        with m.If(self.above.valid):
            m.d.sync += next_.eq(self.above)
        with m.If(first):
            m.d.sync += [held.eq(next_.x), has_weight.eq(next_.valid)]
        total = multiply_add(m, self.left.x, used, self.sum.x)
        m.d.sync += [self.o.valid.eq(self.sum.valid | active), self.o.x.eq(Mux(active, total, self.sum.x))]
        return m


class OutputElement(Component):
    """An element that holds a sum; activations go right, weights go down, both a register an element.

    Where an activation and a weight meet, their product is added, to +0 if it is the first of its tile. With the last
    one the sum goes into a second register. go: what lies there, or comes there in this clock, goes down from the next
    clock on, an element a clock, through the registers of those below (`done` to `o`).
    """

    def __init__(self, shape: ArrayShape) -> None:
        across, down = activation("os"), weight(shape)
        ports = {"left": In(across), "right": Out(across), "above": In(down), "below": Out(down), "go": In(1)}
        super().__init__(ports | {"done": In(RESULT), "o": Out(RESULT)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = Signal(float32.WIDTH)
        empty = Signal(init=1)
        result = Signal(RESULT)
        moves = Signal()
        both = self.left.valid & self.above.valid
        ends = both & self.left.last
        sum_ = multiply_add(m, self.left.x, self.above.x, Mux(empty, 0, total))
        m.d.sync += [self.right.eq(self.left), self.below.eq(self.above)]
        with m.If(both):
            m.d.sync += [total.eq(sum_), empty.eq(self.left.last)]
        m.d.comb += [self.o.x.eq(result.x), self.o.valid.eq(result.valid & moves)]
        m.d.sync += result.valid.eq(ends | self.done.valid | result.valid & ~moves)
        m.d.sync += moves.eq(Mux(ends, self.go, self.done.valid | ~moves & self.go))
        with m.If(ends | self.done.valid):
            m.d.sync += result.x.eq(Mux(ends, sum_, self.done.x))
        return m


def multiply_add(m: Module, x: Value, w: Value, total: Value) -> Value:
    """total + x w, the bfloat16 product and the float32 sum each rounded once; combinational."""
    m.submodules.product = product = bf16.Mul()
    m.submodules.adder = adder = float32.Add()
    m.d.comb += [product.a.eq(x), product.b.eq(w), adder.a.eq(total), adder.b.eq(product.o)]
    return adder.o
