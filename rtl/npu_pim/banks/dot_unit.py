# amaranth: UnusedElaboratable=no
"""The PIM unit of one bank, and the vector buffer of a channel."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from pimloom.arch.error import UserError
from pimloom.rtl import bf16
from pimloom.rtl.pim_unit import PimUnit


class DotUnit(PimUnit):
    """As `PimUnit`, for COMPs `gap` clocks apart at least, of `lanes` bfloat16 each, and without a bias."""

    def __init__(self, lanes: int, gap: int) -> None:
        if lanes < 1 or lanes & (lanes - 1):
            raise UserError(f"PIM units add a power of two of lanes, not {lanes}")
        self.lanes, self.clocks = lanes, 2 if gap > 1 else 1
        self.tree = bf16.Tree(lanes, self.clocks)
        self.latency = 1 + self.tree.latency + self.clocks
        operand = ArrayLayout(bf16.WIDTH, lanes)
        ins = {"mac": In(1), "read": In(1), "weights": In(operand), "inputs": In(operand)}
        wiring.Component.__init__(self, {**ins, "result": Out(bf16.WIDTH), "valid": Out(1)})
        self.load, self.bias = Const(0, 1), Const(0, bf16.WIDTH)


class DualRowBank(wiring.Component):
    """Cells of a bank behind two row buffers, which never hold the same row.

    mem_row, pim_row: the row that each holds; mem, pim: its word at mem_col, pim_col, 1 clock later. write: i is stored
    there, in the MEM row, at the end of this clock. cells: words at first, row by row.
    """

    def __init__(self, rows: int, columns: int, bits: int, cells: Sequence[int] = ()) -> None:
        self.rows, self.columns, self.bits, self.cells = rows, columns, bits, cells
        ins = {f"{name}_row": In(range(rows)) for name in ("mem", "pim")}
        ins |= {f"{name}_col": In(range(columns)) for name in ("mem", "pim")}
        super().__init__({**ins, "write": In(1), "i": In(bits), "mem": Out(bits), "pim": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.rows * self.columns
        m.submodules.cells = cells = memory.Memory(shape=unsigned(self.bits), depth=depth, init=self.cells)
        mem, pim, write = cells.read_port(), cells.read_port(), cells.write_port()
        at = Signal(range(self.rows * self.columns))
        m.d.comb += [
            at.eq(self.mem_row * self.columns + self.mem_col),
            mem.addr.eq(at),
            write.addr.eq(at),
            write.en.eq(self.write),
            write.data.eq(self.i),
            pim.addr.eq(self.pim_row * self.columns + self.pim_col),
            self.mem.eq(mem.data),
            self.pim.eq(pim.data),
        ]
        return m


class VectorBuffer(wiring.Component):
    """A row that all PIM units multiply with: `columns` words.

    store: i is word `store_col` from the next clock on. o: word `col`, 1 clock later.
    """

    def __init__(self, columns: int, bits: int) -> None:
        self.columns, self.bits = columns, bits
        at = In(range(columns))
        super().__init__({"store": In(1), "store_col": at, "i": In(bits), "col": at, "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(shape=unsigned(self.bits), depth=self.columns, init=[])
        read, write = words.read_port(), words.write_port()
        m.d.comb += [
            read.addr.eq(self.col),
            write.addr.eq(self.store_col),
            write.en.eq(self.store),
            write.data.eq(self.i),
            self.o.eq(read.data),
        ]
        return m


class DelayLine(wiring.Component):
    """o is what i was `clocks` clocks ago, at least 2: a memory that goes round."""

    def __init__(self, bits: int, clocks: int) -> None:
        self.bits, self.clocks = bits, clocks
        super().__init__({"i": In(bits), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(shape=unsigned(self.bits), depth=self.clocks, init=[])
        read, write = words.read_port(), words.write_port()
        at = Signal(range(self.clocks))
        last = self.clocks - 1
        following = Signal.like(at, name="following")
        m.d.comb += [
            following.eq(Mux(at == last, 0, at + 1)),
            write.addr.eq(at),
            write.en.eq(1),
            write.data.eq(self.i),
            read.addr.eq(following),  # written `clocks` - 1 clocks ago
            self.o.eq(read.data),
        ]
        m.d.sync += at.eq(following)
        return m
