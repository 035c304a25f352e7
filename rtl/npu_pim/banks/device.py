# amaranth: UnusedElaboratable=no
"""What lies behind the command bus of a channel: banks with two row buffers, PIM units, the vector buffer."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.arch.error import UserError
from pimloom.rtl import bf16
from pimloom.rtl.npu_pim.banks.dot_unit import DelayLine, DotUnit, DualRowBank, VectorBuffer
from pimloom.rtl.npu_pim.clockwork import OpenRows
from pimloom.rtl.npu_pim.plan import COUNT_BITS, Plan
from pimloom.rtl.npu_pim.queues.line import chosen
from pimloom.rtl.ports import place

UNIT = "dot_unit"  # module of the PIM units
DEPTH = 4  # results that are on their way to the pins


class Device(wiring.Component):
    """Carries out the commands of the bus, whose clocks are the controller's affair.

    command: what issues in a clock in which `valid` is high; comps: COMPs of a PIM_GEMV. word: what the WR of the clock
    before writes. read: the word of an RD, plan.read_ck clocks later. results: bfloat16 of each bank, the oldest that
    nobody has taken; take: it is taken in this clock.

    A GWRITE copies the open row into the vector buffer, a column a clock. A PIM_HEADER goes back to the first elements
    of rows and vector; each COMP takes the next `lanes` of both, in all banks; a result is the sum since the last one,
    rounded once. A PIM_GEMV is that many COMPs, comp_ck apart, and a READRES. The table lets a GWRITE or PIM_HEADER
    issue while those go on; both take effect behind them.

    kept: rows that the memories hold, a power of two; the others alias them. cells: what they hold at first, see
    `NpuPimChannel`.
    Raises UserError for lanes that do not divide a column.
    """

    def __init__(self, plan: Plan, bits: int, lanes: int, kept: int, cells: Sequence[Sequence[int]] = ()) -> None:
        self.plan, self.bits, self.lanes, self.kept = plan, bits, lanes, kept
        self.cells = cells or [()] * plan.banks
        if lanes < 1 or bits % (lanes * bf16.WIDTH):
            raise UserError(f"a COMP takes a whole part of a column of {bits} bits, not {lanes} elements of 16 bits")
        self.parts = bits // (lanes * bf16.WIDTH)  # COMPs of a column
        results = data.ArrayLayout(bf16.WIDTH, plan.banks)
        super().__init__(
            {
                "valid": In(1),
                "command": In(plan.command()),
                "comps": In(COUNT_BITS),
                "word": In(bits),
                "read": Out(bits),
                "results": Out(results),
                "take": In(1),
            }
        )
        self.unit = DotUnit(lanes, plan.comp_ck)
        columns = plan.table.rules.columns
        if (busy := columns * (self.parts * plan.comp_ck + 1) + 2) > plan.copy_ck:
            said = f"COMPs of a row and a copy take {busy} clocks, more than the {plan.copy_ck} of a GWRITE"
            raise UserError(f"{said}: a PIM_GEMV would lose its vector")
        late = self.unit.latency + 2
        if late > plan.read_ck:
            raise UserError(f"a result takes {late} clocks; it is read {plan.read_ck} after its READRES")

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """What is instantiated, by the name of its module."""
        return {UNIT: self.unit}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = self.rows = OpenRows(self.plan)
        m.submodules.vector = self.vector = VectorBuffer(self.plan.table.rules.columns, self.bits)
        self._open(m)
        macs, ends, at = self._step(m)
        m.d.comb += self.vector.col.eq(at // self.parts)
        self._copy(m, macs | (self.left != 0))
        words = [self._bank(m, b, at) for b in range(self.plan.banks)]
        self._load(m, [mem for mem, _ in words])
        m.submodules.late = late = DelayLine(self.bits, self.plan.read_ck - 2)
        where = _later(m, self.command.bank)
        found = Signal(self.bits, name="word_read")
        m.d.sync += found.eq(chosen(m, 1 << where, [mem for mem, _ in words], "word_of_bank"))
        m.d.comb += [late.i.eq(found), self.read.eq(late.o)]
        self._units(m, [pim for _, pim in words], _later(m, macs), _later(m, ends), _later(m, at))
        return m

    def _does(self, name: str) -> Value:
        opcode = getattr(self.plan.op, name)
        return self.valid & (self.command.cmd == opcode) if opcode >= 0 else self.valid & 0

    def _open(self, m: Module) -> None:
        rows, command, closed = self.rows, self.command, self.plan.closed
        m.d.comb += [rows.bank.eq(command.bank), rows.row.eq(command.row)]
        m.d.comb += [getattr(rows, name).eq(self._does(name)) for name in ("act", "pre", "g_act")]
        for b in range(self.plan.banks):
            m.d.comb += rows.closes[b].eq(self._does("pim_pre") & (command.bank // closed == b // closed))

    def _step(self, m: Module) -> tuple[Value, Value, Signal]:
        """Whether a COMP begins in this clock, whether a result ends, and the place of the COMP in the row."""
        plan = self.plan
        at = Signal(range(plan.table.rules.columns * self.parts), name="place")
        self.left = left = Signal(COUNT_BITS, name="comps_left")
        pause = Signal(range(plan.comp_ck + 1), name="pause")
        gemv, macs, ends = self._does("gemv"), Signal(name="mac"), Signal(name="result_ends")
        due = (left != 0) & (pause == 0)
        last = (due & (left == 1)) | (gemv & (self.comps == 1))
        m.d.comb += [macs.eq(self._does("comp") | gemv | due), ends.eq(self._does("readres") | _later(m, last))]
        m.d.sync += pause.eq(Mux(macs, plan.comp_ck - 1, pause - (pause != 0)))
        with m.If(gemv):
            m.d.sync += left.eq(self.comps - 1)
        with m.Elif(due):
            m.d.sync += left.eq(left - 1)
        now, back = Signal.like(at, name="place_now"), Signal(name="goes_back")
        begins = self._does("comp") | gemv
        m.d.comb += now.eq(Mux(begins & back, 0, at))
        with m.If(macs):
            m.d.sync += at.eq(now + 1)
        with m.If(begins):
            m.d.sync += back.eq(0)
        with m.If(self._does("header")):  # while COMPs before it still go on, maybe
            m.d.sync += back.eq(1)
        return macs, ends, now

    def _copy(self, m: Module, busy: Value) -> None:
        """The copy that is under way: its bank and column. It waits for COMPs that still need the vector."""
        columns = self.plan.table.rules.columns
        self.copying, self.copy_col = Signal(name="copying"), Signal(range(columns), name="copy_col")
        self.copy_bank = Signal(range(self.plan.banks), name="copy_bank")
        self.copies = Signal(name="column_copied")
        m.d.comb += self.copies.eq(self.copying & ~busy)
        m.d.sync += self.copy_col.eq(self.copy_col + self.copies)
        with m.If(self.copies & (self.copy_col == columns - 1)):
            m.d.sync += self.copying.eq(0)
        with m.If(self._does("gwrite")):
            m.d.sync += [self.copying.eq(1), self.copy_col.eq(0), self.copy_bank.eq(self.command.bank)]

    def _load(self, m: Module, words: list[Value]) -> None:
        """Columns come out of the bank a clock after they were asked for."""
        bank, vector = _later(m, self.copy_bank), self.vector
        m.d.comb += [
            vector.store.eq(_later(m, self.copies)),
            vector.store_col.eq(_later(m, self.copy_col)),
            vector.i.eq(chosen(m, 1 << bank, words, "copied_word")),
        ]

    def _bank(self, m: Module, b: int, at: Value) -> tuple[Value, Value]:
        """The words of a bank's MEM and PIM row, a clock behind what asks for them."""
        rows, bits = self.rows, bits_for(self.kept - 1)
        m.submodules[f"bank_{b}"] = bank = DualRowBank(
            self.kept, self.plan.table.rules.columns, self.bits, self.cells[b]
        )
        copies = self.copies & (self.copy_bank == b)
        written = _later(m, self._does("wr") & (self.command.bank == b))
        col = Mux(written, _later(m, self.command.col), Mux(copies, self.copy_col, self.command.col))
        m.d.comb += [
            bank.mem_row.eq(rows.mem_row[b][:bits]),
            bank.mem_col.eq(col),
            bank.pim_row.eq(rows.pim_row[b][:bits]),
            bank.pim_col.eq(at // self.parts),
            bank.write.eq(written),
            bank.i.eq(self.word),
        ]
        return bank.mem, bank.pim

    def _units(self, m: Module, words: list[Value], mac: Value, read: Value, at: Value) -> None:
        """The PIM units, and their results until they are taken."""
        part, width = at % self.parts, self.lanes * bf16.WIDTH
        first, last = Signal(range(DEPTH), name="first_result"), Signal(range(DEPTH), name="last_result")
        m.d.sync += first.eq(first + self.take)
        valid = Signal(len(words), name="unit_valid")
        for b, word in enumerate(words):
            result = Signal(bf16.WIDTH, name=f"unit_{b}_result")
            operands = {"weights": word.word_select(part, width), "inputs": self.vector.o.word_select(part, width)}
            given = {"mac": mac, "read": read, **operands}
            place(m, f"unit_{b}", UNIT, given, {"result": result, "valid": valid[b]})
            kept = [Signal(bf16.WIDTH, name=f"result_{b}_{i}") for i in range(DEPTH)]
            for i, register in enumerate(kept):
                with m.If(valid[b] & (last == i)):
                    m.d.sync += register.eq(result)
            found = any_of_words([Mux(first == i, register, 0) for i, register in enumerate(kept)])
            m.d.comb += self.results[b].eq(found)
        with m.If(valid[0]):
            m.d.sync += last.eq(last + 1)


def any_of_words(words: list[Value]) -> Value:
    """The words joined by OR, bit by bit; at least one word."""
    found = words[0]
    for word in words[1:]:
        found = found | word
    return found


def _later(m: Module, value: Value) -> Signal:
    """The value one clock later."""
    register = Signal.like(Value.cast(value), name="later")
    m.d.sync += register.eq(value)
    return register
