"""A checker beside the tile sequencer, told by its ports alone, and how the two hang together.

Arrays have 2 x 2 elements, 3 operands of a row may stream, sizes of jobs have two bits.
"""

from collections.abc import Iterator

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib.data import View

from pimloom.rtl.formal.checker import wire
from pimloom.rtl.npu.tiles import TileSequencer

SIDE, DEPTH, BITS = 2, 3, 2
MOST_TILES = 4  # of sizes up to 3 on a side of 2
LONGEST = MOST_TILES * (SIDE + DEPTH + 2 * SIDE - 2) + 2  # clocks of a job, one tile after the other


class Watch:
    """The sequencer between free inputs, and what was seen of it.

    full: of each half of the pads, whether it holds a tile's operands; fill, empty: the half that is loaded, freed,
    next. complete: of each half of the accumulator, whether it waits to be taken; take: the one taken next. before:
    what streamed in the clock before. asked: the job under way; area: elements of the product, k counted only where it
    is cut into tiles, that no tile has had; age: clocks since it was taken.
    """

    def __init__(self, m: Module, tiles: TileSequencer) -> None:
        self.m, self.tiles = m, tiles
        self.full, self.fill, self.empty = Signal(2), Signal(), Signal()
        self.complete, self.take = Signal(2), Signal()
        self.before, self.asked, self.going = Signal.like(tiles.across), Signal.like(tiles.asked), Signal()
        self.area, self.age, self.lost = Signal(2 * BITS), Signal(range(4 * LONGEST)), Signal()
        self._halves()
        self._job()

    def _halves(self) -> None:
        m, t = self.m, self.tiles
        loaded, freed = Const(1, 2) << self.fill, Const(1, 2) << self.empty
        self.may_load = ~self.full.bit_select(self.fill, 1)
        m.d.sync += self.full.eq((self.full | Mux(t.loaded, loaded, 0)) & ~Mux(t.freed, freed, 0))
        m.d.sync += [self.fill.eq(self.fill ^ t.loaded), self.empty.eq(self.empty ^ t.freed), self.before.eq(t.across)]
        self.last = t.across.valid & t.across.last
        done = self.last & t.across.tile.lower
        taken = Mux(t.taken, Const(1, 2) << self.take, 0)
        m.d.sync += self.complete.eq((self.complete | Mux(done, Const(1, 2) << t.across.tile.sums, 0)) & ~taken)
        m.d.sync += self.take.eq(self.take ^ t.taken)
        self.may_take = self.complete.bit_select(self.take, 1)

    def _job(self) -> None:
        m, t, given = self.m, self.tiles, self.tiles.job.payload
        along, streamed = (given.k, given.m) if t.stationary else (given.m, given.k)
        self.fits = (given.m != 0) & (given.k != 0) & (given.n != 0) & (streamed <= DEPTH)
        taken = t.job.valid & t.job.ready & self.fits
        m.d.sync += [self.age.eq(self.age + ~self.age.all()), self.going.eq(taken | self.going & ~t.done)]
        has = area(t.across.tile)
        with m.If(taken):
            m.d.sync += [self.asked.eq(given), self.area.eq(along * given.n), self.age.eq(0)]
        with m.Elif(self.last):
            m.d.sync += [self.area.eq(self.area - has), self.lost.eq(self.lost | (has > self.area))]

    @property
    def streamed(self) -> Value:
        """Operands of a row of the job under way."""
        return self.asked.m if self.tiles.stationary else self.asked.k


