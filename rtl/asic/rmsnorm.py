# amaranth: UnusedElaboratable=no
"""RMSNorm of vectors: mean of squares, normalise."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl import bf16, float32
from pimloom.rtl.asic.pipeline import Pipeline, Wire, add, mul, to_bf16, widen
from pimloom.rtl.asic.sum import TreeSum
from pimloom.rtl.asic.unary import rsqrt
from pimloom.rtl.asic.vector import NARROW, WIDE, Buffer, carry, feed, join, vector


def _square(x: Wire, last: Wire) -> dict[str, Wire]:
    return {"x": mul(widen(x), widen(x)), "last": last}


def _normalise(x: Wire, last: Wire, inverse: Wire, gamma: Wire) -> dict[str, Wire]:
    return {"x": to_bf16(mul(mul(widen(x), inverse), widen(gamma))), "last": last}


class Rmsnorm(Component):
    """`rmsnorm_bf16` of vectors of 1 to `length` elements; infinities and NaN as there.

    i, o: bfloat16, `last` at the end of each vector. inverse_n: once for each vector the float32 nearest to 1 / n, from
    the host, for there is no divider. gamma: of every element, taken in the second pass.
    Two passes of one element a clock: the mean of the squares, while the vector comes in; then normalised it goes out.
    The next vector comes in when the last element is under way. Latency 2 n + 21 clocks, 11 adders, 8 multipliers.
    """

    def __init__(self, length: int, eps: float = 1e-6) -> None:
        self.length = length
        word = float32.WIDTH
        ports = {"gamma": In(stream.Signature(bf16.WIDTH)), "inverse_n": In(stream.Signature(word))}
        super().__init__({"i": In(vector(bf16.WIDTH))} | ports | {"o": Out(vector(bf16.WIDTH))})
        self.x, self.square, self.total = Buffer(bf16.WIDTH, length), Pipeline(NARROW, WIDE, _square), TreeSum()
        average = {"a": word, "b": word}
        self.deviation = Pipeline(average, word, lambda a, b: rsqrt(add(mul(a, b), eps)))
        self.normalise = Pipeline(NARROW | {"inverse": word, "gamma": bf16.WIDTH}, NARROW, _normalise)
        units: list[Pipeline | TreeSum] = [self.square, self.total, self.deviation, self.normalise]
        self.adders, self.multipliers = sum(unit.adders for unit in units), sum(unit.multipliers for unit in units)
        self._fill = sum(unit.latency for unit in units)

    def latency(self, n: int) -> int:
        """Clocks from taking the first of n elements to offering the last, when nobody waits."""
        return 2 * n + self._fill

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ["x", "square", "total", "deviation", "normalise"]:
            m.submodules[name] = getattr(self, name)
        feed(m, self.total.i, self.square.o)
        average = self.deviation.i
        join(m, average, self.total.o, self.inverse_n)
        m.d.comb += [average.payload.a.eq(self.total.o.payload), average.payload.b.eq(self.inverse_n.payload)]
        feed(m, self.o, self.normalise.o)
        with m.FSM():
            with m.State("take"):
                self._take(m)
                with m.If(self.i.valid & self.i.ready & self.i.payload.last):
                    m.next = "mean"
            with m.State("mean"):
                m.d.comb += self.x.replay.eq(self.deviation.o.valid)
                with m.If(self.deviation.o.valid):
                    m.next = "normalise"
            with m.State("normalise"):
                self._send(m)
                with m.If(self.deviation.o.ready):
                    m.next = "take"
        return m

    def _take(self, m: Module) -> None:
        """Into memory, which is ready, and into the squares."""
        feed(m, self.square.i, self.i)
        carry(m, self.x.i, self.i)
        m.d.comb += self.x.i.valid.eq(self.i.valid & self.i.ready)

    def _send(self, m: Module) -> None:
        """What comes again meets gamma; with the last element the deviation is given up."""
        sink = self.normalise.i
        carry(m, sink, self.x.o, inverse=self.deviation.o.payload, gamma=self.gamma.payload)
        join(m, sink, self.x.o, self.gamma)
        m.d.comb += self.deviation.o.ready.eq(sink.valid & sink.ready & sink.payload.last)
