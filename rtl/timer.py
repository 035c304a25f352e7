"""The clocks that a rule still asks for, at one of its nodes."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for


class Timer(wiring.Component):
    """One rule at one node: a chain of `window` counters, the latest arming first.

    arm: armings in this clock, at most `most`. busy[i]: whether the (i+1)-th latest arming before this clock is less
    than `wait` clocks ago, so the rule binds in this clock where busy[window - 1] is high. Starts idle.
    """

    def __init__(self, window: int, wait: int | None, bits: int = 0, most: int = 1) -> None:
        """wait: clocks that a rule asks for, or None: an input port of `bits`, read in the clock of an arming."""
        self.window, self.most = window, most
        self.bits = bits if wait is None else bits_for(wait)
        super().__init__(
            {"arm": In(range(most + 1)), "busy": Out(window)} | ({"wait": In(bits)} if wait is None else {})
        )
        if wait is not None:
            self.wait = Const(wait, self.bits)
        self.left = [Signal(self.bits, name=f"left_{i}") for i in range(window)]

    @property
    def module(self) -> str:
        """Name of its module in Verilog: equal timers are instances of one."""
        wait = f"wait{self.wait.value}" if isinstance(self.wait, Const) else f"{self.bits}bits"
        return f"rule_timer_window{self.window}_{wait}{f'_arm{self.most}' if self.most > 1 else ''}"

    def elaborate(self, platform: object) -> Module:
        m = Module()
        full = Signal(self.bits)
        m.d.comb += full.eq(Mux(self.wait == 0, 0, self.wait - 1))
        lower = [Signal(self.bits, name=f"lower_{i}") for i in range(self.window)]
        for i, left in enumerate(self.left):
            m.d.comb += self.busy[i].eq(left != 0)
            m.d.comb += lower[i].eq(Mux(left == 0, 0, (left - 1)[: self.bits]))
            # what stands here next clock, by the number of armings that push the chain on
            choice = [full if armed > i else lower[i - armed] for armed in range(self.most + 1)]
            m.d.sync += left.eq(Array(choice)[self.arm])
        return m
