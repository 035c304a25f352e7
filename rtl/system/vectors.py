# amaranth: UnusedElaboratable=no
"""Vectors from the scratchpad through a vector unit to the scratchpad."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl import bf16
from pimloom.rtl.npu.vector import Op, VectorUnit
from pimloom.rtl.system.plan import MOVE, Sizes
from pimloom.rtl.system.scratchpad import Look, Store


class Vectors(wiring.Component):
    """begin: a step's `vector` fields hold in this clock; only while `idle`.

    x: from the next clock on an element a clock. y: of ADD the other addends, one behind the other; of NORM a pair of
    elements that holds 1 / count as float32, low half first, and for each element gamma and beta. MOVE: x as it is.
    o: stored in the clock in which the unit gives it. idle: the last one is stored.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.unit = sizes, VectorUnit(sizes.longest)
        asked = {name: In(shape) for name, shape in sizes.vector().items()}
        looks = {"look_x": Out(Look(sizes)), "look_y": Out(Look(sizes)), "store": Out(Store(sizes))}
        super().__init__({"begin": In(1), "idle": Out(1), **asked, **looks})
        self.its_op = Signal(3)
        self.x_by, self.o_by = Signal.like(self.x_step, name="x_by"), Signal.like(self.o_step, name="o_by")
        self.at_x, self.at_y, self.at_o = (Signal.like(self.x, name=f"at_{name}") for name in "xyo")
        self.left, self.out = (Signal.like(self.count, name=name) for name in ("left", "out"))
        self.inverse = Signal(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unit = unit = self.unit
        moves, bits = Signal(name="moves"), self.sizes.lane_bits
        m.d.comb += [moves.eq(self.its_op == MOVE), self.idle.eq(self.out == 0)]
        at_y = Signal.like(self.at_y, name="at_y_now")
        m.d.comb += [at_y.eq(Mux(self.begin, self.y, self.at_y)), self.look_y.at.eq(at_y >> bits)]
        m.d.comb += self.look_x.at.eq(self.at_x >> bits)
        x, y = self._element(self.look_x.word, self.at_x), self._element(self.look_y.word, self.at_y)
        i = unit.i
        m.d.comb += [i.valid.eq((self.left != 0) & ~moves), i.payload.x.eq(x), i.payload.y.eq(y)]
        m.d.comb += [i.payload.op.eq(self.its_op), i.payload.last.eq(self.left == 1)]
        pair = self.look_y.word.word_select(at_y[1:bits], 2 * bf16.WIDTH)
        norm = self.its_op == Op.NORM
        m.d.comb += [unit.affine.valid.eq(norm), Cat(unit.affine.payload.gamma, unit.affine.payload.beta).eq(pair)]
        m.d.comb += [unit.inverse_n.valid.eq(norm), unit.inverse_n.payload.eq(self.inverse), unit.o.ready.eq(1)]
        goes = Signal()
        m.d.comb += goes.eq((self.left != 0) & (moves | i.ready))
        with m.If(goes):
            m.d.sync += [self.left.eq(self.left - 1), self.at_x.eq(self.at_x + self.x_by)]
        with m.If(norm & unit.affine.ready):
            m.d.sync += self.at_y.eq(self.at_y + 2)
        with m.Elif(goes & (self.its_op == Op.ADD)):
            m.d.sync += self.at_y.eq(self.at_y + 1)
        self._store(m, Mux(moves, goes, unit.o.valid), Mux(moves, x, unit.o.payload.x))
        self._begin(m, pair)
        return m

    def _element(self, word: Value, at: Value) -> Value:
        return word.word_select(at[: self.sizes.lane_bits], bf16.WIDTH)

    def _store(self, m: Module, given: Value, element: Value) -> None:
        store, bits = self.store, self.sizes.lane_bits
        m.d.comb += [store.at.eq(self.at_o >> bits), store.word.eq(element.replicate(self.sizes.lanes))]
        m.d.comb += store.lanes.eq(given << self.at_o[:bits])
        with m.If(given):
            m.d.sync += [self.out.eq(self.out - 1), self.at_o.eq(self.at_o + self.o_by)]

    def _begin(self, m: Module, pair: Value) -> None:
        with m.If(self.begin):
            m.d.sync += [self.its_op.eq(self.op), self.left.eq(self.count), self.out.eq(self.count)]
            m.d.sync += [self.at_x.eq(self.x), self.at_o.eq(self.o), self.inverse.eq(pair)]
            m.d.sync += self.at_y.eq(Mux(self.op == Op.NORM, self.y + 2, self.y))
            m.d.sync += [self.x_by.eq(self.x_step), self.o_by.eq(self.o_step)]
