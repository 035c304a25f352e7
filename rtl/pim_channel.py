# amaranth: UnusedElaboratable=no
"""One PIM channel: sequencer, banks, a MAC unit beside each bank, global buffer, results.

It runs a real matrix-vector product, data and timing: the commands issue when the table lets them, and what they do
to the data is what `systems.devices.functional` does, in the order of issue.
"""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.command import SENDS, Level, Role
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.table import Table, compile_table
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.rtl.bank import Bank, GlobalBuffer
from pimloom.rtl.command import Decoded, any_of, command_layout
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.sequencer import Bus, Sequencer

ALL_BANKS = (Role.LOAD, Role.MULTIPLY, Role.RESULTS, Role.BIAS, Role.SCATTER)
ONE_BANK = (Role.READ, Role.WRITE)
NEITHER = (Role.COPY, Role.GEMV)  # no path for their data


def row_layout(table: Table, most: int) -> data.StructLayout:
    """A command and its `count`, 1 to `most`."""
    return data.StructLayout({"command": command_layout(table), "count": range(most + 1)})


class Repeat(wiring.Component):
    """Commands of each row, one a clock, the first in the clock of the row itself; the row leaves with its last."""

    def __init__(self, table: Table, most: int) -> None:
        row, command = row_layout(table, most), command_layout(table)
        super().__init__({"i": In(stream.Signature(row)), "o": Out(stream.Signature(command))})
        self.done = Signal(range(most + 1))  # commands of the row that have left

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row, out = self.i.payload, self.o.payload
        done, last = self.done, Signal()
        m.d.comb += [
            last.eq(done + 1 == row.count),
            out.eq(row.command),
            out.col.eq(row.command.col + done),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & last),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += done.eq(done + 1)
            with m.If(last):
                m.d.sync += done.eq(0)
        return m


class Values(wiring.Signature):
    """`values` came out in a clock in which `valid` is high; nobody can hold them up."""

    def __init__(self, shape: data.ArrayLayout) -> None:
        super().__init__({"valid": Out(1), "values": Out(shape)})


