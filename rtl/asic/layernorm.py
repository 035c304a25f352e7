# amaranth: UnusedElaboratable=no
"""LayerNorm of vectors: mean, variance of the centred values, normalise."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl import bf16, float32
from pimloom.rtl.asic.pipeline import Pipeline, Wire, add, layout, mul, to_bf16, widen
from pimloom.rtl.asic.sum import TreeSum
from pimloom.rtl.asic.unary import rsqrt
from pimloom.rtl.asic.vector import NARROW, WIDE, Buffer, carry, feed, join, vector

AFFINE = {"gamma": bf16.WIDTH, "beta": bf16.WIDTH}


def _centre(x: Wire, last: Wire, mean: Wire) -> dict[str, Wire]:
    return {"x": add(widen(x), -mean), "last": last}


def _square(x: Wire, last: Wire) -> dict[str, Wire]:
    return {"x": mul(x, x), "last": last}


def _normalise(x: Wire, last: Wire, inverse: Wire, gamma: Wire, beta: Wire) -> dict[str, Wire]:
    return {"x": to_bf16(add(mul(mul(x, inverse), widen(gamma)), widen(beta))), "last": last}


class Layernorm(Component):
    """`layernorm_bf16` of vectors of 1 to `length` elements; infinities and NaN as there.

    i, o: bfloat16, `last` at the end of each vector. inverse_n: once for each vector the float32 nearest to 1 / n, from
    the host, for there is no divider. affine: gamma and beta of every element, taken in the third pass.
    Three passes of one element a clock: the mean, while the vector comes in; the variance of the centred values; then
    normalised they go out. One adder centres and one tree sums in both passes that need it. The next vector comes in
    when the last element is under way. Latency 3 n + 35 clocks, 13 adders, 8 multipliers.
    """

    def __init__(self, length: int, eps: float = 1e-5) -> None:
        self.length = length
        word, affine = float32.WIDTH, stream.Signature(layout(AFFINE))
        ports = {"i": In(vector(bf16.WIDTH)), "affine": In(affine), "inverse_n": In(stream.Signature(word))}
        super().__init__(ports | {"o": Out(vector(bf16.WIDTH))})
        self.x, self.total = Buffer(bf16.WIDTH, length), TreeSum()
        self.centre, self.square = Pipeline(NARROW | {"mean": word}, WIDE, _centre), Pipeline(WIDE, WIDE, _square)
        self.average = Pipeline({"a": word, "b": word}, word, mul)
        self.deviation = Pipeline(word, word, lambda variance: rsqrt(add(variance, eps)))
        self.normalise = Pipeline(WIDE | {"inverse": word} | AFFINE, NARROW, _normalise)
        first: list[Pipeline | TreeSum] = [self.total, self.average]
        second = [self.square, self.deviation]
        units: list[Pipeline | TreeSum] = [*first, *second, self.centre, self.normalise]
        self.adders, self.multipliers = sum(unit.adders for unit in units), sum(unit.multipliers for unit in units)
        self._fill = sum(unit.latency for unit in [*units, *first, self.centre]) + 1

    def latency(self, n: int) -> int:
        """Clocks from taking the first of n elements to offering the last, when nobody waits."""
        return 3 * n + self._fill

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ["x", "total", "centre", "square", "average", "deviation", "normalise"]:
            m.submodules[name] = getattr(self, name)
        mean = Signal(float32.WIDTH)
        feed(m, self.centre.i, self.x.o, mean=mean)
        self._average(m)
        feed(m, self.o, self.normalise.o)
        self._passes(m, mean)
        return m

    def _passes(self, m: Module, mean: Signal) -> None:
        with m.FSM():
            with m.State("take"):
                self._take(m)
                with m.If(self.i.valid & self.i.payload.last):
                    m.next = "mean"
            with m.State("mean"):
                m.d.comb += [self.average.o.ready.eq(1), self.x.replay.eq(self.average.o.valid)]
                m.d.comb += self.inverse_n.ready.eq(0)  # the variance needs it again
                with m.If(self.average.o.valid):
                    m.d.sync += mean.eq(self.average.o.payload)
                    m.next = "variance"
            with m.State("variance"):
                feed(m, self.square.i, self.centre.o)
                feed(m, self.total.i, self.square.o)
                join(m, self.deviation.i, self.average.o)
                m.d.comb += self.x.replay.eq(self.deviation.o.valid)
                with m.If(self.deviation.o.valid):
                    m.next = "normalise"
            with m.State("normalise"):
                self._send(m)
                with m.If(self.deviation.o.ready):
                    m.next = "take"

    def _take(self, m: Module) -> None:
        """Into memory and sum, which are ready."""
        feed(m, self.x.i, self.i)
        carry(m, self.total.i, self.i, x=bf16.widen(self.i.payload.x))
        m.d.comb += self.total.i.valid.eq(self.i.valid)

    def _average(self, m: Module) -> None:
        """Sums times 1 / n, of both passes."""
        average = self.average.i
        join(m, average, self.total.o, self.inverse_n)
        m.d.comb += [average.payload.a.eq(self.total.o.payload), average.payload.b.eq(self.inverse_n.payload)]
        m.d.comb += self.deviation.i.payload.eq(self.average.o.payload)

    def _send(self, m: Module) -> None:
        """What is centred meets gamma and beta; with the last element the deviation is given up."""
        sink, gains = self.normalise.i, {name: self.affine.payload[name] for name in AFFINE}
        carry(m, sink, self.centre.o, inverse=self.deviation.o.payload, **gains)
        join(m, sink, self.centre.o, self.affine)
        m.d.comb += self.deviation.o.ready.eq(sink.valid & sink.ready & sink.payload.last)
