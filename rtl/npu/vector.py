# amaranth: UnusedElaboratable=no
"""The vector unit: addition, GELU, softmax and LayerNorm of vectors, one after the other."""

from enum import IntEnum

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from pimloom.rtl import bf16, float32
from pimloom.rtl.asic.layernorm import AFFINE, Layernorm
from pimloom.rtl.asic.pipeline import Pipeline, Wire, add, layout, to_bf16, widen
from pimloom.rtl.asic.softmax import Softmax
from pimloom.rtl.asic.unary import gelu
from pimloom.rtl.asic.vector import NARROW, carry, vector


class Op(IntEnum):
    """What is done with a vector."""

    ADD = 0
    GELU = 1
    SOFTMAX = 2
    NORM = 3


PAIR = {"x": bf16.WIDTH, "y": bf16.WIDTH, "last": 1}


def _add(x: Wire, y: Wire, last: Wire) -> dict[str, Wire]:
    return {"x": to_bf16(add(widen(x), widen(y))), "last": last}


def _gelu(x: Wire, last: Wire) -> dict[str, Wire]:
    return {"x": to_bf16(gelu(widen(x))), "last": last}


class VectorUnit(Component):
    """Vectors of 1 to `length` bfloat16 elements through one of four units, an element a clock and pass.

    i: x, with `op` ADD (0) also y; GELU (1), SOFTMAX (2) or NORM (3), the same for all elements up to `last`. affine,
    inverse_n: for NORM, see `asic/layernorm.py`. o: the results, vectors in the order in which they came. A vector for
    another unit than the one before waits until that one's last element has left. Passes: 1 of ADD and GELU, 3 of
    SOFTMAX and NORM; inside float32, rounded once at the exit.

    now: the unit in use; inside: vectors that began and are not out; open: one of them still comes in.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        affine = stream.Signature(layout(AFFINE))
        given = StructLayout({**PAIR, "op": 2})
        ports = {
            "i": In(stream.Signature(given)),
            "affine": In(affine),
            "inverse_n": In(stream.Signature(float32.WIDTH)),
        }
        super().__init__(ports | {"o": Out(vector(bf16.WIDTH))})
        self.norm = Layernorm(length)
        self.units: dict[Op, Pipeline | Softmax | Layernorm] = {
            Op.ADD: Pipeline(PAIR, NARROW, _add),
            Op.GELU: Pipeline(NARROW, NARROW, _gelu),
            Op.SOFTMAX: Softmax(length),
            Op.NORM: self.norm,
        }
        self.now = Signal(Op)
        self.inside = Signal(16)
        self.open = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        connect(m, flipped(self.affine), self.norm.affine)
        connect(m, flipped(self.inverse_n), self.norm.inverse_n)
        begins = self.i.valid & self.i.ready & ~self.open
        leaves = self.o.valid & self.o.ready & self.o.payload.last
        op = Signal(2)
        may = Signal()
        m.d.comb += [op.eq(self.i.payload.op), may.eq(self._may(op))]
        m.d.sync += self.inside.eq(self.inside + begins - leaves)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [self.open.eq(~self.i.payload.last), self.now.eq(self._goes_to(op))]
        for kind, unit in self.units.items():
            m.submodules[kind.name.lower()] = unit
            carry(m, unit.i, self.i, **({"y": self.i.payload.y} if kind is Op.ADD else {}))
            with m.If(self._goes_to(op) == kind):
                m.d.comb += [unit.i.valid.eq(self.i.valid & may), self.i.ready.eq(unit.i.ready & may)]
            with m.If(self.now == kind):
                m.d.comb += [self.o.valid.eq(unit.o.valid), unit.o.ready.eq(self.o.ready)]
                m.d.comb += self.o.payload.eq(unit.o.payload)
        return m

    def _may(self, op: Value) -> Value:
        """Whether an element may go in: of a vector half way; of another if none is inside, or all in the same unit."""
        return self.open | (self.inside == 0) | (op == self.now) & ~self.inside.all()

    def _goes_to(self, op: Value) -> Value:
        """The unit that takes the element."""
        return Mux(self.open, self.now, op)
