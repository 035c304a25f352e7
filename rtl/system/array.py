# amaranth: UnusedElaboratable=no
"""GEMMs from the scratchpad to the scratchpad."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl import bf16
from pimloom.rtl.npu.gemm import Gemm
from pimloom.rtl.system.plan import COUNT_BITS, Sizes
from pimloom.rtl.system.scratchpad import Look, Store


class ArrayUnit(wiring.Component):
    """begin: m rows, k and n in words, and the words of a, b and o hold in this clock; only while `idle`.

    Operands of a tile after the other, from the next clock on, a place a clock; tiles overlap. Results are rounded to
    bfloat16 and stored in the clock in which the accumulator gives them. idle: the last one is stored.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.gemm = sizes, Gemm(sizes.shape, sizes.depth)
        at = {name: In(sizes.word_bits) for name in ("a", "b", "o")}
        size = {name: In(COUNT_BITS) for name in ("m", "k", "n")}
        looks = {"look_a": Out(Look(sizes)), "look_b": Out(Look(sizes)), "store": Out(Store(sizes))}
        super().__init__({"begin": In(1), "idle": Out(1), **at, **size, **looks})
        self.asked = {name: Signal.like(getattr(self, name), name=f"its_{name}") for name in (*at, *size)}
        self.offered, self.feeds, self.busy = (Signal(name=name) for name in ("offered", "feeds", "busy"))

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """What is instantiated, by the name of its module."""
        return self.gemm.modules

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gemm = gemm = self.gemm
        job, asked, bits = gemm.job.payload, self.asked, self.sizes.lane_bits
        m.d.comb += [gemm.job.valid.eq(self.offered), job.m.eq(asked["m"]), job.overlapped.eq(1)]
        m.d.comb += [job.k.eq(asked["k"] << bits), job.n.eq(asked["n"] << bits), self.idle.eq(~self.busy)]
        with m.If(self.offered & gemm.job.ready):
            m.d.sync += self.offered.eq(0)
        self._feed(m)
        self._drain(m)
        with m.If(self.begin):
            m.d.sync += [register.eq(getattr(self, name)) for name, register in asked.items()]
            m.d.sync += [self.offered.eq(1), self.feeds.eq(1), self.busy.eq(1)]
        return m

    def _feed(self, m: Module) -> None:
        """Tiles down a column of tiles, columns from left to right; of each, places 0, 1, …"""
        i, asked, lanes = self.gemm.i, self.asked, self.sizes.lanes
        at_a, at_b = (Signal(self.sizes.word_bits, name=name) for name in ("at_a", "at_b"))
        place, row, column = (Signal(COUNT_BITS, name=name) for name in ("place", "tile_row", "tile_column"))
        last, lowest = Signal(name="last_place"), Signal(name="lowest_tile")
        m.d.comb += [self.look_a.at.eq(at_a), self.look_b.at.eq(at_b), i.valid.eq(self.feeds), i.payload.last.eq(last)]
        m.d.comb += [i.payload.across.as_value().eq(self.look_a.word), i.payload.down.as_value().eq(self.look_b.word)]
        m.d.comb += last.eq(place == Mux(asked["m"] > lanes, asked["m"], lanes) - 1)
        m.d.comb += lowest.eq(row == asked["k"] - 1)
        with m.If(i.valid & i.ready):
            m.d.sync += [place.eq(Mux(last, 0, place + 1)), at_a.eq(at_a + asked["k"])]
            with m.If(place < lanes):
                m.d.sync += at_b.eq(at_b + asked["n"])
            with m.If(last):
                m.d.sync += [row.eq(Mux(lowest, 0, row + 1)), at_a.eq(asked["a"] + Mux(lowest, 0, row + 1))]
            with m.If(last & lowest):
                m.d.sync += [column.eq(column + 1), at_b.eq(asked["b"] + column + 1)]
                m.d.sync += self.feeds.eq(column != asked["n"] - 1)
        with m.If(self.begin):
            m.d.sync += [at_a.eq(self.a), at_b.eq(self.b), place.eq(0), row.eq(0), column.eq(0)]

    def _drain(self, m: Module) -> None:
        """Rows of a column of tiles after the other."""
        o, asked, store = self.gemm.o, self.asked, self.store
        at, column = Signal(self.sizes.word_bits, name="at_o"), Signal(COUNT_BITS, name="columns_out")
        m.d.comb += [o.ready.eq(1), store.at.eq(at), store.lanes.eq(o.valid.replicate(len(store.lanes)))]
        m.d.comb += store.word.eq(Cat(bf16.rounded(x) for x in o.payload.x))
        with m.If(o.valid):
            m.d.sync += at.eq(at + asked["n"])
            with m.If(o.payload.last):
                m.d.sync += [column.eq(column + 1), at.eq(asked["o"] + column + 1)]
                m.d.sync += self.busy.eq(column != asked["n"] - 1)
        with m.If(self.begin):
            m.d.sync += [at.eq(self.o), column.eq(0)]
