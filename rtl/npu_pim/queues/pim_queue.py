# amaranth: UnusedElaboratable=no
"""The command queue of PIM: in order, with a look ahead for whole tiles."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim.plan import Plan
from pimloom.rtl.npu_pim.queues.line import Line, added, keep, registers, taken

FEW = 2  # PIM commands in their queue, with which writes drain before more of them


class Look(wiring.Signature):
    """Whether the oldest command may go on (`waits`), or is a header whose tile is not there (`missing`); whether
    fewer than FEW are there, or no more fit."""

    def __init__(self) -> None:
        super().__init__({name: Out(1) for name in ("waits", "missing", "few", "full")})


class PimQueue(wiring.Component):
    """PIM commands in order of arrival.

    head: the oldest; now: as it stands; after: without the one that leaves in this clock. leaves: head issues.
    enters: `entry` comes. A header goes on when the last command of its tile is there, or nothing more fits.
    row, col, bank: a column; copied: whether a copy of it waits, of what has not issued.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        super().__init__(
            {
                "head": Out(plan.dot()),
                "now": Out(Look()),
                "after": Out(Look()),
                "leaves": In(1),
                "enters": In(1),
                "entry": In(plan.dot()),
                **{name: In(shape) for name, shape in plan.address().items()},
                "copied": Out(1),
            }
        )
        self.line = registers(plan.dot(), plan.pim_queue, "dot")
        self.tiles = Signal(range(plan.pim_queue + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = self.line
        m.d.comb += self.head.eq(line.entries[0])
        tiles = Signal.like(self.tiles, name="tiles_after")
        m.d.comb += tiles.eq(self.tiles - (self.leaves & self.head.last))
        rest = self._rest(m)
        self._look(m, self.now, line, self.tiles)
        self._look(m, self.after, rest, tiles)
        m.d.comb += self.copied.eq(any_of(self._copies(rest, i, e) for i, e in enumerate(rest.entries)))
        keep(m, line, added(m, rest, self.enters, self.entry, "next"))
        m.d.sync += self.tiles.eq(tiles + (self.enters & self.entry.last))
        return m

    def _rest(self, m: Module) -> Line:
        which = Signal(self.plan.pim_queue, name="leaving")
        m.d.comb += which.eq(self.leaves)
        return taken(m, self.line, which, "rest")

    def _copies(self, line: Line, i: int, entry: data.View) -> Value:
        same = [entry[name] == getattr(self, name) for name in self.plan.address()]
        return line.there(i) & (entry.cmd == self.plan.op.gwrite) & ~any_of(~x for x in same)

    def _look(self, m: Module, look: wiring.PureInterface, line: Line, tiles: Value) -> None:
        full, some = line.length == self.plan.pim_queue, line.length != 0
        header = line.entries[0].cmd == self.plan.op.header
        m.d.comb += [
            look.full.eq(full),
            look.few.eq(line.length < FEW),
            look.missing.eq(some & ~full & header & (tiles == 0)),
            look.waits.eq(some & ~look.missing),
        ]