def lemma(w: Watch) -> Iterator[Value]:
    """How the checker's halves and job follow from the sequencer's registers; all bits together carry themselves from
    clock to clock."""
    t = w.tiles
    falls = (t.falling != 0) if t.stationary else Const(0, 1)
    rest = wire(w.m, Mux(t.streaming, t.streamed - t.index, 0), "rest")  # clocks in which the tile still streams
    yield from _registers(t, falls, rest)
    off = Mux(t.asked.overlapped, t.streaming + count(t.leaving), t.left != 0)  # tiles set off and not freed
    busy = wire(w.m, falls + off, "busy")
    yield count(w.full) == t.operands + busy
    yield Mux(w.full.all() | ~w.full.any(), w.fill == w.empty, (w.fill != w.empty) & w.full.bit_select(w.empty, 1))
    yield t.half == w.empty ^ busy[0]
    yield ~falls | (t.preloaded.half == ~t.half)
    yield ~t.streaming | (t.tile.half == (t.half ^ ~falls)[0])
    yield from _sums(w, falls)
    yield (w.going == t.active) & (~t.active | (w.asked == t.asked))
    goes_on = t.streaming & (t.index == w.before.address + 1) & (t.tile == w.before.tile)
    yield Mux(w.before.valid & ~w.before.last, goes_on, ~t.streaming | (t.index == 0))
    columns = Mux(t.beside < SIDE, t.beside, SIDE)
    ahead = Mux(t.remain, t.below * columns + t.along * (t.beside - columns), 0)
    under_way = Mux(falls, area(t.preloaded), 0) + Mux(t.streaming, area(t.tile), 0)
    yield ~w.lost & (~w.going | (w.area == ahead + under_way))


def _registers(t: TileSequencer, falls: Value, rest: Value) -> Iterator[Value]:
    """Of the sequencer alone: no tile sets off before the one before has streamed."""
    sizes = (t.asked.m != 0) & (t.asked.k != 0) & (t.asked.n != 0) & (t.streamed <= DEPTH)
    yield Mux(t.active, sizes, ~t.remain & ~falls & ~t.streaming & (t.left == 0) & t.upper)
    yield ~t.remain | (t.below != 0) & (t.beside != 0) & (t.below <= t.along) & (t.beside <= t.asked.n)
    yield ~t.streaming | (rest != 0) & (t.index < t.streamed) & fits(t.tile)
    yield t.left >= rest
    yield t.asked.overlapped | ~t.leaving.any()
    yield ~t.active | t.remain | t.upper
    if not t.stationary:
        yield ~t.streaming | (t.wait + 1 >= rest)
        yield t.asked.overlapped | (t.left == 0) | (t.wait + 1 == t.left)
        return
    yield ~falls | fits(t.preloaded) & (t.falling <= t.preloaded.rows)
    yield ~falls | (t.falling >= rest)
    yield ~(t.streaming & ~falls & t.remain & t.asked.overlapped) | (t.wait + t.next_.rows + 1 >= rest)
    yield t.asked.overlapped | (t.left == 0) | ~falls & (t.wait + 1 == t.left)


def _sums(w: Watch, falls: Value) -> Iterator[Value]:
    """Halves of the accumulator are complete, summed into, or free, in the order in which tiles need them."""
    t = w.tiles
    open_ = ~t.upper if t.stationary else Const(0, 1)  # the next tile's column has a half
    streams_last, falls_last = t.streaming & t.tile.lower, falls & t.preloaded.lower
    ended = count(w.complete)
    yield t.room + ended + streams_last + falls_last + open_ == 2
    yield w.complete.all() | ~w.complete.any() | w.complete.bit_select(w.take, 1)
    yield ~t.streaming | (t.tile.sums == (w.take + ended)[0])
    yield ~falls | (t.preloaded.sums == (w.take + ended + streams_last)[0])
    yield t.sums == (w.take + ended + streams_last + falls_last)[0]
    if t.stationary:
        yield ~(t.streaming & ~t.tile.lower) | Mux(falls, ~t.preloaded.upper, ~t.upper)
        yield ~(falls & ~t.preloaded.lower) | ~t.upper
    else:
        yield ~t.streaming | t.tile.lower


def count(bits: Value) -> Value:
    """How many of two bits are high."""
    return bits[0] + bits[1]


def area(tile: View) -> Value:
    """Number of elements of a tile: rows times columns."""
    return tile.rows * tile.columns


def fits(tile: View) -> Value:
    """Whether the tile has a size that the array can hold."""
    return (tile.rows <= SIDE) & (tile.columns <= SIDE) & (tile.rows != 0) & (tile.columns != 0)
