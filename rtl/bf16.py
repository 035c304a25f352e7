"""bfloat16 in gates: where float32 is entered and left, and where products are made (`cycle_sim/pim_math.py`)."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl import float32
from pimloom.rtl.float32 import held, is_nan, is_zero, product

FRACTION = 7
WIDTH = 1 + float32.EXPONENT + FRACTION
DROPPED = float32.WIDTH - WIDTH
NAN = float32.NAN >> DROPPED


def widen(x: Value) -> Value:
    """A bfloat16 as float32: exact, but a subnormal is zero and any NaN the one NaN."""
    return float32.settle(Cat(Const(0, DROPPED), x))


def rounded(x: Value) -> Value:
    """float32 to bfloat16 as `asic_math.to_bf16`: flushed, then rounded to nearest even, every NaN the one NaN."""
    tail, kept = x[:DROPPED], x[DROPPED:]
    magnitude = (kept[:-1] + (tail[-1] & (kept[0] | tail[:-1].any())))[: WIDTH - 1]
    return Mux(is_nan(x), NAN, Cat(Mux(is_zero(x), 0, magnitude), kept[-1]))


class Round(Component):
    """o = a, float32, rounded to bfloat16: see `rounded`. Latency 0."""

    def __init__(self) -> None:
        super().__init__({"a": In(float32.WIDTH), "o": Out(WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(rounded(self.a))
        return m


class Mul(Component):
    """o = a * b, bfloat16 to float32: `asic_math.mul` of the widened; exact, or flushed, or beyond float32 infinite.

    Latency 0; 1 clock if `registered`, the register lying between the product and its normalisation.
    """

    def __init__(self, registered: bool = False) -> None:
        self.registered, self.latency = registered, int(registered)
        super().__init__({"a": In(WIDTH), "b": In(WIDTH), "o": Out(float32.WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(product(m, self.a, self.b, bool(self.latency)))
        return m


class Tree(Component):
    """o = the sum of x, float32[width] (a power of two), as `asic_math.pairwise`: at each level 2i and 2i + 1 meet.

    Latency: `clocks` (0, 1 or 2) for each of log2(width) levels; 1 is a register behind each adder, 2 one more inside.
    One sum a clock.
    """

    def __init__(self, width: int, clocks: int = 1) -> None:
        self.width, self.clocks = width, clocks
        self.latency = clocks * (width.bit_length() - 1)
        super().__init__({"x": In(ArrayLayout(float32.WIDTH, width)), "o": Out(float32.WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        level = [self.x[i] for i in range(self.width)]
        while len(level) > 1:
            pairs = enumerate(zip(level[0::2], level[1::2], strict=True), start=len(level) // 2)
            level = [self._add(m, f"adder{node}", a, b) for node, (a, b) in pairs]
        m.d.comb += self.o.eq(level[0])
        return m

    def _add(self, m: Module, name: str, a: Value, b: Value) -> Value:
        m.submodules[name] = adder = float32.Add(registered=self.clocks == 2)
        m.d.comb += [adder.a.eq(a), adder.b.eq(b)]
        (o,) = held(m, self.clocks > 0, adder.o)
        return o
