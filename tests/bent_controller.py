"""A PIM channel's controller in gates whose rules wait as a file says that the simulation reads at its start."""

from pathlib import Path
from typing import NamedTuple

from amaranth.hdl import Instance, Module, Mux, Signal, Value, signed

from pimloom.arch.pim_channel import PimChannel
from pimloom.rtl.flow.npu_pim.cosim import TOP
from pimloom.rtl.npu_pim.controller import Controller
from pimloom.rtl.timer import Timer
from pimloom.rtl.verilog import to_verilog

MOST = 127  # clocks more that a rule may wait
BEND = """
module bend(output [7:0] rule, output signed [7:0] by);
  reg [15:0] word, words [0:0];
  initial begin $readmemh("{file}", words); word = words[0]; end
  assign {{rule, by}} = word;
endmodule
"""


class Bendable(NamedTuple):
    """The gates; rules that only wait together, as they have the same timers; the file that bends one of the sets."""

    verilog: str
    together: list[list[int]]
    file: Path

    def bend(self, number: int, by: int) -> None:
        """Lets the rules of a set wait so many clocks more."""
        self.file.write_text(f"{number:02x}{by & 0xFF:02x}\n")


class _Bent(Controller):
    """All timers of its rules have room for longer waits."""

    instances: dict[str, str] = {}

    def __init__(self, spec: PimChannel) -> None:
        super().__init__(spec)
        self.number, self.by = Signal(8), Signal(signed(8))
        rules = self.timers
        firsts = sorted(set(rules.timed_by.values()))
        self.together = [[i for i, own in rules.timed_by.items() if own == first] for first in firsts]
        rules.waits = {i: self.wait(rules.rows[i].wait, firsts.index(own)) for i, own in rules.timed_by.items()}
        for (i, node), timer in rules.timers.items():
            if isinstance(timer.wait, Signal):
                continue
            rules.timers[i, node] = longer = Timer(timer.window, rules.rows[i].wait + MOST)
            longer.wait = Value.cast(rules.waits[i])

    def wait(self, wait: int, number: int) -> Value:
        return (wait + Mux(self.number == number, self.by, 0)).as_unsigned()

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.submodules.bend = Instance("bend", o_rule=self.number, o_by=self.by)
        return m


def bendable(spec: PimChannel, folder: Path) -> Bendable:
    """The controller of a channel."""
    controller, file = _Bent(spec), folder / "bend.hex"
    text = to_verilog(controller, TOP) + BEND.format(file=file)
    return Bendable(text, controller.together, file)
