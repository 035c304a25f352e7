# amaranth: UnusedElaboratable=no
"""The tile sequencer: which tile of a GEMM enters the array when, in the clocks of `cycle_sim/npu/arrays.py`."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import bits_for

from pimloom.rtl.npu.shape import ArrayShape

HALVES = 2
DEPTH = 16  # operands that may stream through a row, where nothing else is asked for
JOB_BITS = 16  # of m, k and n


def job(bits: int) -> StructLayout:
    """(m x k) x (k x n); overlapped: a tile enters before the results of the one before have left."""
    return StructLayout({"m": bits, "k": bits, "n": bits, "overlapped": 1})


def tile(shape: ArrayShape) -> StructLayout:
    """Rows and columns of a tile; `half`: of the pads; of the accumulator `sums`, whether it is the `upper`most tile of
    its column, which sums from nothing, and the `lower`most, after which the sums are complete."""
    sizes = {"rows": bits_for(shape.rows), "columns": bits_for(shape.columns)}
    return StructLayout(sizes | {"half": 1, "sums": 1, "upper": 1, "lower": 1})


def entering(shape: ArrayShape, depth: int) -> StructLayout:
    """What is read at the left in a clock (os: at the top, too): place `address` of each row of a tile, which is the
    `first`, or `last`, of those that stream."""
    return StructLayout({"address": bits_for(depth - 1), "first": 1, "last": 1, "tile": tile(shape), "valid": 1})


class TileSequencer(Component):
    """Walks the tiles of a GEMM, columns of tiles outermost, one job after the other.

    job: m, k, n and whether tiles overlap. Sizes of 0, and more rows (ws) or products (os) to stream than `depth`, are
    `refused` in the next clock. down (ws): the row of weights that enters, lowest row first. across: what streams.

    loaded: high in the clock that ends the loading of a tile's operands. freed: they may be overwritten from the next
    clock on, in which all results of the tile have left; overlapped, which its last operand has entered the last row
    and column. taken: a half of the accumulator is free again. Pads and accumulator have two halves; a tile waits
    for its operands, and one that is the first to sum into a half for that. Without such waiting the clocks from the
    first operand of a job to `done`, which is high when its last result has left, are the model's cycles.
    """

    def __init__(self, shape: ArrayShape, depth: int = DEPTH, bits: int = JOB_BITS) -> None:
        self.shape, self.depth, self.stationary = shape, depth, shape.dataflow == "ws"
        ports = {"job": In(stream.Signature(job(bits))), "loaded": In(1), "freed": Out(1), "taken": In(1)}
        ports |= {"across": Out(entering(shape, depth)), "done": Out(1), "refused": Out(1)}
        ports |= {"down": Out(entering(shape, shape.rows))} if self.stationary else {}
        super().__init__(ports)
        self.asked = Signal(job(bits))
        self.active = Signal()
        self.remain = Signal()
        self.below = Signal(bits)  # rows and columns that no tile has had yet
        self.beside = Signal(bits)
        self.next_, self.tile, self.preloaded = (Signal(tile(shape), name=name) for name in ("next_", "now", "held"))
        self.half = Signal()
        self.sums = Signal()
        self.upper = Signal(init=1)
        self.operands = Signal(range(HALVES + 1))  # tiles whose operands are there
        self.room = Signal(range(HALVES + 1), init=HALVES)  # halves of the accumulator that are free
        self.wait = Signal(range(depth + 2 * shape.rows + shape.columns))  # clocks in which no tile may begin
        self.left = Signal.like(self.wait)  # clocks until the last result has left
        self.falling = Signal(range(shape.rows + 1))  # rows of weights yet to enter
        self.streaming = Signal()
        self.index = Signal(bits_for(depth - 1))
        self.leaving = Signal(max(shape.rows, shape.columns))  # last operands on their way to the last row and column
        self.begin = Signal()  # a tile: in the next clock it enters; it streams
        self.set_off = Signal()

    @property
    def along(self) -> Value:
        """Rows that are cut into tiles: k (ws), m (os)."""
        return self.asked.k if self.stationary else self.asked.m

    @property
    def streamed(self) -> Value:
        """Operands that stream through a row: m (ws), k (os)."""
        return self.asked.m if self.stationary else self.asked.k

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take(m)
        self._walk(m)
        self._stream(m)
        ready = Signal()
        stays = Signal.like(self.wait)
        pause = self._preload(m, stays) if self.stationary else self._enter(m, stays)
        m.d.comb += ready.eq(~pause & self._there() & (~self.next_.upper | self._has_room()))
        m.d.comb += self.begin.eq(self.active & self.remain & ready)
        m.d.sync += self.operands.eq(self.operands + self.loaded - self.begin)
        m.d.sync += self.room.eq(self.room + self.taken - (self.begin & self.next_.upper))
        self._leave(m, stays)
        return m

    def _there(self) -> Value:
        """Whether the next tile's operands are."""
        return (self.operands != 0) | self.loaded

    def _has_room(self) -> Value:
        """Whether a half of the accumulator is free."""
        return self.room != 0

    def _ends(self) -> Value:
        """Whether the operand that streams is the last of its tile."""
        return self.index == self.streamed - 1

    def _frees(self) -> Value:
        """Whether a half is needed no more."""
        return self.leaving[-1] | (self.left == 1) & ~self.asked.overlapped

    def _take(self, m: Module) -> None:
        """A job, when nothing of the one before is under way."""
        given = self.job.payload
        streamed = given.m if self.stationary else given.k
        wrong = (given.m == 0) | (given.k == 0) | (given.n == 0) | (streamed > self.depth)
        m.d.comb += self.job.ready.eq(~self.active & ~self.leaving.any())
        taken = self.job.valid & self.job.ready
        m.d.sync += self.refused.eq(taken & wrong)
        with m.If(taken & ~wrong):
            m.d.sync += [self.asked.eq(given), self.active.eq(1), self.remain.eq(1), self.beside.eq(given.n)]
            m.d.sync += self.below.eq(given.k if self.stationary else given.m)

    def _walk(self, m: Module) -> None:
        """From tile to tile, down the columns of tiles."""
        rows, columns = self.shape.rows, self.shape.columns
        lowest, rightmost = self.below <= rows, self.beside <= columns
        upper, lower = (self.upper, lowest) if self.stationary else (1, 1)
        m.d.comb += [self.next_.rows.eq(Mux(lowest, self.below, rows)), self.next_.half.eq(self.half)]
        m.d.comb += [self.next_.columns.eq(Mux(rightmost, self.beside, columns)), self.next_.sums.eq(self.sums)]
        m.d.comb += [self.next_.upper.eq(upper), self.next_.lower.eq(lower)]
        with m.If(self.begin):
            m.d.sync += [self.half.eq(~self.half), self.sums.eq(self.sums ^ self.next_.lower), self.upper.eq(lowest)]
            m.d.sync += [
                self.below.eq(Mux(lowest, self.along, self.below - rows)),
                self.remain.eq(~lowest | ~rightmost),
            ]
            with m.If(lowest):
                m.d.sync += self.beside.eq(self.beside - columns)

    def _stream(self, m: Module) -> None:
        """One operand after the other, of the tile that has set off."""
        last = self._ends()
        m.d.comb += [self.across.valid.eq(self.streaming), self.across.address.eq(self.index)]
        m.d.comb += [self.across.first.eq(self.index == 0), self.across.last.eq(last), self.across.tile.eq(self.tile)]
        with m.If(self.set_off):
            m.d.sync += [self.streaming.eq(1), self.index.eq(0)]
            m.d.sync += self.tile.eq(self.preloaded if self.stationary else self.next_)
        with m.Elif(self.streaming):
            m.d.sync += [self.streaming.eq(~last), self.index.eq(self.index + 1)]

    def _preload(self, m: Module, stays: Signal) -> Value:
        """ws: weights enter, then the tile sets off. The next may not begin while the result is high."""
        gap = Signal.like(self.wait)
        behind = Mux(self.streamed > self.next_.rows, self.streamed - self.next_.rows, 0)
        m.d.comb += stays.eq(self.streamed + self.preloaded.columns + (self.shape.rows - 2))
        m.d.comb += [gap.eq(Mux(self.asked.overlapped, behind, stays)), self.set_off.eq(self.falling == 1)]
        down = self.down
        m.d.comb += [down.valid.eq(self.falling != 0), down.address.eq(self.falling - 1), down.tile.eq(self.preloaded)]
        with m.If(self.begin):
            m.d.sync += [self.falling.eq(self.next_.rows), self.preloaded.eq(self.next_)]
        with m.Elif(self.falling != 0):
            m.d.sync += self.falling.eq(self.falling - 1)
        self._count(m, self.set_off & (gap != 0), gap)
        return Mux(self.set_off, gap != 0, (self.falling != 0) | (self.wait != 0))

    def _enter(self, m: Module, stays: Signal) -> Value:
        """os: a tile that begins sets off. The next may not begin while the result is high."""
        rows = self.next_.rows
        m.d.comb += stays.eq(self.streamed + rows + self.next_.columns + (self.shape.rows - 2))
        overlapped = Mux(self.streamed > rows, self.streamed, rows)
        m.d.comb += self.set_off.eq(self.begin)
        self._count(m, self.begin, Mux(self.asked.overlapped, overlapped, stays))
        return self.wait != 0

    def _count(self, m: Module, start: Value, clocks: Value) -> None:
        with m.If(start):
            m.d.sync += self.wait.eq(clocks - 1)
        with m.Elif(self.wait != 0):
            m.d.sync += self.wait.eq(self.wait - 1)

    def _leave(self, m: Module, stays: Signal) -> None:
        """stays: clocks from a tile's first streamed operand until its last result has left."""
        later = Mux(self.left == 0, 0, self.left - 1)
        m.d.sync += self.left.eq(Mux(self.set_off & (stays > later), stays, later))
        through = self.across.valid & self.across.last & self.asked.overlapped
        m.d.sync += self.leaving.eq(self.leaving << 1 | through)
        m.d.comb += self.freed.eq(self._frees())
        m.d.comb += self.done.eq(self.active & ~self.remain & (self.falling == 0) & (self.left == 0))
        with m.If(self.done):
            m.d.sync += self.active.eq(0)
