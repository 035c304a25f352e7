# amaranth: UnusedElaboratable=no
"""The path controller of an optical-switch transceiver in gates: `cycle_sim/ocs.py` clock for clock, from one table."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.arch.optics import SwitchTable

TAG_BITS = 8
STAGES = ARRIVAL, KEPT, SWITCH = ("arrival", "kept", "switch")  # where a request ends


def request_layout(table: SwitchTable) -> data.StructLayout:
    """A request: `entry` of the path table, which need not be there, and a tag that comes back with its end."""
    return data.StructLayout({"valid": 1, "entry": bits_for(len(table.entries)), "tag": TAG_BITS})


def end_layout() -> data.StructLayout:
    """The end of a request: served, or refused."""
    return data.StructLayout({"valid": 1, "served": 1, "tag": TAG_BITS})


def entries_layout(table: SwitchTable) -> data.ArrayLayout:
    """The layout of the path table: for each entry its path, and the entry of its backup."""
    entry = {"path": range(table.paths), "backup": range(len(table.entries))}
    return data.ArrayLayout(data.StructLayout(entry), len(table.entries))


class OcsSwitch(wiring.Component):
    """Keeps one path live at a time and switches on request, or by itself where the live path has failed.

    request: at most one a clock. light: a bit for each path. data: a word is offered; it is taken in every clock in
    which a bit of `live` is high, and else refused. live: the path that takes data, none during a switch; closed: the
    path that has light through the module, from the start of its retrain on. Of the clock before: sent: the path that a
    word went to; ends: requests that ended on arrival, when kept, and with their switch.
    """

    def __init__(self, table: SwitchTable, bits: int = 0) -> None:
        """bits: times are ports of that many bits, and so are the entries of the table, all steady from reset on: one
        netlist serves all transceivers of as many paths and entries. `decide` and `blackout` are at least 1."""
        self.switch_table, self.bits = table, bits
        members = {
            "request": In(request_layout(table)),
            "light": In(table.paths),
            "data": In(1),
            "live": Out(table.paths),
            "closed": Out(table.paths),
            "sent": Out(table.paths),
            "ends": Out(data.StructLayout(dict.fromkeys(STAGES, end_layout()))),
        }
        times = ("detect", "decide", "blackout", "retrain")
        ports = {name: In(bits) for name in times} | {"entries": In(entries_layout(table))}
        super().__init__(members | (ports if bits else {}))
        if not bits:
            for name in times:
                setattr(self, name, Const(getattr(table, name)))
            rows = [{"path": path, "backup": backup} for path, backup in table.entries]
            self.entries = entries_layout(table).const(rows)
        self.entry = Signal(range(len(table.entries)))
        self.busy, self.left = Signal(name="busy"), Signal(bits + 1 if bits else bits_for(table.switch), name="left")
        """Whether the module switches, and the clocks of the switch that are left after this one."""
        self.dark = [Signal(bits or bits_for(table.detect), name=f"dark_{path}") for path in range(table.paths)]
        """Clocks without light before this one, up to `detect`."""
        self.bad = Signal(bits or bits_for(table.decide))
        """Clocks before this one in which the live path had failed, up to `decide` - 1."""
        self.owner, self.kept = Signal(end_layout(), name="owner"), Signal(request_layout(table), name="kept")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        live, failed = Signal(name="live"), self._failed(m)
        current = self._look_up(m, "current", self.entry)
        now, dark = current.path, self._is_dark(m, "current", failed, current)
        m.d.comb += live.eq(~self.busy)
        m.d.comb += [
            self.live.eq(self._open(live, now)),
            self.closed.eq(self._open(live | (self.left < self.retrain), now)),
        ]
        m.d.sync += self.sent.eq(Mux(self.data, self.live, 0))

        there, picked = Signal(name="there"), Signal(request_layout(self.switch_table), name="picked")
        m.d.comb += there.eq(self.request.valid & (self.request.entry < len(self.switch_table.entries)))
        m.d.comb += picked.eq(Mux(there, self.request, self.kept))
        target, can, go, at_once = (
            Signal.like(self.entry, name="target"),
            Signal(name="can"),
            Signal(name="go"),
            Signal(name="at_once"),
        )
        number = picked.entry[: len(self.entry)]
        asked = self._look_up(m, "asked", number)
        m.d.comb += target.eq(Mux(self._is_dark(m, "asked", failed, asked), asked.backup, number))
        goal = self._look_up(m, "goal", target)
        m.d.comb += can.eq(live & picked.valid & ~self._is_dark(m, "goal", failed, goal))
        m.d.comb += [at_once.eq(can & (goal.path == now)), go.eq(can & ~at_once)]

        over, backup = Signal(name="over"), self._look_up(m, "backup", current.backup)
        lost = live & dark
        m.d.comb += over.eq(lost & (self.bad + 1 == self.decide) & ~self._is_dark(m, "backup", failed, backup) & ~go)
        m.d.sync += self.bad.eq(Mux(lost, self.bad + (self.bad + 1 != self.decide), 0))
        m.d.sync += self.left.eq(Mux(live, self.blackout + self.retrain, self.left) - 1)
        m.d.sync += self.busy.eq(Mux(live, go | over, self.left != 0))
        m.d.sync += self.entry.eq(Mux(go | at_once, target, Mux(over, current.backup, self.entry)))

        self._hold(m, live, go, there, picked)
        self._report(m, live, go, at_once, there, dark)
        return m

    def _failed(self, m: Module) -> Signal:
        """A bit for each path: it had no light in this clock and the `detect` ones before."""
        failed = Signal(self.switch_table.paths)
        for path, dark in enumerate(self.dark):
            lit = self.light[path]
            m.d.comb += failed[path].eq(~lit & (dark == self.detect))
            m.d.sync += dark.eq(Mux(lit, 0, dark + (dark != self.detect)))
        return failed

    def _hold(self, m: Module, live: Value, go: Value, there: Value, picked: Value) -> None:
        """The request that a switch is made for, and the one that is kept meanwhile."""
        with m.If(live):
            m.d.sync += [self.owner.valid.eq(go), self.owner.tag.eq(picked.tag), self.kept.valid.eq(0)]
        with m.Elif(there):
            m.d.sync += self.kept.eq(self.request)

    def _report(self, m: Module, live: Value, go: Value, at_once: Value, there: Value, failed: Value) -> None:
        decided = live & ~go
        ends = {
            ARRIVAL: (self.request.valid & (~there | decided), there & at_once, self.request.tag),
            KEPT: (self.kept.valid & (there | decided), ~there & at_once, self.kept.tag),
            SWITCH: (self.owner.valid & live, ~failed, self.owner.tag),
        }
        for stage, (valid, served, tag) in ends.items():
            end = self.ends[stage]
            m.d.sync += [end.valid.eq(valid), end.served.eq(valid & served), end.tag.eq(Mux(valid, tag, 0))]

    def _open(self, when: Value, path: Value) -> Value:
        return Mux(when, 1 << path, 0)

    def _look_up(self, m: Module, name: str, entry: Value) -> data.View:
        """An entry of the table; 0 where the table has none of that number."""
        found = Signal(self.entries.shape().elem_shape, name=name)
        with m.Switch(entry):
            for number in range(len(self.switch_table.entries)):
                with m.Case(number):
                    m.d.comb += found.eq(self.entries[number])
        return found

    def _is_dark(self, m: Module, name: str, failed: Value, entry: data.View) -> Signal:
        """Whether the path of an entry has failed."""
        dark = Signal(name=f"{name}_failed")
        m.d.comb += dark.eq(failed.bit_select(entry.path, 1))
        return dark
