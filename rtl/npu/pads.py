# amaranth: UnusedElaboratable=no
"""The pads of a systolic array: operands in two halves, results in two halves."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout, View
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import bits_for

from pimloom.rtl import bf16, float32
from pimloom.rtl.npu.shape import RESULT, ArrayShape, activation, weight
from pimloom.rtl.npu.tiles import DEPTH, HALVES, entering


def lanes(first: View, count: int, name: str) -> list[View]:
    """What each lane is told: the first lane this, each other what the lane before was told a clock ago."""
    return [first, *(Signal(first.shape(), name=f"{name}_{lane}") for lane in range(1, count))]


class OperandPads(Component):
    """Operands of tiles, each loaded into one half while the array is fed from the other.

    i: the operands of a tile, places 0, 1, … in order: in place p `across`, what row i of the array is given p clocks
    after its first, and `down`, ws: the weights of the tile's row p; os: what column j is given. `last` ends a tile.
    A word is taken a clock while the half is free; loaded: high in the clock that takes the last. freed: the half
    loaded first may be overwritten from the next clock on.

    across, down (ws): what enters the array's first row, and first column, a clock later. Row i and column j follow
    i and j clocks behind.
    """

    def __init__(self, shape: ArrayShape, depth: int = DEPTH) -> None:
        self.shape, self.depth, self.stationary = shape, depth, shape.dataflow == "ws"
        self.places = max(depth, shape.rows) if self.stationary else depth
        self.bits = bits_for(self.places - 1)
        word = {"across": ArrayLayout(bf16.WIDTH, shape.rows), "down": ArrayLayout(bf16.WIDTH, shape.columns)}
        ports = {"i": In(stream.Signature(StructLayout(word | {"last": 1}))), "loaded": Out(1), "freed": In(1)}
        ports |= {"across": In(entering(shape, depth))}
        ports |= {"down": In(entering(shape, shape.rows))} if self.stationary else {}
        edges = ArrayLayout(activation(shape.dataflow), shape.rows), ArrayLayout(weight(shape), shape.columns)
        super().__init__(ports | {"left": Out(edges[0]), "top": Out(edges[1])})
        self.free = Signal(range(HALVES + 1), init=HALVES)
        self.half = Signal()  # that are written next
        self.place = Signal(self.bits)
        self.rows = lanes(self.across, shape.rows, "across")
        self.columns = lanes(self.down if self.stationary else self.across, shape.columns, "down")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        taken = self.i.valid & self.i.ready
        m.d.comb += [self.i.ready.eq(self._may_load()), self.loaded.eq(taken & self.i.payload.last)]
        m.d.sync += self.free.eq(self.free + self.freed - self.loaded)
        with m.If(taken):
            m.d.sync += self.place.eq(Mux(self.i.payload.last, 0, self.place + 1))
            m.d.sync += self.half.eq(self.half ^ self.i.payload.last)
        for told in (self.rows, self.columns):
            m.d.sync += [later.eq(earlier) for earlier, later in pairwise(told)]
        for i, now in enumerate(self.rows):
            edge = self.left[i]
            m.d.comb += edge.x.eq(self._bank(m, f"row_{i}", self.i.payload.across[i], taken, now))
            m.d.sync += edge.valid.eq(now.valid & (now.tile.rows > i))
            marks = {"first": now.first} if self.stationary else {"last": now.last, "lowest": now.tile.rows == i + 1}
            m.d.sync += [edge[name].eq(mark) for name, mark in marks.items()]
        for j, now in enumerate(self.columns):
            edge = self.top[j]
            m.d.comb += edge.x.eq(self._bank(m, f"column_{j}", self.i.payload.down[j], taken, now))
            m.d.sync += edge.valid.eq(now.valid & (now.tile.columns > j))
            if self.stationary:
                m.d.sync += edge.fall.eq(now.address)
        return m

    def _may_load(self) -> Value:
        """Whether a half is free."""
        return self.free != 0

    def _bank(self, m: Module, name: str, given: Value, taken: Value, now: View) -> Value:
        """What the lane's memory holds where it is read, a clock later."""
        m.submodules[name] = memory = Memory(shape=bf16.WIDTH, depth=HALVES << self.bits, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [write.en.eq(taken), write.addr.eq(Cat(self.place, self.half)), write.data.eq(given)]
        m.d.comb += [read.en.eq(now.valid), read.addr[: self.bits].eq(now.address), read.addr[-1].eq(now.tile.half)]
        return read.data


def arriving(depth: int) -> StructLayout:
    """Where a result goes: place `address` of half `sums`, onto what is there unless `upper`. With the one that is the
    `end` the half holds `top` + 1 complete results."""
    bits = bits_for(depth - 1)
    return StructLayout({"address": bits, "top": bits, "sums": 1, "upper": 1, "end": 1, "valid": 1})


class Accumulator(Component):
    """Results of tiles, added up in one half while those of the other, complete, are taken.

    now: where what leaves column 0 of the array goes; column j's goes there j clocks later. A result is written as it
    is, or added to the one that is there, float32, rounded once. o: places 0, 1, … of a complete half, all columns at
    once, those beyond the tile's columns anything; `last` ends a half. taken: high in the clock that takes it.
    """

    def __init__(self, shape: ArrayShape, depth: int = DEPTH) -> None:
        self.shape = shape
        self.depth = depth if shape.dataflow == "ws" else shape.rows
        self.bits = bits_for(self.depth - 1)
        word = StructLayout({"x": ArrayLayout(float32.WIDTH, shape.columns), "last": 1})
        ports = {"now": In(arriving(self.depth)), "results": In(ArrayLayout(RESULT, shape.columns))}
        super().__init__(ports | {"o": Out(stream.Signature(word)), "taken": Out(1)})
        self.full = Signal(HALVES)
        self.top = [Signal(self.bits, name=f"top_{half}") for half in range(HALVES)]
        self.half = Signal()  # that are taken next
        self.place = Signal(self.bits)
        self.at = lanes(self.now, shape.columns, "now")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for j, now in enumerate(self.at):
            m.d.comb += self.o.payload.x[j].eq(self._bank(m, j, now, self.results[j]))
        m.d.sync += [later.eq(earlier) for earlier, later in pairwise(self.at)]
        now, moved = self.at[-1], self._moved()
        m.d.comb += [self.o.valid.eq(self.full.bit_select(self.half, 1)), self.taken.eq(moved & self.o.payload.last)]
        m.d.comb += self.o.payload.last.eq(self.place == Array(self.top)[self.half])
        with m.If(moved):
            m.d.sync += self.place.eq(Mux(self.o.payload.last, 0, self.place + 1))
            m.d.sync += self.half.eq(self.half ^ self.o.payload.last)
        for half in range(HALVES):
            with m.If(now.valid & now.end & (now.sums == half)):
                m.d.sync += [self.full[half].eq(1), self.top[half].eq(now.top)]
            with m.Elif(self.taken & (self.half == half)):
                m.d.sync += self.full[half].eq(0)
        return m

    def _moved(self) -> Value:
        """Whether results are taken."""
        return self.o.valid & self.o.ready

    def _bank(self, m: Module, column: int, now: View, result: View) -> Value:
        """What the column's memory holds where it is taken."""
        m.submodules[f"column_{column}"] = memory = Memory(shape=float32.WIDTH, depth=HALVES << self.bits, init=[])
        m.submodules[f"adder_{column}"] = adder = float32.Add()
        write = memory.write_port()
        old, out = memory.read_port(domain="comb"), memory.read_port(domain="comb")
        at = Cat(now.address, now.sums)
        m.d.comb += [old.addr.eq(at), adder.a.eq(old.data), adder.b.eq(result.x)]
        m.d.comb += [write.addr.eq(at), write.data.eq(Mux(now.upper, result.x, adder.o))]
        m.d.comb += [write.en.eq(now.valid & result.valid), out.addr.eq(Cat(self.place, self.half))]
        return out.data
