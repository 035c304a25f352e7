# amaranth: UnusedElaboratable=no
"""A decoder layer of a small model, two sub-batches side by side, on an NPU and two channels: each channel's controller
in gates issues the commands of that simulation at their clocks."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.words import column_at
from pimloom.cycle_sim.npu_pim.places import names_of
from pimloom.rtl.flow.npu_pim.cosim import NEVER, gates, mismatches, model
from pimloom.rtl.flow.npu_pim.traffic import ACCESS, DOT, Traffic
from tests.layer_slice import CHANNELS, spec_of_gates
from tests.simulators import needs
from tests.slow import slow

ALWAYS = {"ACT", "PRE", "RD", "WR", "REFab"}
SEEN = {
    "npu_only": ALWAYS,
    "npu_pim": ALWAYS | {"GWRITE", "G_ACT", "PIM_HEADER", "COMP", "READRES"},
    "neupims": ALWAYS | {"GWRITE", "G_ACT", "PIM_HEADER", "PIM_GEMV", "PIM_PRECHARGE"},
}


class Layer(NamedTuple):
    """The channel, its table, and what `layer_slice.heard` heard."""

    spec: PimChannel
    table: Table
    heard: dict[str, np.ndarray]

    @property
    def clocks(self) -> int:
        return int(self.heard["clocks"])

    def traffic(self, channel: int) -> Traffic:
        """What comes to a channel, each request in the clock in which the controller of the simulation takes it."""
        names, pim, data = names_of(self.table), [], []
        for c, t, word in self.heard["taken"].tolist():
            if c != channel:
                continue
            if word >= 0:
                data.append((word & 1, *map(int, column_at(word >> 1)), t))
                continue
            x = self.heard["dot"][-1 - word].tolist()
            comps = x[f.COMPS] if x[f.KIND] == f.HEADER else x[f.COUNT]
            opcode = self.table.cmd(names[x[f.KIND]])
            pim.append((opcode, x[f.BANK], x[f.ROW], x[f.COLUMN], comps, x[f.RESULTS], x[f.LAST], t))
        return Traffic(np.array(pim, DOT), np.array(data, ACCESS))

    def issued(self, channel: int) -> list[tuple[int, int, int, int]]:
        """The channel's commands as `Ran` has them."""
        names, log = names_of(self.table), self.heard["issued"]
        mine = log[log[:, 0] == channel, 1:].tolist()
        return [(t, self.table.cmd(names[c]), b, row if c in (f.ACT, f.G_ACT) else NEVER) for t, c, b, row in mine]


def layer_of(system: str, width: int, folder: Path) -> Layer:
    command = [sys.executable, "-m", "tests.layer_slice", system, str(width), str(folder / "layer.npz")]
    environment = os.environ | {"PIMLOOM_KERNELS": "python"}
    subprocess.run(command, cwd=Path(__file__).parent.parent, env=environment, check=True)
    spec = spec_of_gates(system)
    return Layer(spec, compile_table(spec.device()), dict(np.load(folder / "layer.npz")))


@pytest.mark.parametrize("system", ["neupims", slow("npu_pim"), slow("npu_only")])
def test_a_channel_alone_does_what_it_does_in_the_system(system, tmp_path):
    """The compiled channel, fed with what came to it in the simulation as plain Python."""
    layer = layer_of(system, 32, tmp_path)
    for channel in range(CHANNELS):
        expected = layer.issued(channel)
        assert model(layer.spec, layer.traffic(channel), layer.clocks).commands[: len(expected)] == expected
        assert {layer.table.names[c] for _, c, _, _ in expected} == SEEN[system]


@pytest.mark.slow  # minutes: the controller's netlist
@pytest.mark.parametrize("system", SEEN)
def test_its_gates_do_so_too(system, tmp_path):
    layer = layer_of(system, 64, tmp_path)
    cases = [layer.traffic(channel) for channel in range(CHANNELS)]
    found, _ = gates(layer.spec, cases, layer.clocks, simulator=needs("verilator"))
    for channel, (case, ours) in enumerate(zip(cases, found, strict=True)):
        expected = layer.issued(channel)
        assert len(expected) > 1000 and ours.commands[: len(expected)] == expected
        assert mismatches(layer.spec, model(layer.spec, case, layer.clocks), ours) == []
