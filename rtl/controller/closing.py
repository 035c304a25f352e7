# amaranth: UnusedElaboratable=no
"""The commands that close every row of a channel: after reset, and where an open row would starve refresh."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.command import Level, Role, Row
from pimloom.arch.error import UserError
from pimloom.arch.table import Table, rule_rows
from pimloom.rtl.command import COORDINATES, command_layout


def closers(table: Table) -> list[dict[str, int]]:
    """Of each row buffer the widest precharge, once for each node of its scope: what closes all rows.

    Raises UserError for a table without one.
    """
    size, found = [int(n) for n in table.rules.size], []
    for buffer in range(int(table.rules.buffer.max()) + 1):
        known = [
            (c.scope, opcode)
            for opcode, c in enumerate(table.commands)
            if c.role is Role.PRECHARGE and (c.buffer, c.needs, c.leaves) == (buffer, Row.ANY, Row.CLOSED)
        ]
        if not known:
            raise UserError(f"no command of this part closes row buffer {buffer}")
        scope, opcode = min(known)
        for node in range(size[scope]):
            bank = node * (size[Level.BANK] // size[scope])
            place = {
                name: bank * size[level] // size[Level.BANK] % (size[level] // size[level - 1])
                for level, name in enumerate(COORDINATES, start=1)
            }
            found.append({"cmd": opcode, **place, "row": 0, "col": 0})
    return found


def longest_close(table: Table, phases: int) -> int:
    """CK at most from the decision to close all rows to the REFab behind it, without moments; phases: CK of a clock."""
    rules, steps = table.rules, closers(table)
    mine = {step["cmd"] for step in steps}
    rows = rule_rows(rules)
    between = max([phases, *(row.wait for row in rows if mine & {*row.after} and mine & {*row.before})])
    longest = max(row.wait for row in rows if mine & {*row.before} or rules.refresh in row.before)
    return 2 * longest + between * (len(steps) + 2)


class Closing(wiring.Component):
    """Offers the closers in order, once after reset and again from the clock after `start`; active while it does."""

    def __init__(self, table: Table) -> None:
        self.table, self.steps = table, closers(table)
        layout = command_layout(table)
        super().__init__({"start": In(1), "active": Out(1, init=1), "o": Out(stream.Signature(layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        at, active = Signal(range(len(self.steps)), name="at"), Signal(init=1, name="closes")
        layout = command_layout(self.table)
        m.d.comb += [self.active.eq(active), self.o.valid.eq(active)]
        with m.Switch(at):
            for number, step in enumerate(self.steps):
                with m.Case(number):
                    m.d.comb += self.o.payload.eq(layout.const(step))
        with m.If(self.start):
            m.d.sync += active.eq(1)
        with m.If(active & self.o.ready):
            m.d.sync += at.eq(at + 1)
            with m.If(at == len(self.steps) - 1):
                m.d.sync += [at.eq(0), active.eq(0)]
        return m
