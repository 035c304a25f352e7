"""AttAcc's commands and rules: distances typed from the authors' simulator, blocked at n - 1, legal at n."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from pimloom.arch.system import load_part
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.trace import TRACE

# Places: (pseudo channel, stack ID, bank group, bank)
PLACES = {"a": (0, 0, 0, 0), "b": (0, 0, 0, 1), "g": (0, 0, 1, 0), "s": (0, 1, 0, 0), "p": (1, 0, 0, 0)}
# Columns of the table of presets: nCL nRCD nRP | nRAS | nRC | nWR | nRTPL | nCWL | nCCDAB | nCCDSB | nWTRS nWTRL | nFAW
# | nRFCSB | nREFI | nRREFD; tRC 63 and 77 are a clock short of nRAS + nRP and run as that; tRFC 350 ns.
PRESETS = {
    4800: (17, 41, 58, 20, 8, 5, 6, 6, 8, 10, 36, 240, 4680, 10, 421),
    5200: (19, 45, 64, 21, 8, 6, 6, 6, 8, 11, 39, 260, 5070, 11, 456),
    5600: (20, 48, 68, 23, 9, 6, 6, 7, 9, 12, 42, 280, 5460, 12, 491),
    6000: (21, 51, 72, 24, 9, 6, 6, 7, 9, 12, 45, 300, 5850, 12, 526),
    6400: (23, 55, 78, 26, 10, 7, 7, 8, 10, 13, 48, 320, 6240, 13, 560),
}
NAMES = (
    "tRP", "tRAS", "tRC", "tWR", "tRTP", "nCWL", "nCCDAB", "nCCDSB", "tWTR_S", "tWTR_L", "tFAW", "tRFCpb", "tREFI",
    "tRREFD", "tRFC",
)  # fmt: skip
MOVES = ("WRGB", "MVSB", "MVGB", "SFM", "RD", "WR")
# (first command, second, clocks at 5.2 Gb/s)
DISTANCES = [
    ("ACTAB a", "ACTAB a", 64),
    ("ACTAB a", "MACAB a", 19),
    ("ACTAB a", "PREA a", 45),
    ("MACAB a", "MACAB a", 6),
    ("MACAB a", "PREA a", 8),
    ("PREA a", "ACTAB a", 19),
    ("REFab a", "ACTAB a", 456),
    ("REFab p", "ACTAB a", 456),
    ("REFab s", "ACTSB a", 456),
    ("REFab a", "ACTPB a", 456),
    *(("REFpb p", act, 260) for act in ("ACTAB a", "ACTSB a", "ACTPB a")),
    *((act, "REFpb p", 64) for act in ("ACTAB a", "ACTSB a", "ACTPB a")),
    *((pre, "REFpb p", 19) for pre in ("PREA a", "PRESB a", "PREPB a")),
    *((act, "REFab p", 64) for act in ("ACTAB a", "ACTSB a", "ACTPB a")),
    *((pre, "REFab p", 19) for pre in ("PREA a", "PRESB a", "PREPB a")),
    *((act, row, 2) for act in ("ACTAB a", "ACTSB a", "ACTPB a") for row in ("ACT p", "PRE p", "PREab p", "PRESB b")),
    *((act, "PREPB b", 2) for act in ("ACTAB a", "ACTSB a", "ACTPB a")),
    ("ACTSB a", "ACTSB b", 2),
    ("ACTPB a", "ACTPB g", 2),
    ("MACSB a", "MACSB b", 6),
    ("MACPB a", "MACPB s", 2),
    ("MACPB a", "MACPB g", 2),
    ("MACPB a", "MACPB b", 4),
    *((f"ACT{kind} a", f"ACT{kind} a", 64) for kind in ("SB", "PB")),
    *((f"ACT{kind} a", f"MAC{kind} a", 19) for kind in ("SB", "PB")),
    *((f"ACT{kind} a", f"PRE{kind} a", 45) for kind in ("SB", "PB")),
    *((f"MAC{kind} a", f"PRE{kind} a", 8) for kind in ("SB", "PB")),
    *((f"PRE{kind} a", f"ACT{kind} a", 19) for kind in ("SB", "PB")),
    *((first, "PREA a", 45) for first in ("ACTSB b", "ACTPB g", "ACT g")),
    *((first, "PREA a", 8) for first in ("MACSB b", "MACPB g", "RD g")),
    ("WR p", "PREA a", 29),
    *(("PREA a", then, 19) for then in ("ACTSB b", "ACTPB g", "ACT p")),
    *((pre, act, 19) for pre in ("PRE p", "PREab p") for act in ("ACTAB a", "ACTSB a", "ACTPB a")),
    *((f"{first} a", f"{then} b", 4) for first in MOVES[:4] for then in MOVES),
    *((f"{first} a", f"{then} g", 2) for first in MOVES[:4] for then in MOVES),
    *((f"{first} a", f"{then} s", 2) for first in MOVES[:4] for then in MOVES),
    *((f"{first} a", f"{then} b", 4) for first in ("RD", "WR") for then in MOVES[:4]),
    # what waits for nothing but its bus: moves beside MACs, tFAW and tRRD beside ACTAB
    *((f"{first} a", f"{mac} a", 1) for first in MOVES for mac in ("MACAB", "MACSB", "MACPB")),
    *((f"{mac} a", f"{then} a", 1) for then in MOVES for mac in ("MACAB", "MACSB", "MACPB")),
    *((f"{first} a", f"{then} p", 1) for first in MOVES for then in MOVES),
]  # fmt: skip


def trace_of(table: Table, *commands: tuple[int, str]) -> np.ndarray:
    found = np.zeros(len(commands), TRACE)
    for one, (clock, text) in zip(found, commands, strict=True):
        name, place = text.split()
        one["clock"], one["cmd"] = clock, table.cmd(name)
        one["pch"], one["rank"], one["bg"], one["bank"] = PLACES[place]
    return found


def legal(table: Table, first: str, second: str, apart: int) -> bool:
    """Whether timing rules and buses let the second command follow; rows are not looked at."""
    found = check_trace(table, trace_of(table, (0, first), (apart, second)))
    return not [v for v in found if v.kind in ("rule", "bus")]


@pytest.mark.parametrize(("first", "second", "clocks"), DISTANCES)
def test_distances_are_what_the_simulator_says(first: str, second: str, clocks: int) -> None:
    table = compile_table(load_part("hbm3_attacc_5200").value)
    assert legal(table, first, second, clocks) and not legal(table, first, second, clocks - 1)


@pytest.mark.parametrize("rate", PRESETS)
def test_presets(rate: int) -> None:
    part = load_part(f"hbm3_attacc_{rate}").value
    same = {"nBL": 2, "tCCD_S": 2, "tCCD_L": 4, "tRRD_S": 2, "tRRD_L": 4}
    latency = dict.fromkeys(("nCL", "tRCDRD", "tRCDWR"), PRESETS[rate][0])
    wanted = same | latency | dict(zip(NAMES, PRESETS[rate], strict=True))
    assert {name: part.cycles(name) for name in wanted} == wanted
    assert part.tCK_ps == 10**6 // (rate // 4)
    assert part.organization.banks * 16 == 1024  # banks of a stack


def test_self_refresh_of_a_part_that_has_it() -> None:
    part = load_part("hbm3_attacc_5200").value
    timing = part.timing | {"tCKESR": part.timing["tRRD_L"], "tXS": part.timing["tRFC"]}
    table = compile_table(msgspec.structs.replace(part, timing=timing))
    for act in ("ACTAB", "ACTSB", "ACTPB"):
        assert [legal(table, f"{act} a", "SRE p", n) for n in (63, 64)] == [False, True]
        assert [legal(table, "SRX p", f"{act} a", n) for n in (455, 456)] == [False, True]
    for pre in ("PREA", "PRESB", "PREPB"):
        assert [legal(table, f"{pre} a", "SRE p", n) for n in (18, 19)] == [False, True]


def test_without_the_power_limit() -> None:
    part = load_part("hbm3_attacc_5200", {"timing.nCCDAB": "4 nCK", "timing.nCCDSB": "4 nCK"}).value
    table = compile_table(part)
    for mac, other in (("MACAB", "a"), ("MACSB", "b")):
        assert [legal(table, f"{mac} a", f"{mac} {other}", n) for n in (3, 4)] == [False, True]


def test_rows_and_refresh_of_a_whole_stream() -> None:
    """All that one row needs, each command as early as it may."""
    table = compile_table(load_part("hbm3_attacc_5200").value)
    places = [f"REFab {place}" for place in "asp"]
    steps = ((0, "ACTAB a"), (19, "MACAB a"), (25, "MACAB a"), (45, "PREA a"), (64, places[0]))
    later = ((65, places[1]), (66, places[2]), (522, "ACTAB a"))
    assert not check_trace(table, trace_of(table, *steps, *later))
    for (clock, text), (before, _) in pairwise([*steps, *later][::-1]):
        others = [step for step in (*steps, *later) if step[0] < clock]
        if clock - 1 > before or text == "ACTAB a":
            assert check_trace(table, trace_of(table, *others, (clock - 1, text)))
