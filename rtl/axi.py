# amaranth: UnusedElaboratable=no
"""The command core of a channel behind AXI4-Lite (ARM IHI 0022): registers, admission, sequencer, refresh."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.command import POSTPONED_MAX, Role
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.power_up import Step
from pimloom.arch.table import Table, compile_table
from pimloom.rtl.command import any_of
from pimloom.rtl.controller.closing import Closing, longest_close
from pimloom.rtl.controller.data import BurstPath
from pimloom.rtl.controller.engine import Engine, gemv_clocks
from pimloom.rtl.controller.moments import without_moments
from pimloom.rtl.controller.power_up import PINS, PowerUp
from pimloom.rtl.controller.registers import AxiRegisters
from pimloom.rtl.controller.rows_ahead import RowsAhead
from pimloom.rtl.npu_pim.plan import COUNT_BITS
from pimloom.rtl.sequencer import Bus

DEPTH = 8  # commands that wait
PHASES = (1, 2, 4)  # CK of a clock
DATA_PORTS = ("wdata", "rdata", "pins")


class SequencerAxi(wiring.Component):
    """A command core behind AXI4-Lite (ARM IHI 0022): 32-bit words, 4 KiB of addresses, one clock for both.

    0x00 PLACE     rw  [7:0] bank, [15:8] bank group, [23:16] rank, [31:24] pseudo channel
    0x04 ROW       rw
    0x08 COLUMN    rw
    0x0C COMMAND   wo  [7:0] opcode. A write whose WSTRB[0] is high puts the command, at PLACE, ROW and COLUMN, into
                       the queue. SLVERR, and nothing goes in: the queue is full, or is dropped in this clock; else
                       the command can never issue, which sets REFUSED: no such opcode or place, a moment of a PIM
                       table, SRE or SRX, as the core keeps the part awake, a COUNT of 0 or too long for refresh, or
                       rows that will not be as it needs them
    0x10 STATUS    ro  [0] ready: the queue has room, [1] busy: a command waits, [2] own: the core closes rows, after
                       reset or for a refresh, and commands wait, [3] up: rows were closed after reset,
                       [15:8] room: commands that fit
    0x14 ISSUED    ro  commands of the queue that have issued, modulo 2^32
    0x18 LAST      ro  clock in which the latest of them issued, from the first clock without reset on; 0 before
    0x1C CLOCK     ro  this clock, modulo 2^32
    0x20 COUNT     rw  COMPs of a GEMV, 1 after reset; only of parts with such a command
    0x24 CONTROL   wo  [0] flush: a 1 drops all commands that wait
    0x28 INTERRUPT rw  [0] REFUSED: a command was refused that can never issue, [1] CLOSED: an open row kept a refresh
                       back until eight were postponed, and the core closed all rows, [2] DROPPED: commands that waited
                       were dropped. A 1 that is written clears a bit
    0x2C ENABLE    rw  irq is high while a bit of INTERRUPT and the same bit here are
    0x30 DROPPED   ro  commands that were dropped, modulo 2^32

    Registers stay as they are, so that only what changes is written; bytes whose WSTRB is low keep their values. Other
    addresses answer SLVERR, and so do writes to words that are ro; the lowest two bits of an address and AxPROT are not
    looked at. A command stands in the queue from the clock on in which its response is first offered, and issues in its
    first legal clock from then on, one after the other. rst is ~ARESETn, synchronous.

    The core closes all rows after reset, before anything else issues. At most eight refreshes are postponed: if a row
    is open then, the core drops what waits, closes all rows, and refreshes; the host begins again with closed rows. The
    end of a GEMV and the first multiplication of a result, from which rules of a PIM table count, are the core's
    affair: no host tells them. There is no PHY: buses carry commands as the table has them.

    phases: 1, 2 or 4 CK are a clock of the core. With several, `buses` are those CK in order, as the phases of a DFI:
    one command issues in a clock, in the first CK of it in which it is legal. Rules cost no rounding, but commands are
    in different clocks; CLOCK and LAST count clocks.

    power_up: RESET_n, CKE, and the commands of the power-up sequence (mrs with register and value, or zqcl, to all
    ranks; in the first CK of a clock), of a core that plays one after reset. Nothing else issues until it is over; then
    the rows are closed. Without, the host initialises the part before it releases reset.

    wdata, rdata, pins: of a core with a data path, one burst for each RD and WR: the burst of a WR is at the head of
    wdata before it issues, one at a time; that of an RD is in rdata for one clock when it came back. Other commands
    with data (loads and results of PIM) have none.

    buses: what issues (source: refreshes, by node; the queue; the core's own precharges). count: COMPs of the GEMV that
    issues.
    """

    def __init__(
        self,
        part: Part,
        depth: int = DEPTH,
        table: Table | None = None,
        phases: int = 1,
        steps: Sequence[Step] = (),
        data: bool = False,
    ) -> None:
        """table: the part's, on another geometry or with another refresh; None: its own. steps: of a power-up sequence.
        data: whether there is a data path.

        Raises UserError for a table with more than two buses, or whose rows take longer to close than tREFI.
        """
        if phases not in PHASES:
            raise UserError(f"--phases {phases}: a core has 1, 2 or 4 CK in a clock")
        self.moments, self.depth, self.phases = without_moments(table or compile_table(part)), depth, phases
        self.table = self.moments.table
        self.sequencer = Engine(self.moments, *gemv_clocks(part), phases)
        self.nodes = self.sequencer.nodes
        self.registers = AxiRegisters(self.moments, depth, self._most_comps())
        self.ahead, self.closing = RowsAhead(self.table, self.sequencer.rows), Closing(self.table)
        ports = {name: port for name, port in self.registers.signature.members.items() if name.startswith("s_axi_")}
        self.powering = PowerUp(steps, phases) if steps else None
        self.data = BurstPath(part, phases) if data else None
        bus = Bus(self.table, self.nodes + 2)
        counted = {"count": Out(COUNT_BITS)} if self.moments.gemv >= 0 else {}
        counted |= {"power_up": Out(PINS)} if steps else {}
        if self.data:
            counted |= {name: self.data.signature.members[name] for name in DATA_PORTS}
        super().__init__(
            {**ports, "irq": Out(1), "buses": Out(bus).array(max(self.sequencer.n_buses, phases)), **counted}
        )

    @property
    def instances(self) -> dict[str, str]:
        """Modules of the sequencer's timers by instance, as of `Sequencer`."""
        return self.sequencer.instances

    def _most_comps(self) -> int:
        """COMPs of a GEMV at most, so that rows can be closed before a ninth refresh falls due."""
        most, left = (1 << COUNT_BITS) - 1, self.table.rules.refi - longest_close(self.table, self.phases)
        if self.nodes and left <= self.sequencer.least_ck:
            raise UserError(f"tREFI leaves no time to close open rows: {self.table.rules.refi} CK")
        return min(most, left // max(self.sequencer.comp_ck, 1)) if self.nodes else most

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = self.registers
        if self.powering:
            m.submodules.powering = self.powering
            m.d.comb += self.power_up.eq(self.powering.pins)
            m.submodules.sequencer = ResetInserter(~self.powering.done)(self.sequencer)
        else:
            m.submodules.sequencer = self.sequencer
        m.submodules.ahead, m.submodules.closing = self.ahead, self.closing
        for name, member in self.signature.members.items():
            if name.startswith("s_axi_"):
                mine, its = getattr(self, name), getattr(self.registers, name)
                m.d.comb += its.eq(mine) if member.flow is In else mine.eq(its)
        m.d.comb += self.irq.eq(self.registers.irq)
        self._admit(m)
        self._offer(m)
        self._show(m)
        return m

    def _admit(self, m: Module) -> None:
        """Which commands join the queue, and when it is dropped: flushed, or because a row keeps refresh back."""
        x, ahead = self.registers, self.ahead
        starves, clear, up = Signal(name="starves"), Signal(name="clear"), Signal(name="is_up")
        rows, scope = self.sequencer.rows, int(self.table.rules.scope[self.table.rules.refresh])
        m.d.comb += starves.eq(
            any_of(
                (pending == POSTPONED_MAX) & ~rows.closed(scope, node)
                for node, pending in enumerate(self.sequencer.pending)
            )
        )
        starts, own = Signal(name="closing_starts"), self.closing.active
        m.d.comb += [starts.eq(starves & ~own), clear.eq(starts | x.flush), self.closing.start.eq(starts)]
        m.d.comb += [x.clear.eq(clear), x.closed.eq(starts), x.own.eq(own), x.up.eq(up)]
        m.d.sync += up.eq(up | ~own)
        m.d.comb += [ahead.command.eq(x.command.command), ahead.pushes.eq(x.pushes), x.fits.eq(ahead.fits)]
        m.d.comb += [ahead.clear.eq(clear), ahead.closed.eq(starts | own)]

    def _offer(self, m: Module) -> None:
        """The core's own commands first, then the queue's; a multiplication that begins a result by its own opcode."""
        x, head, own = self.registers, self.sequencer.heads[0], self.closing.active
        waits = Signal.like(head.payload, name="waits")
        m.d.comb += waits.eq(x.o.payload.command)
        first, multiply, results = self.moments.first, self.moments.multiply, self.moments.results
        if first >= 0:
            begins, opcode = Signal(init=1, name="result_begins"), x.o.payload.command.cmd
            with m.If(begins & (opcode == multiply)):
                m.d.comb += waits.cmd.eq(first)
            with m.If(x.o.valid & x.o.ready & ((opcode == multiply) | (opcode == results))):
                m.d.sync += begins.eq(opcode == results)
        powered = self.powering.done if self.powering else 1
        m.d.comb += head.valid.eq(Mux(own, self.closing.o.valid, x.o.valid) & powered)
        m.d.comb += head.payload.eq(Mux(own, self.closing.o.payload.as_value(), waits.as_value()))
        m.d.comb += [self.closing.o.ready.eq(own & head.ready), x.o.ready.eq(~own & head.ready)]
        m.d.comb += self.sequencer.released[0].eq(1)
        if self.data:
            self._carry(m, self.data, waits.cmd, own)
        if self.moments.gemv >= 0:
            m.d.comb += [self.sequencer.count.eq(x.o.payload.count), self.count.eq(x.o.payload.count)]

    def _carry(self, m: Module, data: BurstPath, waits: Value, own: Value) -> None:
        """A write waits for its burst; reads and writes tell the data path when they issue."""
        m.submodules.data = data
        writes, reads = (self.table.opcodes({role}) for role in (Role.WRITE, Role.READ))
        m.d.comb += self.sequencer.released[0].eq(own | data.ready | ~any_of(waits == c for c in writes))
        issued = [(bus.valid, bus.command.cmd) for bus in self.sequencer.buses]
        for starts, opcodes in ((data.write, writes), (data.read, reads)):
            m.d.comb += starts.eq(any_of(valid & (cmd == c) for valid, cmd in issued for c in opcodes))
        m.d.comb += data.phase.eq(self.sequencer.phase)
        for name in DATA_PORTS:
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(data, name))

    def _show(self, m: Module) -> None:
        """What issues, by the opcodes of the part: on the bus of its kind, or in its phase."""
        for number, mine in enumerate(self.buses):
            its = self.sequencer.buses[0 if self.phases > 1 else number]
            here = its.valid & (self.sequencer.phase == number) if self.phases > 1 else its.valid
            m.d.comb += [mine.valid.eq(here), mine.command.eq(its.command), mine.source.eq(its.source)]
            with m.If(self.closing.active & (its.source == self.nodes)):
                m.d.comb += mine.source.eq(self.nodes + 1)
            if self.moments.first >= 0:
                with m.If(its.command.cmd == self.moments.first):
                    m.d.comb += mine.command.cmd.eq(self.moments.multiply)
