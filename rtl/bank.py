"""The cells of one bank, and the global buffer of a channel."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class Bank(wiring.Component):
    """`rows` x `columns` words of `lanes` x `element_bits`: a memory in simulation, cell arrays on a die.

    Which row is open is the sequencer's affair: a command brings its row. o: the word at (row, col), 1 clock later.
    write: the lanes of i that are stored at the end of this clock.
    """

    def __init__(self, rows: int, columns: int, lanes: int, element_bits: int) -> None:
        self.rows, self.columns, self.lanes, self.element_bits = rows, columns, lanes, element_bits
        word = lanes * element_bits
        super().__init__(
            {"row": In(range(rows)), "col": In(range(columns)), "write": In(lanes), "i": In(word), "o": Out(word)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = unsigned(self.lanes * self.element_bits)
        m.submodules.cells = cells = memory.Memory(shape=word, depth=self.rows * self.columns, init=[])
        read, write = cells.read_port(), cells.write_port(granularity=self.element_bits)
        address = Signal(range(self.rows * self.columns))
        m.d.comb += [
            address.eq(self.row * self.columns + self.col),
            *(port.addr.eq(address) for port in (read, write)),
            write.en.eq(self.write),
            write.data.eq(self.i),
            self.o.eq(read.data),
        ]
        return m


class GlobalBuffer(wiring.Component):
    """One vector for the MAC units of all banks: `entries` words, written and read in order.

    load: i is the next entry, the first one again after a `take`. take: o is, 1 clock later, the next entry, the first
    one behind a load and behind the last. What commands that load and multiply do, as `systems.devices.functional` says
    it.
    """

    def __init__(self, entries: int, bits: int) -> None:
        self.entries, self.bits = entries, bits
        super().__init__({"load": In(1), "i": In(bits), "take": In(1), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(shape=unsigned(self.bits), depth=self.entries, init=[])
        read, write = words.read_port(), words.write_port()
        loaded, at, loading = (
            Signal(range(self.entries + 1), name="loaded"),
            Signal(range(self.entries), name="at"),
            Signal(name="loading"),
        )
        m.d.comb += [
            read.addr.eq(at),
            write.addr.eq(Mux(loading, loaded, 0)),
            write.en.eq(self.load),
            write.data.eq(self.i),
            self.o.eq(read.data),
        ]
        with m.If(self.load):
            m.d.sync += [loading.eq(1), loaded.eq(Mux(loading, loaded, 0) + 1), at.eq(0)]
        with m.Elif(self.take):
            m.d.sync += [loading.eq(0), at.eq(Mux(at + 1 == loaded, 0, at + 1))]
        return m
