# amaranth: UnusedElaboratable=no
"""The timer that Verilog has with parameters: equal to the one that is proved, and short in a sequencer."""

import numpy as np
import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.scenes.scene import play, row_scene
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import VERILOG, Timer
from pimloom.rtl.verilog import to_verilog
from tests.simulators import needs
from tests.slow import slow

TOP = """module timer (
  input wire rst, input wire clk, input wire [{arm}:0] arm, output wire [{busy}:0] busy
);
  rule_timer #(.WINDOW({window}), .WAIT({wait}), .MOST({most})) it (.clk(clk), .rst(rst), .arm(arm), .busy(busy));
endmodule
"""


def given(window: int, wait: int, most: int) -> str:
    """A module of the timer's ports around the one with these parameters."""
    bits = {"arm": most.bit_length() - 1, "busy": window - 1}
    return TOP.format(window=window, wait=wait, most=most, **bits) + VERILOG


def busy(verilog: str, most: int, clocks: int = 3000) -> list[int]:
    """What stands at `busy`, clock by clock, with many armings, some, and few."""
    rng = np.random.default_rng(1)
    often = np.array([1, 0.4, 0.05])[np.arange(clocks) // 100 % 3]
    arm = ((rng.random(clocks) < often) * rng.integers(1, most + 1, clocks)).astype(np.uint32)
    scene = row_scene({"arm": arm}, {"busy": np.zeros(clocks, np.uint32)}, 1)
    found: list[int] = play(verilog, "timer", scene, needs("icarus"))["busy"].tolist()
    return found


@pytest.mark.parametrize(("window", "wait", "most"), [(1, 1, 2), (4, 5, 2), slow(1, 14, 1), slow(4, 30, 1)])
def test_it_does_what_the_timer_of_the_proofs_does(window, wait, most):
    wanted = busy(to_verilog(Timer(window, wait, most=most), "timer"), most)
    assert busy(given(window, wait, most), most) == wanted and (wait == 1 or len(set(wanted)) > window)
    assert wait == 1 or busy(given(window, wait - 1, most), most) != wanted


def test_a_sequencer_has_one_timer_with_the_waits_of_its_rules():
    part = load_part("gddr6_aim").value
    sequencer: Sequencer = BLOCKS["sequencer"].build(part)
    text = to_verilog(BLOCKS["sequencer"].build(part), "sequencer")
    assert text.count("\nmodule ") == 1 and text.startswith("module sequencer (")
    assert text.count("rule_timer #(.") == len(sequencer.timers) == len(sequencer.rule_timers)
    waits = sequencer.rules.wait.tolist()
    for (i, node), timer in sequencer.timers.items():
        assert timer.parameters["WAIT"] == waits[i]
        wanted = f"#(.WINDOW({timer.window}), .WAIT({waits[i]}), .MOST(1)) rule_{i}_{node} ("
        assert wanted in " ".join(text.split())
