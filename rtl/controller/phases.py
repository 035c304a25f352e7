# amaranth: UnusedElaboratable=no
"""The clocks that a rule still asks for, where several CK pass in a clock of the controller."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.rtl.timer import Timer


class PhaseTimer(Timer):
    """One rule at one node, as `Timer` counts it, in CK: `phases` of them are a clock.

    wait: CK that a rule asks for (int), or None: an input port of `bits`. arm: an arming in this clock, in its CK
    `phase`. busy[i]: whether the (i+1)-th latest arming before this clock is less than `wait` CK before its first CK;
    late[p][i]: the same of the CK behind that.
    """

    def __init__(self, window: int, wait: int | None, bits: int, phases: int) -> None:
        self.window, self.phases, self.most = window, phases, 1
        self.bits = bits if wait is None else bits_for(wait)
        ports = {"arm": In(1), "phase": In(range(phases)), "busy": Out(window), "late": Out(window).array(phases - 1)}
        wiring.Component.__init__(self, ports | ({"wait": In(bits)} if wait is None else {}))
        if wait is not None:
            self.wait = Const(wait, self.bits)
        self.left = [Signal(self.bits, name=f"left_{i}") for i in range(window)]

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
        lower = [_less(left, self.phases)[: self.bits] for left in self.left]
        for i, left in enumerate(self.left):
            m.d.comb += [busy[i].eq(left > phase) for phase, busy in enumerate((self.busy, *self.late))]
            m.d.sync += left.eq(Array([lower[i], lower[i - 1] if i else full])[self.arm])
        return m


def _less(value: Value, by: int) -> Value:
    """The value less so much, at least 0."""
    return Mux(value > by, value - by, 0)
