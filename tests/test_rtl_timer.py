# amaranth: UnusedElaboratable=no
"""The timer as it is emitted: busy as an oracle of plain Python says; one module for each wait and window."""

import re
from collections import deque

import msgspec
import numpy as np
import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.scenes.scene import play, row_scene
from pimloom.rtl.flow.stimulus import shrink
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import Timer
from pimloom.rtl.verilog import to_verilog
from tests.simulators import needs
from tests.slow import slow


def oracle(arm: list[int], window: int, wait: int) -> list[int]:
    """Bit i in the clock after each: the (i + 1)-th latest arming before it is less than `wait` clocks ago."""
    latest, found = deque[int](maxlen=window), list[int]()
    for clock, armings in enumerate(arm):
        latest.extendleft([clock] * armings)
        found.append(sum((clock + 1 - at < wait) << i for i, at in enumerate(latest)))
    return found


@pytest.mark.parametrize(("window", "wait", "most"), [(1, 1, 2), (4, 5, 2), slow(1, 14, 1), slow(4, 30, 1)])
def test_it_is_busy_as_the_oracle_says(window, wait, most, clocks=3000):
    rng = np.random.default_rng(1)
    often = np.array([1, 0.4, 0.05])[np.arange(clocks) // 100 % 3]  # many armings, some, and few
    arm = ((rng.random(clocks) < often) * rng.integers(1, most + 1, clocks)).astype(np.uint32)
    scene = row_scene({"arm": arm}, {"busy": np.zeros(clocks, np.uint32)}, 1)
    played = play(to_verilog(Timer(window, wait, most=most), "timer"), "timer", scene, needs("icarus"))
    assert played["busy"].tolist() == oracle(arm.tolist(), window, wait)
    assert wait == 1 or len({*played["busy"].tolist()}) > window
    assert wait == 1 or played["busy"].tolist() != oracle(arm.tolist(), window, wait - 1)


def test_equal_timers_of_a_sequencer_are_instances_of_one_module():
    part = load_part("gddr6_pim_gpt").value
    part = msgspec.structs.replace(part, organization=shrink(part, 1, 2))
    sequencer: Sequencer = BLOCKS["sequencer"].build(part)
    text = to_verilog(BLOCKS["sequencer"].build(part), "sequencer")
    uses = re.findall(r"^  sequencer__(rule_timer_\w+) (rule_\d+_\d+) \(", text, re.MULTILINE)
    assert {instance: module for module, instance in uses} == {
        f"rule_{i}_{node}": f"rule_timer_window{sequencer.rule_rows[i].window}_wait{sequencer.rules.wait[i]}"
        for i, node in sequencer.timers
    }
    modules = re.findall(r"^module sequencer__(rule_timer\w+)", text, re.MULTILINE)
    assert sorted(modules) == sorted({module for module, _ in uses}) and len(modules) < len(uses)
