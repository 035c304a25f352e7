# amaranth: UnusedElaboratable=no
"""A table of power-up steps as a sequence of pins and commands."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out
from amaranth.utils import bits_for

from pimloom.arch.power_up import MRS, ZQCL, Step

VALUE_BITS = 14  # A13 to A0
PINS = data.StructLayout({"reset_n": 1, "cke": 1, "mrs": 1, "zqcl": 1, "register": 3, "value": VALUE_BITS})


class PowerUp(wiring.Component):
    """Plays the steps once after reset, each for its wait. pins: RESET_n, CKE, and in the first clock of a step (its
    first CK) its command, to all ranks, with number and value of the mode register. done: high from the clock behind
    the last wait on; the pins stay as the last step has them.
    """

    def __init__(self, steps: Sequence[Step], phases: int = 1) -> None:
        """phases: CK of a clock; waits are rounded up to clocks."""
        self.steps = steps
        self.clocks = [-(-step.wait_ck // phases) for step in steps]
        super().__init__({"pins": Out(PINS), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        at, begins = Signal(range(len(self.steps) + 1), name="step"), Signal(init=1, name="begins")
        left = Signal(bits_for(max(self.clocks)), init=self.clocks[0] - 1, name="clocks_left")
        m.d.comb += self.done.eq(at == len(self.steps))
        m.d.sync += [begins.eq((left == 0) & ~self.done), left.eq(left - (left != 0))]
        with m.Switch(at):
            for number, step in enumerate(self.steps):
                follows = self.clocks[number + 1] - 1 if number + 1 < len(self.steps) else 0
                with m.Case(number):
                    m.d.comb += [self.pins.reset_n.eq(step.reset_n), self.pins.cke.eq(step.cke)]
                    m.d.comb += [self.pins.register.eq(step.register), self.pins.value.eq(step.value)]
                    m.d.comb += self.pins.mrs.eq(begins & (step.command == MRS))
                    m.d.comb += self.pins.zqcl.eq(begins & (step.command == ZQCL))
                    with m.If(left == 0):
                        m.d.sync += [at.eq(number + 1), left.eq(follows)]
            with m.Default():
                m.d.comb += [self.pins.reset_n.eq(self.steps[-1].reset_n), self.pins.cke.eq(self.steps[-1].cke)]
        return m
