# amaranth: UnusedElaboratable=no
"""What comes back, and when."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.npu_pim.plan import COUNT_BITS, Plan


class Answers(wiring.Signature):
    """What is due in this clock: the oldest `merged` reads of `column`; the oldest copy, COMP, READRES, GEMV."""

    def __init__(self, plan: Plan) -> None:
        bits = {name: Out(1) for name in ("reads", "copy", "comp", "result", "gemv")}
        super().__init__({**bits, "column": Out(plan.column()), "merged": Out(plan.held_bits())})


class Responses(wiring.Component):
    """Answers of a channel, each in the clock in which it is due.

    read, readres, gemv, gwrite, comp: what issues in this clock; at: column of the read; merged: requests that end with
    it; count: COMPs of the GEMV; rank: of the copy. quick: requests answered in the next clock.
    reads: of the column `column`, the oldest `merged` of those accepted; dones: a copy, COMP, READRES, GEMV, each the
    oldest of its kind that has issued. handed: how many answers these are, and those at once.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        names = ("read", "readres", "gemv", "gwrite", "comp")
        column, merged = data.StructLayout(plan.address()), plan.held_bits()
        super().__init__(
            {
                **{name: In(1) for name in names},
                "at": In(column),
                "merged": In(merged),
                "count": In(COUNT_BITS),
                "rank": In(range(plan.ranks)),
                "quick": In(plan.offers),
                "reads": Out(1),
                "column": Out(column),
                "of_read": Out(merged),
                "copy": Out(1),
                "comps": Out(1),
                "result": Out(1),
                "gemvs": Out(1),
                "handed": Out(merged),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m, plan = Module(), self.plan
        bits = {name: 1 for name in ("read", "readres", "gemv")}
        late = data.StructLayout({**bits, "column": self.column.shape(), "merged": len(self.merged)})
        now = Signal(late, name="issued")
        ends = self._gemv_ends(m)
        m.d.comb += [
            now.read.eq(self.read),
            now.readres.eq(self.readres),
            now.gemv.eq(ends),
            now.column.eq(self.at),
            now.merged.eq(self.merged),
        ]
        for i in range(plan.read_ck):
            after = Signal(late, name=f"late_{i + 1}")
            m.d.sync += after.eq(now)
            now = after
        quick, comps = Signal(plan.offers, name="quick_now"), Signal(name="comp_now")
        m.d.sync += [quick.eq(self.quick), comps.eq(self.comp)]
        m.d.comb += [
            self.reads.eq(now.read),
            self.column.eq(now.column),
            self.of_read.eq(now.merged),
            self.result.eq(now.readres),
            self.gemvs.eq(now.gemv),
            self.comps.eq(comps),
            self.copy.eq(self._copies(m)),
        ]
        answers = sum((quick[j] for j in range(plan.offers)), start=self.copies + comps + now.readres + now.gemv)
        m.d.comb += self.handed.eq(answers + Mux(now.read, now.merged, 0))
        return m

    def _gemv_ends(self, m: Module) -> Signal:
        """The last COMP of a GEMV has entered the tree in this clock."""
        plan = self.plan
        busy = Signal(range(plan.comp_ck * (1 << COUNT_BITS) + plan.tree_ck), name="comps_to_go")
        last = Signal(name="last_comp")
        span = self.count * plan.comp_ck
        m.d.comb += last.eq(busy == 1)
        m.d.sync += busy.eq(Mux(self.gemv, Mux(span > plan.tree_ck, span, plan.tree_ck), busy - (busy != 0)))
        return last

    def _copies(self, m: Module) -> Signal:
        """Copies that end in this clock; each rank has one at a time."""
        ends = Signal(self.plan.ranks, name="copies_end")
        for r in range(self.plan.ranks):
            left = Signal(range(self.plan.copy_ck + 1), name=f"copy_left_{r}")
            begins = self.gwrite & (self.rank == r)
            m.d.comb += ends[r].eq(left == 1)
            m.d.sync += left.eq(Mux(begins, self.plan.copy_ck, left - (left != 0)))
        self.copies = sum((ends[r] for r in range(self.plan.ranks)), start=0)
        return ends.any()
