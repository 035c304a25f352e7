"""Which row is open: one latch per bank and row buffer."""

from collections.abc import Iterable
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from pimloom.arch.command import Level, Row
from pimloom.arch.table import Rules
from pimloom.rtl.command import Decoded, Fixed, any_of, node_names
from verilog_tidy import BITS

Asker = Decoded | Fixed


class Latch(NamedTuple):
    """One bank of one buffer: whether a row is open, and which."""

    open: Value
    row: Value


State = dict[tuple[int, int], Latch]  # (buffer, bank)
Kind = tuple[int, int, range]  # scope, what commands need or leave, in which buffers


class Rows:
    """The latches, and what commands need and leave of them. open: by buffer, a bit for each bank."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.banks = rules, range(int(rules.size[Level.BANK]))
        buffers = range(int(rules.buffer.max()) + 1)
        self.open = [self._bits(f"open_{buffer}") for buffer in buffers]
        self.state: State = {
            (buffer, bank): Latch(self.open[buffer][bank], Signal(range(rules.rows), name=f"row_{buffer}_{bank}"))
            for buffer in buffers
            for bank in self.banks
        }

    def fits(self, m: Module, name: str, who: Asker, state: State) -> Value:
        """Whether all rows in the command's scope are as it needs them. name: of what the command comes from."""
        hits, broken, fits = dict[int, Signal](), list[Value](), Signal(name=f"{name}_fits")
        for (scope, needs, buffers), opcodes in self._kinds(self.rules.needs, *self.rules.needed).items():
            for buffer in buffers:
                latches = [state[buffer, bank] for bank in self.banks]
                if needs == Row.OPEN and buffer not in hits:
                    hits[buffer] = self._bits(f"{name}_hits_{buffer}")
                    m.d.comb += hits[buffer].eq(Cat(latch.open & (latch.row == who.row) for latch in latches))
                missed = ~hits[buffer] if needs == Row.OPEN else Cat(latch.open for latch in latches)
                broken.append(who.is_(opcodes) & self._in_scope(who, scope, missed).any())
        m.d.comb += fits.eq(~any_of(broken))
        return fits

    def moved(self, m: Module, name: str, happens: Value, who: Asker, state: State) -> State:
        """The latches after the command, if it happens."""
        after: State = {}
        for buffer in range(len(self.open)):
            opens, closes = self._bits(f"{name}_opens_{buffer}"), self._bits(f"{name}_closes_{buffer}")
            is_open = self._bits(f"{name}_open_{buffer}")
            latches = [state[buffer, bank] for bank in self.banks]
            m.d.comb += opens.eq(self._moves(who, Row.OPEN, [buffer], happens))
            m.d.comb += closes.eq(self._moves(who, Row.CLOSED, [buffer], happens))
            m.d.comb += is_open.eq((Cat(latch.open for latch in latches) | opens) & ~closes)
            for bank, latch in enumerate(latches):
                after[buffer, bank] = Latch(is_open[bank], Mux(opens[bank], who.row, latch.row))
        return after

    def store(self, m: Module, state: State) -> None:
        """The latches take a state at the end of this clock."""
        for buffer, is_open in enumerate(self.open):
            m.d.sync += is_open.eq(Cat(state[buffer, bank].open for bank in self.banks))
        m.d.sync += [latch.row.eq(state[at].row) for at, latch in self.state.items()]

    def closed(self, level: int, node: int) -> Value:
        """Whether no bank of a node has an open row in any buffer."""
        return ~any_of(is_open[self._of(level, node)].any() for is_open in self.open)

    def opens(self, m: Module, name: str, who: Asker) -> Signal:
        """A bit for each bank: whether the command opens a row there. name: of what the command comes from."""
        found = self._bits(f"{name}_opens")
        m.d.comb += found.eq(self._moves(who, Row.OPEN, range(len(self.open)), Const(1, 1)))
        return found

    def held(self, opens: Value, scope: int, is_due: list[Value]) -> Value:
        """Whether a row is opened (see `opens`) in a node of a scope that is due."""
        return any_of(opens[self._of(scope, node)].any() & due for node, due in enumerate(is_due))

    def node(self, level: int, bank: int) -> int:
        """The node of a level in which a bank lies."""
        return bank // int(self.rules.size[Level.BANK] // self.rules.size[level])

    def _of(self, level: int, node: int) -> slice:
        """The banks of a node."""
        banks = len(self.banks) // int(self.rules.size[level])
        return slice(node * banks, (node + 1) * banks)

    def _bits(self, name: str) -> Signal:
        """A bit for each bank."""
        return Signal(len(self.banks), name=name, attrs={BITS: " ".join(node_names(self.rules, Level.BANK))})

    def _in_scope(self, who: Asker, scope: int, bits: Value) -> Value:
        """Of bits for each bank those in the scope of the command."""
        if not scope:
            return bits
        return bits & Cat(who.at(scope, self.node(scope, bank)) for bank in self.banks)

    def _moves(self, who: Asker, to: int, buffers: Iterable[int], happens: Value) -> Value:
        """A bit for each bank: whether the command, if it happens, leaves its row in one of these buffers so."""
        moved: Value = Const(0, len(self.banks))
        for (scope, leaves, own), opcodes in self._moving().items():
            if leaves == to and set(own) & set(buffers):
                does = (happens & who.is_(opcodes)).replicate(len(self.banks))
                moved = moved | self._in_scope(who, scope, does)
        return moved

    def _moving(self) -> dict[Kind, list[int]]:
        return self._kinds(self.rules.leaves, self.rules.buffer, self.rules.buffer)

    def _kinds(self, what: Iterable[int], first: Iterable[int], last: Iterable[int]) -> dict[Kind, list[int]]:
        """Opcodes by kind; nothing needed or left is left out. first, last: buffers of each command."""
        found: dict[Kind, list[int]] = {}
        for opcode, (scope, row, low, high) in enumerate(zip(self.rules.scope, what, first, last, strict=True)):
            if row != Row.ANY:
                found.setdefault((int(scope), int(row), range(int(low), int(high) + 1)), []).append(opcode)
        return found
