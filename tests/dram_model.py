"""A DRAM behind the data pins of a core: rows that open and close, bursts that it keeps and gives back."""

from typing import Any

from pimloom.arch.command import Role
from pimloom.arch.part import Part
from pimloom.rtl.axi import SequencerAxi


class Dram:
    """Reads the command buses and the write pins of each clock, and drives the read pins, nCL and nCWL after a command.

    A burst that is not on the pins in its CK, or is there in another, is an error.
    """

    def __init__(self, part: Part, block: SequencerAxi) -> None:
        assert block.data is not None
        self.block, self.phases, self.bits = block, block.phases, block.data.bits
        self.cl, self.cwl, self.bl = (part.cycles(name) for name in ("nCL", "nCWL", "nBL"))
        self.roles = [command.role for command in block.table.commands]
        self.cells = dict[tuple[Any, ...], int]()
        self.open = dict[tuple[Any, ...], int]()
        self.writes = list[tuple[int, tuple[Any, ...]]]()  # CK of the first chunk, and where
        self.reads = list[tuple[int, int]]()  # CK of the first chunk, and the burst

    def clock(self, ctx, number: int) -> None:
        """One clock: what the core drives, and what the part answers."""
        block, pins = self.block, self.block.pins
        for phase in range(self.phases):
            bus, ck = block.buses[phase], number * self.phases + phase
            if ctx.get(bus.valid):
                self._command(ctx, bus.command, ck)
        enabled, data = ctx.get(pins.wrdata_en), ctx.get(pins.wrdata)
        expected, valid, answer = ctx.get(pins.rddata_en), 0, 0
        for phase in range(self.phases):
            ck = number * self.phases + phase
            chunk = data >> phase * self.bits & (1 << self.bits) - 1
            mine = [(ck - first, at) for first, at in self.writes if first <= ck < first + self.bl]
            assert len(mine) == (enabled >> phase & 1), f"CK {ck}: a burst goes out that no WR asked for, or none does"
            for k, at in mine:
                kept = self.cells.get(at, 0) & ~((1 << self.bits) - 1 << k * self.bits)
                self.cells[at] = kept | chunk << k * self.bits
            back = [(ck - first, burst) for first, burst in self.reads if first <= ck < first + self.bl]
            assert len(back) == (expected >> phase & 1), f"CK {ck}: rddata_en"
            for k, burst in back:
                valid |= 1 << phase
                answer |= (burst >> k * self.bits & (1 << self.bits) - 1) << phase * self.bits
        ctx.set(pins.rddata_valid, valid)
        ctx.set(pins.rddata, answer)

    def _command(self, ctx, command, ck: int) -> None:
        role = self.roles[ctx.get(command.cmd)]
        bank = tuple(ctx.get(getattr(command, name)) for name in ("pch", "rank", "bg", "bank"))
        if role is Role.ACTIVATE:
            self.open[bank] = ctx.get(command.row)
        elif role in (Role.READ, Role.WRITE):
            at = (*bank, self.open[bank], ctx.get(command.col))
            if role is Role.WRITE:
                self.writes.append((ck + self.cwl, at))
            else:
                self.reads.append((ck + self.cl, self.cells.get(at, 0)))
