# amaranth: UnusedElaboratable=no
"""GEMMs: tile sequencer, pads, systolic array, accumulator."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import View
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from pimloom.rtl.npu.pads import Accumulator, OperandPads
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.systolic import Systolic
from pimloom.rtl.npu.tiles import DEPTH, JOB_BITS, TileSequencer, job


class Gemm(Component):
    """(m x k) x (k x n) of bfloat16, sums in float32, on a systolic array between pads of two halves.

    job, done, refused: those of `TileSequencer`, done a clock before the last result is in the accumulator. i: operands
    of a tile after the other, columns of tiles outermost; see `OperandPads`. ws: in place p the activations of row p
    and the weights of the tile's row p. os: in place p the products' operands for k = p. o: results, see `Accumulator`;
    ws: the m rows of a column of tiles, sums of its tiles' sums, from the uppermost on; os: the rows of a tile.
    """

    def __init__(self, shape: ArrayShape, depth: int = DEPTH, bits: int = JOB_BITS) -> None:
        self.shape, self.depth = shape, depth
        self.tiles, self.array = TileSequencer(shape, depth, bits), Systolic(shape)
        self.pads, self.accumulator = OperandPads(shape, depth), Accumulator(shape, depth)
        ports = {"job": In(stream.Signature(job(bits))), "done": Out(1), "refused": Out(1)}
        ports |= {"i": In(self.pads.i.signature.flip()), "o": Out(self.accumulator.o.signature)}
        super().__init__(ports)

    @property
    def modules(self) -> dict[str, Component]:
        """What is instantiated, by the name of its module."""
        return self.array.modules

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tiles, pads, sums, array = self.tiles, self.pads, self.accumulator, self.array
        m.submodules.tiles, m.submodules.pads, m.submodules.array, m.submodules.sums = tiles, pads, array, sums
        connect(m, flipped(self.job), tiles.job)
        connect(m, flipped(self.i), pads.i)
        connect(m, sums.o, flipped(self.o))
        m.d.comb += [self.done.eq(tiles.done), self.refused.eq(tiles.refused), pads.across.eq(tiles.across)]
        m.d.comb += [tiles.loaded.eq(pads.loaded), pads.freed.eq(tiles.freed), tiles.taken.eq(sums.taken)]
        m.d.comb += [array.left.eq(pads.left), array.top.eq(pads.top), sums.results.eq(array.o)]
        if self.shape.dataflow == "ws":
            m.d.comb += pads.down.eq(tiles.down)
            self._arrive_ws(m, self._later(m, tiles.across, self.shape.rows + 1))
        else:
            self._arrive_os(m, self._later(m, tiles.across, self.shape.rows + 2))
        return m

    def _later(self, m: Module, control: View, clocks: int) -> View:
        """What was told so many clocks ago: the pads' one, the array's rows, what is behind it."""
        for stage in range(clocks):
            later = Signal(control.shape(), name=f"rising_{stage}")
            m.d.sync += later.eq(control)
            control = later
        return control

    def _arrive_ws(self, m: Module, left: View) -> None:
        """A result for each activation."""
        now = self.accumulator.now
        m.d.comb += [now.valid.eq(left.valid), now.address.eq(left.address), now.top.eq(left.address)]
        m.d.comb += [now.sums.eq(left.tile.sums), now.upper.eq(left.tile.upper)]
        m.d.comb += now.end.eq(left.last & left.tile.lower)

    def _arrive_os(self, m: Module, left: View) -> None:
        """After the last products of a tile its rows, the lowest first."""
        now = self.accumulator.now
        more = Signal(range(self.shape.rows + 1))
        top = Signal.like(now.top)
        sums = Signal()
        ends = left.valid & left.last
        m.d.sync += more.eq(Mux(ends, left.tile.rows - 1, Mux(more == 0, 0, more - 1)))
        with m.If(ends):
            m.d.sync += [top.eq(left.tile.rows - 1), sums.eq(left.tile.sums)]
        m.d.comb += [now.valid.eq(ends | (more != 0)), now.address.eq(Mux(ends, left.tile.rows, more) - 1)]
        m.d.comb += [now.top.eq(Mux(ends, left.tile.rows - 1, top)), now.sums.eq(Mux(ends, left.tile.sums, sums))]
        m.d.comb += [now.upper.eq(1), now.end.eq(now.address == 0)]
