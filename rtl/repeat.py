"""A row of a command stream, unrolled: `count` commands on consecutive columns."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.table import Table
from pimloom.rtl.command import command_layout


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
