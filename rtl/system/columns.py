# amaranth: UnusedElaboratable=no
"""Columns of a channel to and from the scratchpad, and the way of both into the channel."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.system.plan import COUNT_BITS, Sizes
from pimloom.rtl.system.scratchpad import Look, Store


def place_of(column: data.View) -> Value:
    """row x columns + column."""
    return Cat(column.col, column.row)


class Mover(wiring.Component):
    """Asks for `count` columns of a bank, from `place` on, one a clock.

    begin: bank, place, count and `at`, the word of the scratchpad that belongs to the first, hold in this clock; only
    while `idle`. over: one of them is done; idle: all are. shift: from a place to its word.
    """

    def __init__(self, sizes: Sizes, write: bool, more: dict[str, wiring.Member]) -> None:
        self.sizes, self.write = sizes, write
        asked = {name: In(shape) for name, shape in sizes.place().items()}
        asked |= {"begin": In(1), "count": In(COUNT_BITS), "at": In(sizes.word_bits)}
        access = stream.Signature(sizes.plan.access())
        super().__init__(asked | {"idle": Out(1), "ask": Out(access)} | more)
        self.next_, self.of_bank = Signal.like(self.place, name="next_place"), Signal.like(self.bank, name="of_bank")
        self.left, self.pending = Signal(COUNT_BITS, name="left"), Signal(COUNT_BITS, name="pending")
        self.shift, self.over = Signal(sizes.word_bits, name="shift"), Signal(name="over")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        payload = self.ask.payload
        m.d.comb += [self.idle.eq(self._idle()), self.ask.valid.eq(self.left != 0)]
        m.d.comb += [payload.write.eq(int(self.write)), payload.bank.eq(self.of_bank)]
        m.d.comb += place_of(payload).eq(self.next_)
        m.d.sync += self.pending.eq(self.pending - self.over)
        with m.If(self.begin):
            m.d.sync += [self.of_bank.eq(self.bank), self.next_.eq(self.place), self.left.eq(self.count)]
            m.d.sync += [self.pending.eq(self.count), self.shift.eq(self.at - self.place)]
        with m.Elif(self.ask.valid & self.ask.ready):
            m.d.sync += [self.next_.eq(self.next_ + 1), self.left.eq(self.left - 1)]
        return m

    def _idle(self) -> Value:
        """Whether all columns are done."""
        return self.pending == 0


class Reader(Mover):
    """Columns to the scratchpad. came: column and `word` of a read are there in this clock."""

    def __init__(self, sizes: Sizes) -> None:
        more = {"came": In(1), "column": In(sizes.plan.column()), "word": In(sizes.word), "store": Out(Store(sizes))}
        super().__init__(sizes, False, more)

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        store = self.store
        m.d.comb += [self.over.eq(self.came), store.lanes.eq(self.came.replicate(len(store.lanes)))]
        m.d.comb += [store.at.eq(self.shift + place_of(self.column)), store.word.eq(self.word)]
        return m


class Writer(Mover):
    """Columns from the scratchpad. issued: the WR of `column` issues in this clock; word: what it writes, in the next.
    A write is over when it has issued."""

    def __init__(self, sizes: Sizes) -> None:
        more = {"issued": In(1), "column": In(sizes.plan.command()), "word": Out(sizes.word), "look": Out(Look(sizes))}
        super().__init__(sizes, True, more)

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += [self.over.eq(self.issued), self.look.at.eq(self.shift + place_of(self.column))]
        m.d.sync += self.word.eq(self.look.word)
        return m


class Merge(wiring.Component):
    """The way into a channel: reads before writes, one a clock, a register behind it."""

    def __init__(self, sizes: Sizes) -> None:
        access = stream.Signature(sizes.plan.access())
        super().__init__({"reads": In(access), "writes": In(access), "o": Out(access)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        free = Signal()
        m.d.comb += free.eq(self._free())
        m.d.comb += [self.reads.ready.eq(free), self.writes.ready.eq(free & ~self.reads.valid)]
        with m.If(free):
            m.d.sync += self.o.valid.eq(self.reads.valid | self.writes.valid)
            with m.If(self.reads.valid):
                m.d.sync += self.o.payload.eq(self.reads.payload)
            with m.Else():
                m.d.sync += self.o.payload.eq(self.writes.payload)
        return m

    def _free(self) -> Value:
        """Whether the register is, or will be in the next clock."""
        return ~self.o.valid | self.o.ready
