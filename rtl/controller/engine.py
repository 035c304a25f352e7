# amaranth: UnusedElaboratable=no
"""The sequencer of a core: one stream, whose GEMVs are as long as their counts say, in clocks of one CK or several."""

from dataclasses import replace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.utils import bits_for

from pimloom.arch.command import Level
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.table import RuleRow, Table
from pimloom.rtl.binding import bound_at, groups, on_one_bus
from pimloom.rtl.command import Decoded, Kept, any_of, command_layout
from pimloom.rtl.controller.closing import closers
from pimloom.rtl.controller.moments import Moments
from pimloom.rtl.controller.phases import PhaseTimer
from pimloom.rtl.controller.rows_ahead import AdmittedRows
from pimloom.rtl.npu_pim.plan import COUNT_BITS
from pimloom.rtl.rows import Asker, State
from pimloom.rtl.sequencer import Sequencer


class Engine(Sequencer):
    """A sequencer of one stream on a table without moments, whose commands were admitted.

    coming: what is at its head in the next clock, where in this one nothing is or what is there issues; count: COMPs of
    that, of a GEMV. Whether rules bind a command is found a clock before it is asked, so that a clock has no more to do
    than to grant it. Rules that count from the end of a GEMV wait as long as its multiplications, count x comp_ck and
    at least least_ck, and what the rule says, from its issue on.

    phases: CK of a clock. With several, one command issues in a clock, whatever its bus, in the first CK of it in which
    it is legal: phase. tREFI is then rounded down to clocks.
    """

    def __init__(self, moments: Moments, comp_ck: int = 0, least_ck: int = 0, phases: int = 1) -> None:
        super().__init__(_in_clocks(moments.table, phases))
        self.phases, self.phase = phases, Signal(range(phases))
        self.firsts, self.rows = list[Signal](), AdmittedRows(self.rules)
        self.until_due = [Signal(bits_for(self.rules.refi), init=self.rules.refi, name="until_due")]
        self.bound, self.coming = list[Signal](), Signal(command_layout(self.table), name="coming")
        if any(row.window > 1 and not on_one_bus(self.rules, row) for row in self.rule_rows):
            raise UserError("a rule of this part counts several commands of two buses")
        self.moments, self.comp_ck, self.least_ck = moments, comp_ck, least_ck
        self.count, longest = Signal(COUNT_BITS), max(least_ck, comp_ck * ((1 << COUNT_BITS) - 1))
        self.gemv_ck = Signal(bits_for(longest))
        for i, node in self.timers:
            row = self.rule_rows[i]
            ends = i in moments.ended
            wait, bits = (None, bits_for(longest + row.wait)) if ends else (row.wait, 0)
            self.timers[i, node] = PhaseTimer(row.window, wait, bits, phases)

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        product = self.count * Const(self.comp_ck)
        coming_ck = Mux(product < self.least_ck, self.least_ck, product)
        m.d.sync += self.gemv_ck.eq(Mux(self.moves, coming_ck, self.gemv_ck))
        for (i, _), timer in self.timers.items():
            m.d.comb += timer.phase.eq(self.phase)
            if i in self.moments.ended:
                m.d.comb += timer.wait.eq(self.gemv_ck + self.rule_rows[i].wait)
        return m

    def _head(self, m: Module, s: int) -> Decoded:
        head = self.heads[s]
        self.moves = Signal(name="head_moves")
        m.d.comb += self.moves.eq(~head.valid | head.ready)
        self.comes = Decoded(m, self.rules, self.coming, "coming")
        first = closers(self.table)[0]["cmd"]
        return Kept(m, self.comes, self.moves, head.payload.row, first, f"head_{s}")

    def _busy(self, m: Module) -> dict[int, Value]:
        self.still = [self._by_rule(m, f"still_{p}", lambda timer, p=p: timer.still[p]) for p in range(self.phases)]
        return self.still[0]

    def _falls_due(self, m: Module, n: int, until: Signal) -> Value:
        falls = Signal(name="refresh_falls_due")
        m.d.sync += [falls.eq(until == 1), until.eq(Mux(falls, self.rules.refi, until) - 1)]
        return falls

    def _may(self, m: Module, name: str, who: Asker, wants: Value, granted: list[Value], askers: list[Asker]) -> Value:
        bound, first = Signal(self.phases, name=f"{name}_bound"), Signal(range(self.phases), name=f"{name}_phase")
        self.bound.append(bound)
        m.d.comb += first.eq(sum(bound[phase] for phase in range(self.phases - 1)))
        self.firsts.append(first)
        now = any_of(g & self._meet(who, a, None) for g, a in zip(granted, askers, strict=False))
        return wants & ~bound[-1] & ~now & ~self._taken(who, granted, askers) & ~self.starved

    def _issue(self, m: Module, askers: list[Asker], granted: list[Value], state: State) -> None:
        super()._issue(m, askers, granted, state)
        m.d.comb += self.phase.eq(self.firsts[-1])
        for first, grant in zip(self.firsts[:-1], granted[:-1], strict=True):
            with m.If(grant):
                m.d.comb += self.phase.eq(first)
        issued = list(zip(granted, askers, strict=True))
        for n, who in enumerate(askers[:-1]):
            m.d.sync += self.bound[n].eq(self._soon(m, f"refresh_{n}_soon", who, issued))
        stays = self._soon(m, "head_soon", askers[-1], issued[:-1])
        comes = self._soon(m, "coming_soon", self.comes, issued)
        m.d.sync += self.bound[-1].eq(Mux(self.moves, comes, stays))

    def _soon(self, m: Module, name: str, who: Asker, issued: list[tuple[Value, Asker]]) -> Value:
        """By CK of the next clock, whether rules bind the command there."""
        found = list[Value]()
        for phase, busy in enumerate(self.still):
            self.busy = busy  # of which `_bound` asks
            still, pairs = Signal(name=f"{name}_{phase}"), Signal(len(issued), name=f"{name}_{phase}_behind")
            m.d.comb += still.eq(self._bound(m, f"{name}_{phase}", who, []))
            m.d.comb += pairs.eq(Cat(self._meet(who, by, phase) for _, by in issued))
            found.append(still | (pairs & Cat(grant for grant, _ in issued)).any())
        return Cat(found)

    def _meet(self, who: Asker, by: Asker, phase: int | None) -> Value:
        """Whether a rule that `by` begins in this clock binds a command in a CK of the next one; None: in this one, on
        the other bus."""
        found = list[Value]()
        for i, row in enumerate(self.rule_rows):
            nodes = [n for n in range(int(self.rules.size[row.level])) if (i, n) in self.timers]
            if not nodes or not self._may_be(by, row.after) or phase is None and on_one_bus(self.rules, row):
                continue
            for level, opcodes in groups(self.rules, row):
                if self._may_be(who, opcodes):
                    again = [Const(1, 1) if phase is None else self.timers[i, n].again[phase] for n in nodes]
                    if row.window == 1:
                        where = self._same(who, by, row, level) & again[0]
                    else:
                        at = (by.at(row.level, n) & bound_at(self.rules, who, row, level, n) for n in nodes)
                        where = any_of(a & b for a, b in zip(at, again, strict=True))
                    found.append(who.is_(opcodes) & by.is_(row.after) & where)
        return any_of(found)

    def _same(self, who: Asker, by: Asker, row: RuleRow, level: Level) -> Value:
        nodes = range(int(self.rules.size[row.level]))
        return any_of(by.at(row.level, n) & bound_at(self.rules, who, row, level, n) for n in nodes)


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
