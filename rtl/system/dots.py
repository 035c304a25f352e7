# amaranth: UnusedElaboratable=no
"""PIM commands of a program to their channel, and results back to the scratchpad."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl import bf16
from pimloom.rtl.system.plan import Sizes
from pimloom.rtl.system.scratchpad import Store

RESULTS = 16  # that may be yet to come


class Dots(wiring.Component):
    """begin: command `dot` and, of a PIM_GEMV, the word `at` for its results hold in this clock; only while `ready`.

    o: commands, a register behind. copied, multiplied: the oldest GWRITE, or PIM_GEMV with `results`, is done in this
    clock. idle: all of them are, and none waits to leave. most: results that are yet to come.
    """

    def __init__(self, sizes: Sizes, most: int = RESULTS) -> None:
        self.sizes, self.op, self.most = sizes, sizes.plan.op, most
        dot = sizes.plan.dot()
        asked = {"begin": In(1), "dot": In(dot), "at": In(sizes.word_bits), "ready": Out(1), "idle": Out(1)}
        results = data.ArrayLayout(bf16.WIDTH, sizes.lanes)
        back = {"copied": In(1), "multiplied": In(1), "results": In(results), "store": Out(Store(sizes))}
        super().__init__(asked | back | {"o": Out(stream.Signature(dot))})
        self.pending, self.level = Signal(8, name="pending"), Signal(range(most + 1), name="level")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = fifo.SyncFIFO(width=self.sizes.word_bits, depth=self.most)
        free, is_gemv, is_copy = (Signal(name=name) for name in ("free", "is_gemv", "is_copy"))
        m.d.comb += self.level.eq(places.level)
        m.d.comb += [is_gemv.eq(self.dot.cmd == self.op.gemv), is_copy.eq(self.dot.cmd == self.op.gwrite)]
        m.d.comb += [free.eq(~self.o.valid | self.o.ready), self.ready.eq(free & self._room(places.w_rdy))]
        m.d.comb += self.idle.eq((self.pending == 0) & ~self.o.valid)
        with m.If(free):
            m.d.sync += [self.o.valid.eq(self.begin), self.o.payload.eq(self.dot)]
        m.d.comb += [places.w_en.eq(self.begin & is_gemv), places.w_data.eq(self.at), places.r_en.eq(self.multiplied)]
        waits = self.begin & (is_gemv | is_copy)
        m.d.sync += self.pending.eq(self.pending + waits - self.copied - self.multiplied)
        store = self.store
        m.d.comb += [store.lanes.eq(self.multiplied.replicate(len(store.lanes))), store.at.eq(places.r_data)]
        m.d.comb += store.word.eq(self.results)
        return m

    def _room(self, room: Value) -> Value:
        """Whether another place for results can be kept."""
        return room
