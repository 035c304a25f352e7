# amaranth: UnusedElaboratable=no
"""The sequencer of a core: one stream, whose GEMVs are as long as their counts say, in clocks of one CK or several."""

from dataclasses import replace

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.utils import bits_for

from pimloom.arch.part import Part
from pimloom.arch.table import Table
from pimloom.rtl.controller.moments import Moments
from pimloom.rtl.controller.phases import PhaseTimer
from pimloom.rtl.controller.rows_ahead import AdmittedRows
from pimloom.rtl.npu_pim.plan import COUNT_BITS
from pimloom.rtl.rows import Asker
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import Timer


class Engine(Sequencer):
    """A sequencer of one stream on a table without moments, whose commands were admitted.

    count: COMPs of the GEMV at its head. Rules that count from the end of a GEMV wait as long as its multiplications,
    count x comp_ck and at least least_ck, and what the rule says, from its issue on.

    phases: CK of a clock. With several, one command issues in a clock, whatever its bus, in the first CK of it in which
    it is legal: phase. tREFI is then rounded down to clocks.
    """

    def __init__(self, moments: Moments, comp_ck: int = 0, least_ck: int = 0, phases: int = 1) -> None:
        super().__init__(_in_clocks(moments.table, phases))
        self.phases, self.phase = phases, Signal(range(phases))
        self.firsts, self.rows = list[Signal](), AdmittedRows(self.rules)
        self.bound_at = list[dict[int, Signal]]()
        if phases > 1:
            for at, timer in self.timers.items():
                self.timers[at] = PhaseTimer(timer.window, self.rule_rows[at[0]].wait, 0, phases)
        self.moments, self.comp_ck, self.least_ck = moments, comp_ck, least_ck
        self.count = Signal(COUNT_BITS)
        self.ends = {}
        for i in sorted(moments.ended):
            wait = self.rule_rows[i].wait
            bits = bits_for(max(least_ck, comp_ck * ((1 << COUNT_BITS) - 1)) + wait)
            for node in range(int(self.rules.size[self.rule_rows[i].level])):
                timer = PhaseTimer(1, None, bits, phases) if phases > 1 else Timer(1, None, bits, self.n_buses)
                self.ends[i, node] = self.timers[i, node] = timer

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        if self.ends:
            product = self.count * Const(self.comp_ck)
            busy = Signal(max(len(product), bits_for(self.least_ck)), name="gemv_ck")
            m.d.comb += busy.eq(Mux(product < self.least_ck, self.least_ck, product))
            for (i, _), timer in self.ends.items():
                m.d.comb += timer.wait.eq(busy + self.rule_rows[i].wait)
        for asker, first in enumerate(self.firsts):
            with m.If(self.buses[0].source == asker):
                m.d.comb += self.phase.eq(first)
        for (i, node), timer in self.timers.items():
            if isinstance(timer, PhaseTimer):
                m.d.comb += timer.phase.eq(self.phase)
                for busy, late in zip(self.bound_at[1:], timer.late, strict=True):
                    m.d.comb += busy[i][node].eq(late[self.rule_rows[i].window - 1])
        return m

    def _may(self, m: Module, name: str, who: Asker, wants: Value, granted: list[Value], askers: list[Asker]) -> Value:
        if self.phases == 1:
            return super()._may(m, name, who, wants, granted, askers)
        now, rows = self.busy, list(enumerate(self.rule_rows))
        if not self.bound_at:
            later = [{i: self._of_nodes(f"rule_{i}_busy_{p}", row) for i, row in rows} for p in range(1, self.phases)]
            self.bound_at = [now, *later]
        bound, first = Signal(self.phases, name=f"{name}_bound"), Signal(range(self.phases), name=f"{name}_phase")
        for phase, busy in enumerate(self.bound_at):
            self.busy = busy  # of which `_bound` asks
            m.d.comb += bound[phase].eq(self._bound(m, f"{name}_{phase}", who, []))
        self.busy = now
        m.d.comb += first.eq(sum(bound[phase] for phase in range(self.phases - 1)))
        self.firsts.append(first)
        return wants & ~bound[-1] & ~self._taken(who, granted, askers) & ~self.starved


def _in_clocks(table: Table, phases: int) -> Table:
    """The table with one bus and tREFI in clocks of several CK; waits stay in CK."""
    if phases == 1:
        return table
    rules = table.rules
    return replace(table, rules=rules._replace(bus=0 * rules.bus, refi=rules.refi // phases))


def gemv_clocks(part: Part) -> tuple[int, int]:
    """Clocks [CK] of a COMP and the least of a GEMV; 0 of a part without them."""
    comp, least = (part.cycles(name) if name in part.timing else 0 for name in ("nCOMP", "nGEMV"))
    return comp, least
