# amaranth: UnusedElaboratable=no
"""Small machines of a PIM channel's controller: when refresh is due, whose turn it is, which rows are open."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.npu_pim.plan import Plan

DUE_BITS = 4  # of refreshes that are due: each takes its turn before two more are


class RefreshClock(wiring.Component):
    """A refresh falls due every slice_ck clocks, of one rank after the other.

    due: one is, of `rank`, in this clock. slack: clocks until the next falls due. done: it issues.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        slack = range(plan.slice_ck + 1)
        super().__init__({"due": Out(1), "rank": Out(range(plan.ranks)), "slack": Out(slack), "done": In(1)})
        self.phase = Signal(range(plan.slice_ck))
        self.started = Signal()

    def elaborate(self, platform: object) -> Module:
        m, last = Module(), self.phase == self.plan.slice_ck - 1
        owed = Signal(DUE_BITS)
        now = Signal(DUE_BITS)
        m.d.comb += [
            now.eq(owed + (self.started & (self.phase == 0))),
            self.due.eq(now != 0),
            self.slack.eq(self.plan.slice_ck - self.phase),
        ]
        m.d.sync += [self.started.eq(1), self.phase.eq(Mux(last, 0, self.phase + 1)), owed.eq(now - self.done)]
        with m.If(self.done):
            m.d.sync += self.rank.eq(Mux(self.rank == self.plan.ranks - 1, 0, self.rank + 1))
        return m


class RoundRobin(wiring.Component):
    """One of the banks that want to issue, the one behind the last first.

    chooses: one may issue. one: only the bank behind the last may, and the turn goes on if it does not.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        super().__init__({"wants": In(plan.banks), "chooses": In(1), "one": In(1), "which": Out(plan.banks)})
        self.last = Signal(range(plan.banks))

    def elaborate(self, platform: object) -> Module:
        m, banks = Module(), self.plan.banks
        behind = Signal(banks)
        next_one = Signal.like(self.last)
        turned = Signal(banks)
        m.d.comb += [
            next_one.eq(Mux(self.last == banks - 1, 0, self.last + 1)),
            behind.eq(self.wants & ~((Const(2, banks + 1) << self.last) - 1)),
            turned.eq(Mux(behind.any(), behind, self.wants)),
        ]
        with m.If(self.chooses):
            m.d.comb += self.which.eq(Mux(self.one, self.wants & (1 << next_one), turned & (~turned + 1)))
            with m.If(self.one):
                m.d.sync += self.last.eq(next_one)
        for b in range(banks):
            with m.If(self.which[b]):
                m.d.sync += self.last.eq(b)
        return m


class OpenRows(wiring.Component):
    """Which rows are open, and how often the MEM row of a bank was read or written, up to the cap.

    act, pre, access: of `bank`; g_act: of its group, in the PIM row buffer where there is one; row: that opens.
    closes: banks whose PIM row closes. mem_open, mem_row, pim_open, pim_row: with one row buffer both are the same.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        row = range(plan.table.rules.rows)
        ins = {name: In(1) for name in ("act", "pre", "access", "g_act")}
        rows = {f"{buffer}_row": Out(row).array(plan.banks) for buffer in ("mem", "pim")}
        bits = {name: Out(plan.banks) for name in ("mem_open", "pim_open", "capped")}
        where = {"bank": In(range(plan.banks)), "row": In(row), "closes": In(plan.banks)}
        super().__init__({**ins, **where, **rows, **bits})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for b in range(self.plan.banks):
            self._bank(m, b)
        return m

    def _bank(self, m: Module, b: int) -> None:
        plan, served = self.plan, Signal(range(self.plan.cap + 1), name=f"served_{b}")
        mem, mem_row = Signal(name=f"mem_open_{b}"), Signal(range(plan.table.rules.rows), name=f"mem_row_{b}")
        m.d.comb += [self.mem_open[b].eq(mem), self.mem_row[b].eq(mem_row), self.capped[b].eq(served == plan.cap)]
        here, group = self.bank == b, self.bank // plan.group == b // plan.group
        opens = (here & self.act) | (group & self.g_act & (not plan.dual))
        with m.If(here & self.access & (served != plan.cap)):
            m.d.sync += served.eq(served + 1)
        with m.If(opens):
            m.d.sync += [mem.eq(1), mem_row.eq(self.row), served.eq(0)]
        with m.If(here & self.pre):
            m.d.sync += [mem.eq(0), served.eq(0)]
        if not plan.dual:
            m.d.comb += [self.pim_open[b].eq(mem), self.pim_row[b].eq(mem_row)]
            return
        pim, pim_row = Signal(name=f"pim_open_{b}"), Signal.like(mem_row, name=f"pim_row_{b}")
        m.d.comb += [self.pim_open[b].eq(pim), self.pim_row[b].eq(pim_row)]
        with m.If(group & self.g_act):
            m.d.sync += [pim.eq(1), pim_row.eq(self.row)]
        with m.If(self.closes[b]):
            m.d.sync += pim.eq(0)
