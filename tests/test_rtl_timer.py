# amaranth: UnusedElaboratable=no
"""The timer that Verilog has with parameters: equal to the one that is proved, and short in a sequencer."""

import msgspec
import numpy as np
import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.scenes.scene import play, row_scene
from pimloom.rtl.flow.stimulus import shrink
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import VERILOG, Timer
from pimloom.rtl.verilog import to_verilog
from tests.simulators import needs
from tests.slow import slow

TOP = """module timers (
  input wire rst, input wire clk, input wire [{arm}:0] arm, output wire [{busy}:0] proved,
  output wire [{busy}:0] ours, output wire [{busy}:0] sooner
);
  timer that (.clk(clk), .rst(rst), .arm(arm), .busy(proved));
  rule_timer #(.WINDOW({window}), .WAIT({wait}), .MOST({most})) this (.clk(clk), .rst(rst), .arm(arm), .busy(ours));
  rule_timer #(.WINDOW({window}), .WAIT({less}), .MOST({most})) less (.clk(clk), .rst(rst), .arm(arm), .busy(sooner));
endmodule
"""


def busy(window: int, wait: int, most: int, clocks: int = 3000) -> dict[str, list[int]]:
    """What stands at `busy` of the timer of the proofs, of ours and of one with a clock less, side by side, clock by
    clock, with many armings, some, and few."""
    rng = np.random.default_rng(1)
    often = np.array([1, 0.4, 0.05])[np.arange(clocks) // 100 % 3]
    arm = ((rng.random(clocks) < often) * rng.integers(1, most + 1, clocks)).astype(np.uint32)
    bits = {"arm": most.bit_length() - 1, "busy": window - 1}
    top = TOP.format(window=window, wait=wait, less=max(wait - 1, 1), most=most, **bits)
    verilog = to_verilog(Timer(window, wait, most=most), "timer") + top + VERILOG.format(name="rule_timer")
    found = {name: np.zeros(clocks, np.uint32) for name in ("proved", "ours", "sooner")}
    played = play(verilog, "timers", row_scene({"arm": arm}, found, 1), needs("icarus"))
    return {name: played[name].tolist() for name in found}


@pytest.mark.parametrize(("window", "wait", "most"), [(1, 1, 2), (4, 5, 2), slow(1, 14, 1), slow(4, 30, 1)])
def test_it_does_what_the_timer_of_the_proofs_does(window, wait, most):
    found = busy(window, wait, most)
    assert found["ours"] == found["proved"] and (wait == 1 or len(set(found["proved"])) > window)
    assert wait == 1 or found["sooner"] != found["proved"]


def test_a_sequencer_has_one_timer_with_the_waits_of_its_rules():
    part = load_part("gddr6_aim").value
    part = msgspec.structs.replace(part, organization=shrink(part, 1, 2))  # as all its banks, an eighth of the text
    sequencer: Sequencer = BLOCKS["sequencer"].build(part)
    text = to_verilog(BLOCKS["sequencer"].build(part), "sequencer")
    assert text.count("\nmodule ") == 1 and text.startswith("module sequencer (")
    assert text.count("  sequencer__rule_timer #(.") == len(sequencer.timers) == len(sequencer.rule_timers)
    waits = sequencer.rules.wait.tolist()
    for (i, node), timer in sequencer.timers.items():
        assert timer.parameters["WAIT"] == waits[i]
        wanted = f"#(.WINDOW({timer.window}), .WAIT({waits[i]}), .MOST(1)) rule_{i}_{node} ("
        assert wanted in " ".join(text.split())
