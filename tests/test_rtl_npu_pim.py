# amaranth: UnusedElaboratable=no
"""The controller of a PIM channel in gates: command by command and answer by answer the cycle model, on random
requests."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.pim_channel import ChannelRules
from pimloom.arch.system import load_part
from pimloom.rtl.flow.npu_pim.channel import all_mismatches, draw_words, filled, run_channel
from pimloom.rtl.flow.npu_pim.cosim import gates, mismatches, model
from pimloom.rtl.flow.npu_pim.traffic import Size, draw_traffic, small
from pimloom.rtl.flow.npu_pim.verify import ACCESSES, TILES, WHOLE, WHOLE_CK
from pimloom.rtl.npu_pim.controller import Controller
from tests.npu_pim_mutants import MUTANTS
from tests.simulators import needs
from tests.slow import slow

CLOCKS = 1500
PARTS = {
    "dram": load_part("hbm2_neupims").value,
    "blocked": load_part("hbm2_neupims", {"pim": "newton"}).value,
    "dual": load_part("hbm2_neupims").value,
}
SHORT = Size(  # a netlist of two thirds
    ranks=1,
    controller=replace(Size().controller, entries=2, queue_entries=2, pim_queue_entries=4, window=8),
)
ALWAYS = {"ACT", "PRE", "RD", "WR", "REFab"}
SEEN = {
    "dram": ALWAYS,
    "blocked": ALWAYS | {"GWRITE", "G_ACT", "PIM_HEADER", "COMP", "READRES"},
    "dual": ALWAYS | {"GWRITE", "G_ACT", "PIM_HEADER", "PIM_GEMV", "PIM_PRECHARGE"},
}


def draw(spec, cases, clocks):
    """Traffic of each case; every second one keeps PIM busy."""
    return [draw_traffic(spec, i, clocks // 12, clocks // (60 if i % 2 else 200) + 1) for i in range(cases)]


def compare(spec, cases, clocks, simulator):
    """Names of the commands that issued, counted; how many requests were answered."""
    traffic = draw(spec, cases, clocks)
    found, _ = gates(spec, traffic, clocks, simulator=simulator)
    issued, answered, names = Counter[str](), 0, Controller(spec).table.names
    for number, (case, ours) in enumerate(zip(traffic, found, strict=True)):
        theirs = model(spec, case, clocks)
        assert mismatches(spec, theirs, ours) == [], number
        issued.update(names[command[1]] for command in theirs.commands)
        answered += int((theirs.data_ck >= 0).sum() + (theirs.pim_ck >= 0).sum())
    return issued, answered


@pytest.mark.parametrize(("mode", "size"), [("dual", SHORT), *(slow(mode, Size()) for mode in PARTS)])
def test_commands_and_answers(mode, size):
    issued, answered = compare(small(PARTS[mode], mode, size), 4, CLOCKS, needs("icarus"))
    assert set(issued) == SEEN[mode] and answered > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "size"),
    [
        ("dual", Size()),
        ("blocked", Size()),
        ("dual", Size(ranks=1, bank_groups=2, pim_precharge="group")),
        ("dual", Size(pim_precharge="channel")),
        ("blocked", Size(ranks=1, bank_groups=2)),
    ],
)
def test_many_commands_and_answers(mode, size):
    issued, answered = compare(small(PARTS[mode], mode, size), 150, 3000, needs("verilator"))
    assert issued.total() > 20_000 and answered > 20_000


@pytest.mark.slow  # minutes: each channel is a netlist of its own
@pytest.mark.parametrize("mode", ["dual", "blocked"])
def test_numbers_of_a_whole_channel(mode):
    spec = small(PARTS[mode], mode, WHOLE)
    traffic = filled(spec, draw_traffic(spec, 1, ACCESSES, TILES))
    found = run_channel(spec, 16, traffic, draw_words(spec, traffic, 1), WHOLE_CK, simulator=needs("icarus"))
    assert all_mismatches(spec, [found]) == []
    assert len(found.result) > 5 and (found.result.astype(float) != 0).mean() > 0.9
    wrong = found._replace(result=found.result.view(np.uint16).__xor__(1).view(found.result.dtype))
    assert len(all_mismatches(spec, [wrong])) == len(found.result)


@pytest.mark.slow  # each is a netlist of its own
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_wrong_decision_is_caught(mutant, monkeypatch):
    spec = small(PARTS[mutant.mode], mutant.mode)
    traffic = draw(spec, 5, CLOCKS)
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.function())
    found, _ = gates(spec, traffic, CLOCKS, simulator=needs("icarus"))
    assert any(mismatches(spec, model(spec, x, CLOCKS), ours) for x, ours in zip(traffic, found, strict=True))


def test_departures_have_no_gates():
    spec = small(PARTS["dual"], "dual")._replace(rules=ChannelRules(slack_exact=False))
    with pytest.raises(UserError, match="the gates are the physical channel's; they know no departures from it"):
        Controller(spec)


def test_a_mode_needs_its_commands():
    with pytest.raises(UserError, match="mode dual of a PIM channel needs what it lacks: gemv, pim_pre, gemv_end"):
        Controller(small(PARTS["blocked"], "dual"))
