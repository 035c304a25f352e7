"""Cycle counts that a public simulator of AiM measured, reproduced by the `gddr6_aim` part.

Source: arkhadem/aim_simulator@0f28a07, `memory_system_cycles` of its test/micro_*.csv with test/example.yaml. What
stands before the channel is in `tests/aim_host.py`; `reports/pim_gpt/AIM.md` explains every clock.
"""

import pytest

from pimloom.arch.system import load_part
from tests.aim_host import Isr, cycles

ROWS = range(1024)
TRACES = {
    "macab": [Isr("MAC_ABK", row, 64) for row in ROWS],
    "rdmac": [Isr("RD_MAC")] * 1024,
    "wrbias": [Isr("WR_BIAS")] * 1024,
    "wrab": [Isr("WR_ABK", row) for row in ROWS],
    "wrbias_mac_rdmac_mac": [Isr("WR_BIAS"), Isr("MAC_ABK", 0, 64), Isr("RD_MAC"), Isr("MAC_ABK", 1, 64)] * 1024,
}


def run(trace: str, **timing: str):
    part = load_part("gddr6_aim", {f"timing.{name}": text for name, text in timing.items()}).value
    return cycles(part, TRACES[trace])


@pytest.mark.parametrize(
    ("trace", "golden", "commands"),
    [
        ("macab", 231_383, {"ACTab": 1024, "MACab": 65_536, "PREab": 1023}),
        ("rdmac", 3_106, {"TMOD": 1, "RDMAC": 1024}),
        ("wrbias", 2_083, {"TMOD": 1, "WRMAC": 1024}),
        ("wrab", 103_393, {"ACTab": 1024, "WRAab": 1024}),
        (
            "wrbias_mac_rdmac_mac",
            576_482,
            {"TMOD": 4096, "WRMAC": 1024, "RDMAC": 1024, "ACTab": 2048, "MACab": 131_072, "PREab": 2047},
        ),
    ],
)
def test_cycles_are_those_of_the_aim_simulator(trace, golden, commands):
    found, counts = run(trace)
    assert found == golden
    assert counts == commands | {"EOC": 1}


@pytest.mark.parametrize(
    ("timing", "text", "more"),
    [
        ("tRCDMAC", "57 nCK", (1024, 0, 0, 0, 2048)),
        ("tCCD_L", "3 nCK", (64_512, 0, 0, 0, 129_024)),  # 63 of each 64 MACab
        ("tRTP", "13 nCK", (1023, 0, 0, 0, 0)),  # TMOD hides it
        ("tRP", "33 nCK", (1023, 0, 0, 1024, 2047)),  # after WRAab the write is under way for tRP, too
        ("nMODCH", "33 nCK", (0, 1, 1, 0, 4096)),
        ("nMACRES", "3 nCK", (0, 0, 0, 0, 1024)),
        ("nCLREG", "1 nCK", (0, 1024, 0, 0, 1024)),  # RD_MAC blocks
        ("nCWLREG", "2 nCK", (0, 0, 1, 0, 0)),
        ("tRCDWR", "29 nCK", (0, 0, 0, 1024, 0)),
        ("tWR", "34 nCK", (0, 0, 0, 1023, 0)),  # not after the last one
    ],
)
def test_one_clock_more_counts_as_often_as_the_rule_binds(timing, text, more):
    found = tuple(run(trace, **{timing: text})[0] - run(trace)[0] for trace in TRACES)
    assert found == more
