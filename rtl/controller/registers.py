# amaranth: UnusedElaboratable=no
"""AXI4-Lite (ARM IHI 0022) to a queue of commands: handshakes, words of the map, interrupts."""

from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.command import COORDINATES, any_of, command_layout
from pimloom.rtl.controller.moments import NEVER_SENT, Moments
from pimloom.rtl.npu_pim.plan import COUNT_BITS
from pimloom.rtl.npu_pim.queues.line import added, keep, registers, taken

ADDRESS_BITS = 12  # a page of 4 KiB, the least that an interconnect gives a subordinate
WORD_BITS = 32
BYTE = 8
OKAY, SLVERR = 0, 2  # xRESP
PLACES = ("bank", "bg", "rank", "pch")  # fields of PLACE, one byte each, lowest first


class Register(IntEnum):
    """Words of the map; their addresses are four times as high."""

    PLACE, ROW, COLUMN, COMMAND, STATUS, ISSUED, LAST, CLOCK, COUNT, CONTROL, INTERRUPT, ENABLE, DROPPED = range(13)


class Interrupt(IntEnum):
    """Numbers of the bits of the registers INTERRUPT and ENABLE."""

    REFUSED, CLOSED, DROPPED = range(3)


READ_ONLY = (Register.STATUS, Register.ISSUED, Register.LAST, Register.CLOCK, Register.DROPPED)
STATUS = data.StructLayout({"ready": 1, "busy": 1, "own": 1, "up": 1, "_": 4, "room": BYTE})
WORDS_BITS = 4  # of the number of a word


def entry_layout(moments: Moments) -> data.StructLayout:
    """What waits in the queue: a command, and the COMPs of a GEMV where the table has one."""
    counted = {"count": COUNT_BITS} if moments.gemv >= 0 else {}
    return data.StructLayout({"command": command_layout(moments.table), **counted})