class PimChannel(wiring.Component):
    """A channel of a memory part, which has one pseudo channel and one rank.

    Raises UserError for others, and for commands whose data it has no path for.

    kept: rows that the memories of the banks hold, a power of two; the other rows alias them. Default: all rows.

    rows: the command stream, in order. data: for each command that brings a burst the word it writes, taken in the
    clock of issue (the pins' nCWL before it is the host's affair); one to all banks, or to their accumulators, writes
    value b into bank b, the former into lane `lane` of its column. underrun: such a command found no data; stays high.
    buses: what issues. results: bfloat16 of each bank, PimUnit.latency + 1 clocks after the command that reads them.
    reads: the word that a read of one bank brings, 2 clocks after it.
    """

    def __init__(self, part: Part, kept: int | None = None) -> None:
        if part.pim_unit is None or part.organization.pseudo_channels * part.organization.ranks > 1:
            raise UserError(f"{part.description}: a PIM channel has PIM units, one pseudo channel and one rank")
        self.part, self.unit, self.table = part, part.pim_unit, compile_table(part)
        self.kept = kept or part.organization.rows
        word = data.ArrayLayout(self.unit.element_bits, self.unit.lanes)
        results = data.ArrayLayout(self.unit.element_bits, part.organization.banks)
        if part.organization.banks > self.unit.lanes:
            raise UserError(f"{part.description}: a burst has a value for each bank, so no more banks than lanes")
        for c in self.table.commands:
            scope = Level.BANK if c.role in ONE_BANK else Level.CHANNEL if c.role in ALL_BANKS else c.scope
            if c.role in NEITHER or self.table.rules.size[c.scope] != self.table.rules.size[scope]:
                said = f"the gates of a PIM channel have no path for what {c.name} does: it {c.role}"
                raise UserError(f"{part.description}: {said}")
        self.entries = self.unit.global_buffer_bytes * BITS_PER_BYTE // part.organization.access_bits
        most = max(part.organization.columns, self.entries)
        operand = data.StructLayout({"values": word, "lane": range(self.unit.lanes)})
        self.repeat, self.sequencer = Repeat(self.table, most), Sequencer(self.table)
        self.most, self.stream_source = most, 1  # source 0 is refresh
        super().__init__(
            {
                "rows": In(stream.Signature(row_layout(self.table, most))),
                "data": In(stream.Signature(operand)),
                "buses": Out(Bus(self.table, 2)).array(1),
                "results": Out(Values(results)),
                "reads": Out(Values(word)),
                "underrun": Out(1),
            }
        )

    @property
    def instances(self) -> dict[str, str]:
        """Modules of the sequencer's timers by instance, as of `Sequencer`."""
        return self.sequencer.instances

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.repeat = repeat = self.repeat
        m.submodules.sequencer = sequencer = self.sequencer
        wiring.connect(m, wiring.flipped(self.rows), repeat.i)
        wiring.connect(m, repeat.o, sequencer.heads[0])
        wiring.connect(m, wiring.flipped(self.buses[0]), sequencer.buses[0])
        m.d.comb += sequencer.released[0].eq(1)
        bus = sequencer.buses[0]
        command = Decoded(m, self.table.rules, bus.command, "command")
        does = [self._does(m, bus.valid, command, opcode) for opcode in range(len(self.table.commands))]
        self._take_data(m, self._any(does, *SENDS))
        words = [self._bank(m, b, command, does) for b in range(self.part.organization.banks)]
        self._units(m, words, does)
        self._read(m, words, command, self._any(does, Role.READ))
        return m

    def _does(self, m: Module, valid: Value, command: Decoded, opcode: int) -> Signal:
        """Whether the command of that opcode issues in this clock."""
        does = Signal(name=f"does_{self.table.commands[opcode].name}")
        m.d.comb += does.eq(valid & command.is_([opcode]))
        return does

    def _any(self, does: list[Signal], *roles: Role) -> Value:
        """Whether a command with one of these roles issues in this clock."""
        return any_of(does[opcode] for opcode in self.table.opcodes(roles))

    def _take_data(self, m: Module, takes: Value) -> None:
        m.d.comb += self.data.ready.eq(takes)
        with m.If(takes & ~self.data.valid):
            m.d.sync += self.underrun.eq(1)

    def _bank(self, m: Module, b: int, command: Decoded, does: list[Signal]) -> Value:
        """A bank's cells, and what is written there; its word, 1 clock behind the command."""
        org, unit, operand = self.part.organization, self.unit, self.data.payload
        m.submodules[f"bank_{b}"] = bank = Bank(self.kept, org.columns, unit.lanes, unit.element_bits)
        one, every = self._any(does, Role.WRITE) & command.at(Level.BANK, b), self._any(does, Role.SCATTER)
        value = Value.cast(operand.values).word_select(b, unit.element_bits)
        m.d.comb += [
            bank.row.eq(self.buses[0].command.row[: len(bank.row)]),
            bank.col.eq(self.buses[0].command.col),
            bank.write.eq(Mux(one, ~0, Mux(every, 1 << operand.lane, 0))),
            bank.i.eq(Mux(one, operand.values, value.replicate(unit.lanes))),
        ]
        return bank.o

    def _units(self, m: Module, words: list[Value], does: list[Signal]) -> None:
        """The MAC units, 1 clock behind the commands as the words they take."""
        values = Value.cast(self.data.payload.values)
        m.submodules.buffer = buffer = GlobalBuffer(self.entries, self.part.organization.access_bits)
        multiplies = self._any(does, Role.MULTIPLY)
        m.d.comb += [buffer.load.eq(self._any(does, Role.LOAD)), buffer.i.eq(values), buffer.take.eq(multiplies)]
        now = (multiplies, self._any(does, Role.RESULTS), self._any(does, Role.BIAS), values)
        mac, read, load, bias = (_later(m, value) for value in now)
        for b, word in enumerate(words):
            m.submodules[f"unit_{b}"] = unit = PimUnit(self.part)
            m.d.comb += [unit.mac.eq(mac), unit.read.eq(read), unit.load.eq(load)]
            m.d.comb += [unit.weights.eq(word), unit.inputs.eq(buffer.o)]
            m.d.comb += unit.bias.eq(bias.word_select(b, self.unit.element_bits))
            m.d.comb += [self.results.values[b].eq(unit.result), self.results.valid.eq(unit.valid)]

    def _read(self, m: Module, words: list[Value], command: Decoded, reads: Value) -> None:
        at = [_later(m, command.at(Level.BANK, b)) for b in range(len(words))]
        chosen = Value.cast(self.reads.values)
        for here, word in zip(at, words, strict=True):
            with m.If(here):
                m.d.sync += chosen.eq(word)
        m.d.sync += self.reads.valid.eq(_later(m, reads))


def _later(m: Module, value: Value) -> Signal:
    """The value one clock later."""
    register = Signal.like(value, name="later")
    m.d.sync += register.eq(value)
    return register
