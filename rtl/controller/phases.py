# amaranth: UnusedElaboratable=no
"""The clocks that a rule still asks for, a clock ahead, where a clock of the controller has one CK or several."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.rtl.timer import Timer


class PhaseTimer(Timer):
    """One rule at one node, as `Timer` counts it, in CK: `phases` of them are a clock.

    wait: CK that a rule asks for (int), or None: an input port of `bits`. arm: an arming in this clock, in its CK
    `phase`. still[p]: whether the rule binds in CK p of the next clock where nothing arms it in this one, and again[p]:
    where something does, in its CK `phase`.
    """

    def __init__(self, window: int, wait: int | None, bits: int, phases: int) -> None:
        self.window, self.phases, self.most = window, phases, 1
        self.bits = bits if wait is None else bits_for(wait)
        ports = {"arm": In(1), "phase": In(range(phases)), "still": Out(phases), "again": Out(phases)}
        wiring.Component.__init__(self, ports | ({"wait": In(bits)} if wait is None else {}))
        if wait is not None:
            self.wait = Const(wait, self.bits)
        self.left = [Signal(self.bits, name=f"left_{i}") for i in range(window)]
        self.over = [Signal(phases, name=f"over_{i}") for i in range(window)]

    @property
    def module(self) -> str:
        """Name of its module in Verilog: equal timers are instances of one."""
        return f"{super().module}_{self.phases}ck"

    def elaborate(self, platform: object) -> Module:
        m = Module()
        full = Signal(self.bits)
        with m.Switch(self.phase):
            for phase in range(self.phases):
                with m.Case(phase):
                    m.d.comb += full.eq(_less(self.wait, self.phases - phase))
        lower = [
            Mux(over[0], left - self.phases, 0)[: self.bits] for left, over in zip(self.left, self.over, strict=True)
        ]
        later = [self._over(left, 2 * self.phases) for left in self.left]
        for i, (left, over) in enumerate(zip(self.left, self.over, strict=True)):
            m.d.sync += left.eq(Array([lower[i], lower[i - 1] if i else full])[self.arm])
            m.d.sync += over.eq(Array([later[i], later[i - 1] if i else self._over(full, self.phases)])[self.arm])
        m.d.comb += [
            self.still.eq(self.over[-1]),
            self.again.eq(self.over[-2] if self.window > 1 else self._over(full, 0)),
        ]
        return m

    def _over(self, left: Value, by: int) -> Value:
        """By CK of a clock, whether more is left than those and `by`."""
        return Cat(left > by + phase for phase in range(self.phases))


def _less(value: Value, by: int) -> Value:
    """The value less so much, at least 0."""
    return Mux(value > by, value - by, 0)
