# amaranth: UnusedElaboratable=no
"""The C++ benches leave what the cocotb benches leave, of the same stimuli; and say what goes wrong."""

import subprocess

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow import channel, cosim
from pimloom.rtl.flow.axi import verify as axi
from pimloom.rtl.flow.axi.host import draw_scripts
from pimloom.rtl.flow.native.arrays import read_raw, write_raw
from pimloom.rtl.flow.native.build import BENCHES, CPP
from pimloom.rtl.flow.native.run import native
from pimloom.rtl.flow.scenes.scene import mismatches
from pimloom.rtl.flow.simulator.environment import SimulationError, with_bench
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.stimulus import draw_cases, engine, shrink
from pimloom.rtl.flow.system import verify as machine
from pimloom.rtl.flow.system.toy import Toy
from pimloom.rtl.flow.verify import BANKS, SCENES, STREAMS, WAIT_BITS
from pimloom.rtl.flow.verify import mismatches as differing
from pimloom.rtl.formal.axi import Restless
from pimloom.rtl.verilog import to_verilog
from tests import netlists
from tests.command import call
from tests.netlists import FEW_BANKS
from tests.simulators import needs
from tests.slow import slow

PART = load_part("gddr6_pim_gpt").value
CASES = list(draw_cases(PART, shrink(PART, *BANKS), STREAMS, 400, 3))


def both(monkeypatch, run, other):
    """What the two benches leave, by the calls of `simulate` that `run(simulator)` makes."""
    found = []
    for simulator in ("verilator", other):
        left = list[dict[str, np.ndarray]]()

        def spy(*args, _left=left, **kwargs):
            _left.append(simulate(*args, **kwargs))
            return _left[-1]

        for module in (cosim, channel, axi, machine):
            monkeypatch.setattr(module, "simulate", spy)
        monkeypatch.setattr("pimloom.rtl.flow.scenes.scene.simulate", spy)
        run(simulator)
        found.append(left)
    (cpp,), (cocotb,) = found
    return cpp, cocotb


def assert_same(cpp, cocotb):
    assert cpp.keys() == cocotb.keys()
    for name in cpp.keys() - {"seconds"}:
        assert cpp[name].shape == cocotb[name].shape, name
        assert np.array_equal(cpp[name], cocotb[name]), name


def scene_of(block, n=300):
    component = BLOCKS[block].build(PART)
    return to_verilog(component, block), SCENES[block](component, PART, np.random.default_rng(5), n)


@pytest.mark.parametrize("block", ["timer", *map(slow, ("asic_partials", "float32_add", "pim_unit", "asic_softmax"))])
def test_rows_and_streams_are_those_of_cocotb(block):
    verilog, scene = scene_of(block)
    cpp, cocotb = (
        simulate(verilog, block, scene.bench, scene.given, simulator=simulator)
        for simulator in ("verilator", needs("icarus"))
    )
    assert_same(cpp, cocotb)
    assert int(cpp["cycles"]) >= 300


@pytest.mark.slow
@pytest.mark.parametrize("other", ["icarus", "verilator-cocotb"])
def test_the_sequencers_log_is_that_of_cocotb(monkeypatch, other):
    def run(simulator):
        cosim.walk(CASES, STREAMS, WAIT_BITS, most_ck=10_000, simulator=simulator)

    cpp, cocotb = both(monkeypatch, run, needs(other))
    assert_same(cpp, cocotb)
    assert len(cpp["issued"]) > 400


@pytest.mark.slow
def test_the_channels_log_is_that_of_cocotb(monkeypatch):
    job = channel.random_product(PART, BANKS, 200, 0)
    cpp, cocotb = both(monkeypatch, lambda simulator: channel.run_product(job, simulator=simulator), "verilator-cocotb")
    assert_same(cpp, cocotb)
    assert len(cpp["results"])


@pytest.mark.slow
def test_the_machines_log_is_that_of_cocotb(monkeypatch):
    case = machine.case_of(load_part("hbm2_neupims").value, Toy(contexts=((2,), (1, 3))), 1)
    verilog = machine.verilog_of(case)

    def run(simulator):
        machine.run_gates(case, verilog, 40_000, simulator)

    cpp, cocotb = both(monkeypatch, run, "verilator-cocotb")
    assert_same(cpp, cocotb)
    assert len(cpp["stages"]) > 3 and len(cpp["commands"]) > 500 and cpp["busy"].all()
    with pytest.raises(SimulationError, match="^machine: not done after 50 clocks$"):
        machine.run_gates(case, verilog, 50, "verilator")


