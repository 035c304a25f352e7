"""Cycle counts that a public simulator of AiM measured, reproduced to the clock.

Source: arkhadem/aim_simulator@0f28a07, `memory_system_cycles` of its test/*.csv with test/example.yaml; `docs/aim.md`
explains every clock.
"""

import numpy as np
import pytest

from pimloom.arch.pim import aim, aim_isr
from pimloom.cycle_sim.aim.simulate import Found, Queues, simulate
from pimloom.systems.memory.aim.asked import find_device
from pimloom.systems.memory.aim.trace_file import parse_program
from tests.aim_programs import MEASURED

QUEUES = Queues(33, 26, 7)
COMMANDS = {
    "micro_macab_1024_16banks": {"ACT16": 1024, "MAC16": 65_536, "PREab": 1023},
    "micro_rdmac_1024_16banks": {"TMOD": 1, "RDMAC16": 1024},
    "micro_wrbias_1024_16banks": {"TMOD": 1, "WRMAC16": 1024},
    "micro_wrab_1024_1bank": {"ACT16": 1024, "WRA16": 1024},
    "micro_wrbias_mac_rdmac_mac_16banks": {
        "TMOD": 4096, "WRMAC16": 1024, "RDMAC16": 1024, "ACT16": 2048, "MAC16": 131_072, "PREab": 2047,
    },
}  # fmt: skip


def run(name: str, **timing: str) -> Found:
    device = find_device("gddr6_aim", {f"dram.timing.{key}": text for key, text in timing.items()})
    return simulate(device.part, 32, QUEUES, parse_program("\n".join(MEASURED[name][0]), device.shape).rows)


@pytest.mark.parametrize("name", MEASURED)
def test_cycles_are_those_of_the_aim_simulator(name: str) -> None:
    assert run(name).cycles == MEASURED[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_of_a_channel_are_those_of_the_aim_simulator(name: str) -> None:
    found = run(name)
    others = [counts for counts in found.counts[1:] if counts]
    assert found.counts[0] == COMMANDS[name]
    assert others == ([] if "1bank" in name else [COMMANDS[name]] * 31)


@pytest.mark.parametrize(
    ("timing", "text", "more"),
    [
        ("tRCDMAC", "57 nCK", (1024, 0, 0, 0, 2048)),
        ("nCCDab", "3 nCK", (64_512, 0, 0, 1023, 130_048)),  # 63 of each 64 MAC16, and RDMAC16 after MAC16
        ("tRTP", "13 nCK", (1023, 0, 0, 0, 0)),  # TMOD hides it
        ("tRP", "33 nCK", (1023, 0, 1024, 0, 2047)),  # after WRA16 the write is under way for tRP, too
        ("nMODCH", "33 nCK", (0, 1, 0, 1, 4096)),
        ("nCLREG", "1 nCK", (0, 1024, 0, 0, 1024)),  # RD_MAC blocks
        ("nCWLREG", "2 nCK", (0, 0, 0, 1, 0)),
        ("tRCDWR", "29 nCK", (0, 0, 1024, 0, 0)),
        ("tWR", "34 nCK", (0, 0, 1023, 0, 0)),  # not after the last one
    ],
)
def test_one_clock_more_counts_as_often_as_the_rule_binds(timing: str, text: str, more: tuple[int, ...]) -> None:
    micro = ("macab_1024_16banks", "rdmac_1024_16banks", "wrab_1024_1bank", "wrbias_1024_16banks")
    names = [f"micro_{name}" for name in (*micro, "wrbias_mac_rdmac_mac_16banks")]
    assert tuple(run(name, **{timing: text}).cycles - run(name).cycles for name in names) == more


def test_the_rows_of_pim_gpts_commands_are_the_same() -> None:
    """Part `gddr6_aim` has a share of them, by names of its own."""
    rules = {(r.level, r.after, r.before, r.wait) for r in aim_isr.STANDARD.rules}
    for rule in aim.STANDARD.rules:
        assert (rule.level, aim_isr.named(rule.after), aim_isr.named(rule.before), rule.wait) in rules
    assert len(aim_isr.STANDARD.commands) == len(aim.STANDARD.commands) + 8


def test_a_row_is_open_from_its_activation_on() -> None:
    found = run("micro_macab_1024_16banks")
    assert np.all(found.open_ck == 1023 * (226 - 32) + 182 + 3)  # after the last ACT16 until EOC is answered