class AxiRegisters(wiring.Component):
    """AXI4-Lite, 32 bits, to a stream of commands; `SequencerAxi` has the map.

    command: what a write to COMMAND would put into the queue in this clock, and pushes: whether it does; fits: whether
    the rows will be as it needs them. o: the oldest command that waits, taken where ready. flush: the host drops what
    waits; clear: what waits is dropped in this clock, and no command comes. closed: rows were closed for a refresh.
    own, up: what STATUS shows of the core. most: COMPs of a GEMV.

    A word is written in the clock before its response is first offered: from that clock on a command stands in the
    queue. A word is read in the clock in which its address is taken; the response is offered in the next one. Outputs
    of the interface are registers or their complements: no path leads from its inputs to them in a clock. A write's
    address and data are taken in any order, one of each ahead of a response that waits; one read is under way.
    """

    def __init__(self, moments: Moments, depth: int, most: int = (1 << COUNT_BITS) - 1) -> None:
        self.moments, self.table, self.depth, self.most = moments, moments.table, depth, most
        self.layout = entry_layout(moments)
        strobes = WORD_BITS // BYTE
        super().__init__(
            {
                "s_axi_awaddr": In(ADDRESS_BITS),
                "s_axi_awprot": In(3),
                "s_axi_awvalid": In(1),
                "s_axi_awready": Out(1),
                "s_axi_wdata": In(WORD_BITS),
                "s_axi_wstrb": In(strobes),
                "s_axi_wvalid": In(1),
                "s_axi_wready": Out(1),
                "s_axi_bresp": Out(2),
                "s_axi_bvalid": Out(1),
                "s_axi_bready": In(1),
                "s_axi_araddr": In(ADDRESS_BITS),
                "s_axi_arprot": In(3),
                "s_axi_arvalid": In(1),
                "s_axi_arready": Out(1),
                "s_axi_rdata": Out(WORD_BITS),
                "s_axi_rresp": Out(2),
                "s_axi_rvalid": Out(1),
                "s_axi_rready": In(1),
                "irq": Out(1),
                "command": Out(self.layout),
                "pushes": Out(1),
                "fits": In(1),
                "o": Out(stream.Signature(self.layout)),
                "flush": Out(1),
                "clear": In(1),
                "closed": In(1),
                "own": In(1),
                "up": In(1),
            }
        )
        self.address_waits = Signal()
        self.address = Signal(ADDRESS_BITS)
        self.data_waits = Signal()
        self.data = Signal(WORD_BITS)
        self.strobe = Signal(strobes)
        self.answered = Signal()
        self.answer = Signal(2)
        self.acts, self.unmapped, self.unknown, self.full, self.leaves = (
            Signal(name=name) for name in ("acts", "unmapped", "unknown", "full", "leaves")
        )
        self.read = Signal()
        self.word = Signal(WORD_BITS)
        self.read_answer = Signal(2)
        self.unmapped_read = Signal()
        written = [Register.PLACE, Register.ROW, Register.COLUMN, Register.ENABLE]
        written += [Register.COUNT] if moments.gemv >= 0 else []
        self.written = {at: Signal(WORD_BITS, name=at.name.lower(), init=at is Register.COUNT) for at in written}
        self.interrupt = Signal(len(Interrupt))
        self.issued, self.last, self.clock, self.dropped = (
            Signal(WORD_BITS, name=name) for name in ("issued", "last", "clock", "dropped")
        )
        self.queue = registers(self.layout, depth, "waiting")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take_writes(m)
        refused = self._write(m)
        self._respond(m, refused)
        self._queue(m)
        self._reads(m)
        m.d.sync += self.clock.eq(self.clock + 1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.issued.eq(self.issued + 1), self.last.eq(self.clock)]
        return m

    def _take_writes(self, m: Module) -> None:
        """An address and a word, whichever comes first, until both are there."""
        m.d.comb += [self.s_axi_awready.eq(~self.address_waits), self.s_axi_wready.eq(~self.data_waits)]
        m.d.comb += self.acts.eq(self.address_waits & self.data_waits & (~self.answered | self.s_axi_bready))
        with m.If(self.acts):
            m.d.sync += [self.address_waits.eq(0), self.data_waits.eq(0)]
        with m.If(self.s_axi_awvalid & self.s_axi_awready):
            m.d.sync += [self.address_waits.eq(1), self.address.eq(self.s_axi_awaddr)]
        with m.If(self.s_axi_wvalid & self.s_axi_wready):
            m.d.sync += [self.data_waits.eq(1), self.data.eq(self.s_axi_wdata), self.strobe.eq(self.s_axi_wstrb)]

    def _respond(self, m: Module, refused: Value) -> None:
        m.d.comb += [self.s_axi_bvalid.eq(self.answered), self.s_axi_bresp.eq(self.answer)]
        with m.If(self.acts):
            m.d.sync += [self.answered.eq(1), self.answer.eq(Mux(refused, SLVERR, OKAY))]
        with m.Elif(self.s_axi_bready):
            m.d.sync += self.answered.eq(0)

    def _write(self, m: Module) -> Value:
        """What a write does in the clock in which it acts; whether it is refused."""
        at, refused = _word(self.address), Signal(name="refused")
        m.d.comb += self.unmapped.eq(_unmapped(self.address))
        m.d.comb += refused.eq(self.unmapped | any_of(at == word for word in READ_ONLY))
        acts = Signal(name="writes")
        m.d.comb += acts.eq(self.acts & ~refused)
        mask = Cat(bit.replicate(BYTE) for bit in self.strobe)
        for number, value in self.written.items():
            with m.If(acts & (at == number)):
                m.d.sync += value.eq(value & ~mask | self.data & mask)
        low = acts & self.strobe[0]
        m.d.comb += self.flush.eq(low & (at == Register.CONTROL) & self.data[0])
        asks, unfit = low & (at == Register.COMMAND), Signal(name="unfit")
        m.d.comb += [self.unknown.eq(self._no_such()), unfit.eq(self.unknown | ~self.fits)]
        m.d.comb += self.full.eq((self.queue.length == self.depth) | self.clear)
        m.d.comb += self.pushes.eq(asks & ~unfit & ~self.full)
        self._interrupts(m, Mux(low & (at == Register.INTERRUPT), self.data, 0), asks & unfit & ~self.full)
        return refused | asks & (unfit | self.full)

    def _interrupts(self, m: Module, cleared: Value, unfit: Value) -> None:
        """A 1 that is written clears a bit, unless it is set in the same clock."""
        now = Signal.like(self.interrupt, name="interrupt_now")
        dropped = self.clear & (self.queue.length != 0)
        raised = {Interrupt.REFUSED: unfit, Interrupt.CLOSED: self.closed, Interrupt.DROPPED: dropped}
        m.d.comb += now.eq(self.interrupt & ~cleared | Cat(raised[bit] for bit in Interrupt))
        m.d.sync += self.interrupt.eq(now)
        m.d.comb += self.irq.eq((self.interrupt & self.written[Register.ENABLE]).any())
        with m.If(self.clear):
            m.d.sync += self.dropped.eq(self.dropped + self.queue.length)

    def _no_such(self) -> Value:
        """Whether the table has no such command, or the channel no such place, or the GEMV no such count."""
        rules, word = self.table.rules, self.written
        most = [(self.data[:BYTE], len(self.table.names)), (word[Register.ROW], rules.rows)]
        most += [(word[Register.COLUMN], rules.columns)]
        fan = [int(n) for n in rules.size[1:] // rules.size[:-1]]
        places = dict(zip(COORDINATES, fan, strict=True))
        most += [(word[Register.PLACE].word_select(i, BYTE), places[name]) for i, name in enumerate(PLACES)]
        wrong = [value >= n for value, n in most if n < 1 << len(value)]
        wrong += [self.data[:BYTE] == moment for moment in self.table.opcodes(NEVER_SENT)]
        if self.moments.gemv >= 0:
            count = word[Register.COUNT]
            wrong.append((self.data[:BYTE] == self.moments.gemv) & ((count == 0) | (count > self.most)))
        return any_of(wrong)

    def _queue(self, m: Module) -> None:
        word = self.written
        values = {name: word[Register.PLACE].word_select(i, BYTE) for i, name in enumerate(PLACES)}
        values |= {"cmd": self.data, "row": word[Register.ROW], "col": word[Register.COLUMN]}
        m.d.comb += [self.command.command[name].eq(value) for name, value in values.items()]
        if self.moments.gemv >= 0:
            m.d.comb += self.command.count.eq(word[Register.COUNT])
        m.d.comb += self.leaves.eq(self.o.ready)
        left = taken(m, self.queue, Cat(self.o.valid & self.leaves, Const(0, self.depth - 1)), "left")
        after = added(m, left, self.pushes, self.command, "next")
        keep(m, self.queue, after._replace(length=Mux(self.clear, 0, after.length)))
        m.d.comb += self.o.valid.eq((self.queue.length != 0) & ~self.clear)
        m.d.comb += self.o.payload.eq(self.queue.entries[0])

    def _reads(self, m: Module) -> None:
        status = Signal(STATUS)
        m.d.comb += [
            status.ready.eq(self.queue.length != self.depth),
            status.busy.eq(self.queue.length != 0),
            status.own.eq(self.own),
            status.up.eq(self.up),
            status.room.eq(self.depth - self.queue.length),
        ]
        values: dict[Register, Value] = {
            **self.written,
            Register.STATUS: status.as_value(),
            Register.ISSUED: self.issued,
            Register.LAST: self.last,
            Register.CLOCK: self.clock,
            Register.INTERRUPT: self.interrupt,
            Register.DROPPED: self.dropped,
        }
        word = Signal(WORD_BITS, name="word_read")
        m.d.comb += self.unmapped_read.eq(_unmapped(self.s_axi_araddr))
        with m.Switch(_word(self.s_axi_araddr)):
            for number, value in values.items():
                with m.Case(number):
                    m.d.comb += word.eq(value)
        m.d.comb += [self.s_axi_arready.eq(~self.read), self.s_axi_rvalid.eq(self.read)]
        m.d.comb += [self.s_axi_rdata.eq(self.word), self.s_axi_rresp.eq(self.read_answer)]
        with m.If(self.s_axi_rready):
            m.d.sync += self.read.eq(0)
        with m.If(self.s_axi_arvalid & self.s_axi_arready):
            m.d.sync += [self.read.eq(1), self.word.eq(Mux(self.unmapped_read, 0, word))]
            m.d.sync += self.read_answer.eq(Mux(self.unmapped_read, SLVERR, OKAY))


def _word(address: Value) -> Value:
    """Number of the word: the lowest two bits of an address say nothing that the strobes do not."""
    return address[2 : 2 + WORDS_BITS]


def _unmapped(address: Value) -> Value:
    return address[2:] >= len(Register)
