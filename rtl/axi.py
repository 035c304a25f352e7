# amaranth: UnusedElaboratable=no
"""The command sequencer as a subordinate of AXI4-Lite (ARM IHI 0022): registers, a queue of commands, and its buses."""

from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.table import Table
from pimloom.rtl.command import COORDINATES, any_of, command_layout
from pimloom.rtl.npu_pim.queues.line import added, keep, registers, taken
from pimloom.rtl.sequencer import Bus, Sequencer

ADDRESS_BITS = 12  # a page of 4 KiB, the least that an interconnect gives a subordinate
WORD_BITS = 32
BYTE = 8
DEPTH = 8  # commands that wait
OKAY, SLVERR = 0, 2  # xRESP
PLACES = ("bank", "bg", "rank", "pch")  # fields of PLACE, one byte each, lowest first


class Register(IntEnum):
    """Words of the map; their addresses are four times as high."""

    PLACE, ROW, COLUMN, COMMAND, STATUS, ISSUED, LAST, CLOCK = range(8)


READ_ONLY = (Register.ISSUED, Register.LAST, Register.CLOCK)
STATUS = data.StructLayout({"ready": 1, "busy": 1, "error": 1, "stuck": 1, "starved": 1, "_": 3, "room": BYTE})
ERROR_BIT = STATUS["error"].offset


