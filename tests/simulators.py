"""Which simulator a test may use."""

import shutil

import pytest

from pimloom.rtl.flow.simulator.environment import Simulator


def needs(simulator: Simulator) -> Simulator:
    """The simulator's name; the test is skipped where it is not installed."""
    if simulator == "icarus" and shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed (apt-get install iverilog)")
    return simulator
