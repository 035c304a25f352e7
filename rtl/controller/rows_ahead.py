# amaranth: UnusedElaboratable=no
"""Rows as they will be when all commands that wait have issued: what is admitted behind them can issue, too."""

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.table import Table
from pimloom.rtl.command import Decoded, command_layout
from pimloom.rtl.rows import Asker, Latch, Rows, State


class AdmittedRows(Rows):
    """The latches of a sequencer to which nothing comes but what `RowsAhead` admitted, or what needs no row: rows are
    as commands need them, and no gates ask."""

    def fits(self, m: Module, name: str, who: Asker, state: State) -> Value:
        return Const(1, 1)


class RowsAhead(wiring.Component):
    """fits: whether the command can issue behind those that wait, and pushes: it joins them.

    clear: nothing waits any more; the rows are then those of `now`, the latches of the sequencer, or, with closed, all
    closed.
    """

    def __init__(self, table: Table, now: Rows) -> None:
        self.table, self.now, self.rows = table, now, Rows(table.rules)
        layout = command_layout(table)
        super().__init__({"command": In(layout), "pushes": In(1), "fits": Out(1), "clear": In(1), "closed": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        who = Decoded(m, self.table.rules, self.command, "comes")
        m.d.comb += self.fits.eq(self.rows.fits(m, "comes", who, self.rows.state))
        after = self.rows.moved(m, "ahead", self.pushes, who, self.rows.state)
        for at, latch in after.items():
            now = self.now.state[at]
            is_open = Mux(self.clear, now.open & ~self.closed, latch.open)
            after[at] = Latch(is_open, Mux(self.clear, now.row, latch.row))
        self.rows.store(m, after)
        return m
