# amaranth: UnusedElaboratable=no
"""Single faults anywhere in the netlist of a channel's controller: most are told by the same
comparison with the models that the gates pass. What is not told is a bit that does not matter, or seldom."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.flow.npu_pim.cosim import TOP as CONTROLLER
from pimloom.rtl.flow.npu_pim.cosim import gates
from pimloom.rtl.flow.npu_pim.cosim import mismatches as of_channel
from pimloom.rtl.flow.npu_pim.cosim import model as channel_model
from pimloom.rtl.flow.npu_pim.traffic import small
from pimloom.rtl.flow.simulator.environment import SimulationError
from pimloom.rtl.npu_pim.controller import Controller
from pimloom.rtl.verilog import to_verilog
from tests.channel_traffic import mixed
from tests.netlist_mutants import Mutants, mutants_of
from tests.simulators import needs

PART, CLOCKS = load_part("hbm2_neupims").value, 1500


def survivors(mutants: Mutants, is_told: Callable[[], bool]) -> Iterator[str]:
    """What each mutant is that nobody tells from the right gates."""
    mutants.take(0)
    assert not is_told()
    for number, said in enumerate(mutants.said, 1):
        mutants.take(number)
        try:
            told = is_told()
        except (SimulationError, ValueError, IndexError):  # it never ends, or does what no command does
            told = True
        if not told:
            yield said


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dual", "blocked"])
def test_most_faults_of_a_channel_s_controller_are_told(mode: Literal["dual", "blocked"], tmp_path: Path) -> None:
    part = PART if mode == "dual" else load_part("hbm2_neupims", {"pim": "newton"}).value
    spec = small(part, mode)
    rounds = []
    for cases in (range(4), range(4, 60)):  # most are told by the short one
        traffic = [mixed(spec, i, CLOCKS) for i in cases]
        rounds.append((traffic, [channel_model(spec, case, CLOCKS) for case in traffic]))
    mutants = mutants_of(to_verilog(Controller(spec), CONTROLLER), CONTROLLER, 60, tmp_path)

    def is_told() -> bool:
        for traffic, want in rounds:
            found, _ = gates(spec, traffic, CLOCKS, verilog=mutants.verilog, simulator=needs("verilator"))
            if any(of_channel(spec, ours, theirs) for ours, theirs in zip(want, found, strict=True)):
                return True
        return False

    left = [said for said in survivors(mutants, is_told) if not mutants.changes_nothing(said)]
    assert len(left) <= 0.3 * len(mutants.said), "\n".join(left)
