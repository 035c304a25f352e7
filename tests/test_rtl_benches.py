# amaranth: UnusedElaboratable=no
"""The benches leave the same in both simulators, of the same stimuli; and say what goes wrong."""

import numpy as np
import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.axi import verify as axi
from pimloom.rtl.flow.axi.host import draw_scripts
from pimloom.rtl.flow.scenes.scene import mismatches
from pimloom.rtl.flow.simulator.environment import SIMULATORS, SimulationError
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.verify import SCENES
from pimloom.rtl.formal.axi import Restless
from pimloom.rtl.verilog import to_verilog
from tests import netlists
from tests.netlists import FEW_BANKS
from tests.simulators import needs
from tests.slow import slow

PART = load_part("gddr6_pim_gpt").value


def assert_same(left):
    one, other = left
    assert one.keys() == other.keys()
    for name in one.keys() - {"seconds"}:
        assert one[name].shape == other[name].shape, name
        assert np.array_equal(one[name], other[name]), name


def scene_of(block, n=300):
    component = BLOCKS[block].build(PART)
    return to_verilog(component, block), SCENES[block](component, PART, np.random.default_rng(5), n)


@pytest.mark.parametrize("block", ["timer", *map(slow, ("asic_partials", "float32_add", "pim_unit", "asic_softmax"))])
def test_rows_and_streams_are_the_same_in_both_simulators(block):
    verilog, scene = scene_of(block)
    left = [simulate(verilog, block, scene.bench, scene.given, simulator=needs(name)) for name in SIMULATORS]
    assert_same(left)
    assert int(left[0]["cycles"]) >= 300


def test_the_hosts_log_is_the_same_in_both_simulators(monkeypatch):
    """Refused and repeated commands, hosts that write ahead, stalls on all channels."""
    scripts = list(draw_scripts(PART, FEW_BANKS, 60, 5, True))
    block = SequencerAxi(PART, axi.SHALLOW, scripts[0].told.part)
    left = list[dict[str, np.ndarray]]()

    def spy(*args, **kwargs):
        left.append(simulate(*args, **kwargs))
        return left[-1]

    monkeypatch.setattr(axi, "simulate", spy)
    for simulator in SIMULATORS:
        axi.play(scripts, block, needs(simulator), verilog=netlists.sequencer_axi("gddr6_pim_gpt"))
    assert_same(left)
    found = left[0]
    assert len(found["issued"]) >= 60 and len(found["read"]) > 50 and set(found["written"][:, 6]) == {0, 2}
    assert {script.eager for script in scripts} == {True, False} and found["ends"][:, 1].all()


def test_a_host_that_sees_a_breach_of_the_handshakes_says_so():
    scripts = list(draw_scripts(PART, (1, 1), 20, 4, True))
    block = SequencerAxi(PART, axi.SHALLOW, scripts[0].told.part)
    block.registers = Restless(block.moments, axi.SHALLOW)
    with pytest.raises(SimulationError, match=r"b withdrew or changed a response in CK \d+"):
        axi.play(scripts, block, "verilator")


def test_a_stream_that_gives_too_little_is_waited_for_and_told():
    verilog, scene = scene_of("asic_partials")
    given = dict(scene.given) | {"out.o": scene.given["out.o"] + 1}
    with pytest.raises(SimulationError, match=r"waiting for \['o'\]"):
        simulate(verilog, "asic_partials", scene.bench, given)


@pytest.mark.slow
def test_a_waveform_changes_nothing(tmp_path):
    verilog, scene = scene_of("timer")
    left = simulate(verilog, "timer", scene.bench, scene.given, waves=tmp_path / "timer.vcd")
    assert mismatches(scene, {name: rows.reshape(-1) for name, rows in left.items()}) == []
    assert "$enddefinitions" in (tmp_path / "timer.vcd").read_text()