class AxiRegisters(wiring.Component):
    """AXI4-Lite, 32 bits, to a stream of commands; `SequencerAxi` has the map.

    o: the oldest command that waits, taken where ready. stuck, starved: what STATUS shows of who takes them.
    A word is written in the clock before its response is first offered: from that clock on a command stands in the
    queue. A word is read in the clock in which its address is taken; the response is offered in the next one. Outputs
    of the interface are registers or their complements: no path leads from its inputs to them in a clock. A write's
    address and data are taken in any order, one of each ahead of a response that waits; one read is under way.
    """

    def __init__(self, table: Table, depth: int = DEPTH) -> None:
        self.table, self.depth = table, depth
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
                "o": Out(stream.Signature(command_layout(table))),
                "stuck": In(1),
                "starved": In(1),
            }
        )
        self.address_waits = Signal()
        self.address = Signal(ADDRESS_BITS)
        self.data_waits = Signal()
        self.data = Signal(WORD_BITS)
        self.strobe = Signal(strobes)
        self.answered = Signal()
        self.answer = Signal(2)
        self.acts = Signal()
        self.read = Signal()
        self.word = Signal(WORD_BITS)
        self.read_answer = Signal(2)
        self.place = Signal(WORD_BITS)
        self.row = Signal(WORD_BITS)
        self.column = Signal(WORD_BITS)
        self.error = Signal()
        self.issued = Signal(WORD_BITS)
        self.last = Signal(WORD_BITS)
        self.clock = Signal(WORD_BITS)
        self.queue = registers(command_layout(table), depth, "waiting")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take_writes(m)
        self._respond(m, self._write(m))
        self._reads(m)
        m.d.sync += self.clock.eq(self.clock + 1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.issued.eq(self.issued + 1), self.last.eq(self.clock)]
        return m

    def _take_writes(self, m: Module) -> None:
        """An address and a word, whichever comes first, until both are there."""
        m.d.comb += [self.s_axi_awready.eq(~self._keeps_address()), self.s_axi_wready.eq(~self.data_waits)]
        m.d.comb += self.acts.eq(self._both() & (~self.answered | self.s_axi_bready))
        with m.If(self.acts):
            m.d.sync += [self.address_waits.eq(0), self.data_waits.eq(0)]
        with m.If(self.s_axi_awvalid & self.s_axi_awready):
            m.d.sync += [self.address_waits.eq(1), self.address.eq(self.s_axi_awaddr)]
        with m.If(self.s_axi_wvalid & self.s_axi_wready):
            m.d.sync += [self.data_waits.eq(1), self.data.eq(self.s_axi_wdata), self.strobe.eq(self.s_axi_wstrb)]

    def _keeps_address(self) -> Value:
        return self.address_waits

    def _both(self) -> Value:
        return self.address_waits & self.data_waits

    def _respond(self, m: Module, refused: Value) -> None:
        m.d.comb += [self.s_axi_bvalid.eq(self.answered), self.s_axi_bresp.eq(self.answer)]
        with m.If(self.acts):
            m.d.sync += [self.answered.eq(1), self.answer.eq(Mux(refused, SLVERR, OKAY))]
        with m.Elif(self._released()):
            m.d.sync += self.answered.eq(0)

    def _released(self) -> Value:
        return self.s_axi_bready

    def _write(self, m: Module) -> Value:
        """What a write does in the clock in which it acts; whether it is refused."""
        at, refused, pushes = self._word(self.address), Signal(name="refused"), Signal(name="pushes")
        mask = Cat(bit.replicate(BYTE) for bit in self.strobe)
        m.d.comb += refused.eq(self._unmapped(self.address) | any_of(at == word for word in READ_ONLY))
        for number, value in self._written().items():
            with m.If(self.acts & ~refused & (at == number)):
                m.d.sync += value.eq(value & ~mask | self.data & mask)
        with m.If(self.acts & ~refused & (at == Register.STATUS) & self.strobe[0] & self.data[ERROR_BIT]):
            m.d.sync += self.error.eq(0)
        unknown, full = Signal(name="unknown"), Signal(name="full")
        asks = self.acts & ~self._unmapped(self.address) & (at == Register.COMMAND) & self.strobe[0]
        m.d.comb += [unknown.eq(self._unknown()), full.eq(self._full()), pushes.eq(asks & ~unknown & ~full)]
        with m.If(asks & unknown):
            m.d.sync += self.error.eq(1)
        self._queue(m, pushes)
        return refused | asks & (unknown | full)

    def _word(self, address: Value) -> Value:
        """Number of the word: the lowest two bits of an address say nothing that the strobes do not."""
        return address[2:5]

    def _unmapped(self, address: Value) -> Value:
        return address[5:].any()

    def _written(self) -> dict[Register, Signal]:
        return {Register.PLACE: self.place, Register.ROW: self.row, Register.COLUMN: self.column}

    def _unknown(self) -> Value:
        """Whether the table has no such command, or the channel no such place."""
        rules = self.table.rules
        most = [(self.data[:BYTE], len(self.table.names)), (self.row, rules.rows), (self.column, rules.columns)]
        fan = [int(n) for n in rules.size[1:] // rules.size[:-1]]
        places = dict(zip(COORDINATES, fan, strict=True))
        most += [(self.place.word_select(i, BYTE), places[name]) for i, name in enumerate(PLACES)]
        return any_of(value >= n for value, n in most if n < 1 << len(value))

    def _full(self) -> Value:
        return self.queue.length == self.depth

    def _queue(self, m: Module, pushes: Value) -> None:
        command = Signal(command_layout(self.table), name="command")
        values = {name: self.place.word_select(i, BYTE) for i, name in enumerate(PLACES)}
        values |= {"cmd": self.data, "row": self.row, "col": self.column}
        m.d.comb += [command[name].eq(value) for name, value in values.items()]
        leaves = self.o.valid & self._leaves()
        left = taken(m, self.queue, Cat(leaves, Const(0, self.depth - 1)), "left")
        keep(m, self.queue, added(m, left, pushes, command, "next"))
        m.d.comb += [self.o.valid.eq(self.queue.length != 0), self.o.payload.eq(self.queue.entries[0])]

    def _leaves(self) -> Value:
        return self.o.ready

    def _reads(self, m: Module) -> None:
        status = Signal(STATUS)
        m.d.comb += [
            status.ready.eq(self.queue.length != self.depth),
            status.busy.eq(self.o.valid),
            status.error.eq(self.error),
            status.stuck.eq(self.stuck),
            status.starved.eq(self.starved),
            status.room.eq(self.depth - self.queue.length),
        ]
        values: dict[Register, Value] = {
            **self._written(),
            Register.STATUS: status.as_value(),
            Register.ISSUED: self.issued,
            Register.LAST: self.last,
            Register.CLOCK: self.clock,
        }
        word, unmapped = Signal(WORD_BITS, name="word_read"), self._unmapped(self.s_axi_araddr)
        with m.Switch(self._word(self.s_axi_araddr)):
            for number, value in values.items():
                with m.Case(number):
                    m.d.comb += word.eq(value)
        m.d.comb += [self.s_axi_arready.eq(self._may_read()), self.s_axi_rvalid.eq(self.read)]
        m.d.comb += [self.s_axi_rdata.eq(self.word), self.s_axi_rresp.eq(self.read_answer)]
        with m.If(self.s_axi_rready):
            m.d.sync += self.read.eq(0)
        with m.If(self.s_axi_arvalid & self.s_axi_arready):
            m.d.sync += [self.read.eq(1), self.word.eq(Mux(unmapped, 0, word))]
            m.d.sync += self.read_answer.eq(Mux(unmapped, SLVERR, OKAY))

    def _may_read(self) -> Value:
        return ~self.read


class SequencerAxi(wiring.Component):
    """A sequencer of one stream behind AXI4-Lite (ARM IHI 0022): 32-bit words, 4 KiB of addresses, one clock for both.

    0x00 PLACE    rw  [7:0] bank, [15:8] bank group, [23:16] rank, [31:24] pseudo channel
    0x04 ROW      rw
    0x08 COLUMN   rw
    0x0C COMMAND  wo  [7:0] opcode. A write whose WSTRB[0] is high puts the command, at PLACE, ROW and COLUMN, into
                      the queue; SLVERR, and nothing goes in, if the queue is full, or the table has no such opcode or
                      the channel no such place, which sets `error`. Reads as 0
    0x10 STATUS   ro  [0] ready: the queue has room, [1] busy: a command waits, [2] error, which a 1 written there
                      clears, [3] stuck: the rows are as the oldest command does not need them: only reset helps,
                      [4] starved: a ninth refresh is pending: as before, [15:8] room: commands that fit
    0x14 ISSUED   ro  commands of the queue that have issued, modulo 2^32
    0x18 LAST     ro  clock in which the latest of them issued, from the first clock without reset on; 0 before
    0x1C CLOCK    ro  this clock, modulo 2^32

    PLACE, ROW and COLUMN stay as they are, so that only what changes is written; bytes whose WSTRB is low keep their
    values. Other addresses answer SLVERR, and so do writes to ISSUED, LAST and CLOCK; the lowest two bits of an address
    and AxPROT are not looked at. A command stands in the queue from the clock on in which its response is first
    offered, and issues in its first legal clock from then on, one after the other. rst is ~ARESETn, synchronous.

    buses: what issues, refreshes among it (sources before the last), as of the sequencer. Raises UserError for a table
    with more than two buses.
    """

    def __init__(self, table: Table, depth: int = DEPTH) -> None:
        self.table, self.depth = table, depth
        self.sequencer, self.registers = Sequencer(table, 1), AxiRegisters(table, depth)
        ports = {name: port for name, port in self.registers.signature.members.items() if name.startswith("s_axi_")}
        bus = Bus(table, self.sequencer.nodes + 1)
        super().__init__({**ports, "buses": Out(bus).array(self.sequencer.n_buses)})

    @property
    def rule_timers(self) -> dict[str, dict[str, int]]:
        """Of the sequencer."""
        return self.sequencer.rule_timers

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers, m.submodules.sequencer = self.registers, self.sequencer
        for name, member in self.signature.members.items():
            if name.startswith("s_axi_"):
                mine, its = getattr(self, name), getattr(self.registers, name)
                m.d.comb += its.eq(mine) if member.flow is In else mine.eq(its)
        wiring.connect(m, self.registers.o, self.sequencer.heads[0])
        for mine, its in zip(self.buses, self.sequencer.buses, strict=True):
            wiring.connect(m, wiring.flipped(mine), its)
        m.d.comb += self.sequencer.released[0].eq(1)
        m.d.comb += [self.registers.stuck.eq(self.sequencer.stuck), self.registers.starved.eq(self.sequencer.starved)]
        return m
