# amaranth: UnusedElaboratable=no
"""The sequencer of a core: one stream, whose GEMVs are as long as their counts say."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.utils import bits_for

from pimloom.arch.part import Part
from pimloom.rtl.controller.moments import Moments
from pimloom.rtl.npu_pim.plan import COUNT_BITS
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import Timer


class Engine(Sequencer):
    """A sequencer of one stream on a table without moments.

    count: COMPs of the GEMV at its head. Rules that count from the end of a GEMV wait as long as its multiplications,
    count x comp_ck and at least least_ck, and what the rule says, from its issue on.
    """

    def __init__(self, moments: Moments, comp_ck: int = 0, least_ck: int = 0) -> None:
        super().__init__(moments.table)
        self.moments, self.comp_ck, self.least_ck = moments, comp_ck, least_ck
        self.count = Signal(COUNT_BITS)
        self.ends = {}
        for i in sorted(moments.ended):
            wait = self.rule_rows[i].wait
            bits = bits_for(max(least_ck, comp_ck * ((1 << COUNT_BITS) - 1)) + wait)
            for node in range(int(self.rules.size[self.rule_rows[i].level])):
                self.ends[i, node] = self.timers[i, node] = Timer(self.rule_rows[i].window, None, bits, self.n_buses)

    @property
    def rule_timers(self) -> dict[str, dict[str, int]]:
        """Of the timers whose waits are constants."""
        return {f"rule_{i}_{n}": t.parameters for (i, n), t in self.timers.items() if (i, n) not in self.ends}

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        if self.ends:
            product = self.count * Const(self.comp_ck)
            busy = Signal(max(len(product), bits_for(self.least_ck)), name="gemv_ck")
            m.d.comb += busy.eq(Mux(product < self.least_ck, self.least_ck, product))
            for (i, _), timer in self.ends.items():
                m.d.comb += timer.wait.eq(busy + self.rule_rows[i].wait)
        return m


def gemv_clocks(part: Part) -> tuple[int, int]:
    """Clocks [CK] of a COMP and the least of a GEMV; 0 of a part without them."""
    comp, least = (part.cycles(name) if name in part.timing else 0 for name in ("nCOMP", "nGEMV"))
    return comp, least
