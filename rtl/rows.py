"""Which row is open: one latch per bank and row buffer."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value

from pimloom.arch.command import Level, Row
from pimloom.arch.table import Rules
from pimloom.rtl.command import Decoded, Fixed, any_of

Asker = Decoded | Fixed


class Latch(NamedTuple):
    """One bank of one buffer: whether a row is open, and which."""

    open: Value
    row: Value


State = dict[tuple[int, int], Latch]  # (buffer, bank)
Kind = tuple[int, int, range]  # scope, what commands need or leave, in which buffers


class Rows:
    """The latches, and what commands need and leave of them."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.banks = rules, range(int(rules.size[Level.BANK]))
        self.state: State = {
            (buffer, bank): Latch(
                Signal(name=f"open_{buffer}_{bank}"), Signal(range(rules.rows), name=f"row_{buffer}_{bank}")
            )
            for buffer in range(int(rules.buffer.max()) + 1)
            for bank in self.banks
        }

    def fits(self, who: Asker, state: State) -> Value:
        """Whether all rows in the command's scope are as it needs them."""
        need = {Row.OPEN: lambda latch: latch.open & (latch.row == who.row), Row.CLOSED: lambda latch: ~latch.open}
        return ~any_of(
            who.is_(opcodes) & who.at(scope, self.node(scope, bank)) & ~need[Row(needs)](state[buffer, bank])
            for (scope, needs, buffers), opcodes in self._kinds(self.rules.needs, *self.rules.needed).items()
            for buffer in buffers
            for bank in self.banks
        )

    def moved(self, m: Module, name: str, happens: Value, who: Asker, state: State) -> State:
        """The latches after the command, if it happens."""
        after: State = {}
        for (buffer, bank), latch in state.items():
            opens, closes = self._moves(who, buffer, bank, Row.OPEN), self._moves(who, buffer, bank, Row.CLOSED)
            is_open, row = Signal(name=f"{name}_open_{buffer}_{bank}"), Signal.like(latch.row, name=f"{name}_row")
            m.d.comb += is_open.eq((latch.open | (happens & opens)) & ~(happens & closes))
            m.d.comb += row.eq(Mux(happens & opens, who.row, latch.row))
            after[buffer, bank] = Latch(is_open, row)
        return after

    def closed(self, level: int, node: int) -> Value:
        """Whether no bank of a node has an open row in any buffer."""
        return ~any_of(latch.open for (_, bank), latch in self.state.items() if self.node(level, bank) == node)

    def opens(self, who: Asker, held: Callable[[int], Value]) -> Value:
        """Whether the command opens a row of a bank for which `held(bank)`."""
        return any_of(
            who.is_(opcodes) & who.at(scope, self.node(scope, bank)) & held(bank)
            for (scope, leaves, _), opcodes in self._moving().items()
            if leaves == Row.OPEN
            for bank in self.banks
        )

    def node(self, level: int, bank: int) -> int:
        """The node of a level in which a bank lies."""
        return bank // int(self.rules.size[Level.BANK] // self.rules.size[level])

    def _moves(self, who: Asker, buffer: int, bank: int, to: Row) -> Value:
        return any_of(
            who.is_(opcodes) & who.at(scope, self.node(scope, bank))
            for (scope, leaves, buffers), opcodes in self._moving().items()
            if leaves == to and buffer in buffers
        )

    def _moving(self) -> dict[Kind, list[int]]:
        return self._kinds(self.rules.leaves, self.rules.buffer, self.rules.buffer)

    def _kinds(self, what: Iterable[int], first: Iterable[int], last: Iterable[int]) -> dict[Kind, list[int]]:
        """Opcodes by kind; nothing needed or left is left out. first, last: buffers of each command."""
        found: dict[Kind, list[int]] = {}
        for opcode, (scope, row, low, high) in enumerate(zip(self.rules.scope, what, first, last, strict=True)):
            if row != Row.ANY:
                found.setdefault((int(scope), int(row), range(int(low), int(high) + 1)), []).append(opcode)
        return found