@pytest.mark.parametrize("other", ["icarus", slow("verilator-cocotb")])
def test_the_hosts_log_is_that_of_cocotb(monkeypatch, other):
    """Refused and repeated commands, hosts that write ahead, stalls on all channels."""
    scripts = list(draw_scripts(PART, FEW_BANKS, 60, 4, True))
    block = SequencerAxi(scripts[0].case.table, axi.SHALLOW)
    verilog = netlists.sequencer_axi("gddr6_pim_gpt")

    def run(simulator):
        axi.play(scripts, block, simulator, verilog=verilog)

    cpp, cocotb = both(monkeypatch, run, needs(other))
    assert_same(cpp, cocotb)
    assert len(cpp["issued"]) >= 60 and len(cpp["read"]) > 50 and set(cpp["written"][:, 6]) == {0, 2}
    assert {script.eager for script in scripts} == {True, False} and cpp["ends"][:, 1].all()


def test_a_host_that_sees_a_breach_of_the_handshakes_says_so():
    scripts = list(draw_scripts(PART, (1, 1), 20, 4, True))
    block = SequencerAxi(scripts[0].case.table, axi.SHALLOW)
    block.registers = Restless(scripts[0].case.table, axi.SHALLOW)
    with pytest.raises(SimulationError, match=r"^axi: b withdrew or changed a response in CK \d+$"):
        axi.play(scripts, block, "verilator")


def test_the_fast_bench_still_sees_what_is_wrong():
    verilog = netlists.sequencer("gddr6_pim_gpt")
    walks = cosim.walk(CASES, STREAMS, WAIT_BITS, most_ck=10_000, verilog=verilog).walks
    assert [differing(case, w)[0] for case, w in zip(CASES, walks, strict=True)] == [0] * len(CASES)
    late = [w._replace(issue_ck=[clocks + 1 for clocks in w.issue_ck]) for w in walks]
    assert all(differing(case, w)[0] for case, w in zip(CASES, late, strict=True))
    assert all(engine(case) is not None for case in CASES)


def test_a_wrong_stimulus_is_one_sentence():
    verilog, scene = scene_of("timer")
    wide = dict(scene.given) | {"arm": scene.given["arm"] + np.uint32(2)}
    with pytest.raises(SimulationError, match="^rows: row 0 of arm has more than its 1 bits$"):
        simulate(verilog, "timer", scene.bench, wide)
    gone = {name.replace("arm", "harm"): rows for name, rows in scene.given.items()}
    with pytest.raises(SimulationError, match="^rows: the top has no port harm$"):
        simulate(verilog, "timer", scene.bench, gone)


def test_a_stream_that_gives_too_little_is_waited_for_and_told():
    verilog, scene = scene_of("asic_partials")
    given = dict(scene.given) | {"out.o": scene.given["out.o"] + 1}
    with pytest.raises(SimulationError, match=r"^streams: waiting for \['o'\]$"):
        simulate(verilog, "asic_partials", scene.bench, given)


@pytest.mark.slow
def test_a_waveform_changes_nothing(tmp_path):
    verilog, scene = scene_of("timer")
    left = simulate(verilog, "timer", scene.bench, scene.given, waves=tmp_path / "timer.vcd")
    assert mismatches(scene, {name: rows.reshape(-1) for name, rows in left.items()}) == []
    assert "$enddefinitions" in (tmp_path / "timer.vcd").read_text()


def test_arrays_come_back(tmp_path):
    given: dict[str, np.ndarray] = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.array([[1, 2]], np.uint32),
        "c": np.zeros((0, 4), np.int64),
    }
    write_raw(tmp_path / "x", given | {"seconds": np.array(0.5)})
    found = read_raw(tmp_path / "x")
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "a": [[0, 1, 2], [3, 4, 5]], "b": [[1, 2]], "c": [], "seconds": 0.5,
    }  # fmt: skip
    assert found["c"].shape == (0, 4) and found["b"].dtype == np.uint32


def test_every_bench_of_the_flow_has_one_in_cpp():
    assert BENCHES == ("axi", "channel", "machine", "rows", "sequencer", "streams")
    assert native("pimloom.rtl.flow.benches.rows") == "rows" and native("tests.own_bench") is None


@pytest.mark.slow
def test_the_cpp_has_no_warnings():
    warned = subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", *map(str, sorted(CPP.glob("*.cpp")))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (warned.returncode, warned.stderr) == (0, "")


def test_which_bench_a_simulator_takes():
    assert with_bench("verilator", None) == with_bench("verilator", "cpp") == "verilator"
    assert with_bench("verilator", "cocotb") == "verilator-cocotb"
    assert with_bench("icarus", "cocotb") == with_bench("icarus", None) == "icarus"
    with pytest.raises(UserError, match="icarus takes cocotb benches only"):
        with_bench("icarus", "cpp")
    done = call("rtl", "verify", "timer", "--simulator", "icarus", "--bench", "cpp")
    assert done.code == 2 and done.err.startswith("pimloom: --bench cpp: icarus takes cocotb benches only")
    done = call("rtl", "verify", "timer", "--bench", "python")
    assert done.code == 2 and "'python' is not one of 'cpp', 'cocotb'" in done.err
