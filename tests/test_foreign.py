"""Configurations of DRAMsim3 and Ramulator 2.1: what the tools resolve is what we read, and no file is a traceback."""

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from pimloom.arch.command import Level
from pimloom.arch.error import UserError
from pimloom.arch.foreign import dramsim3_config, dramsim3_rules, ramulator2_file
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2, rules
from pimloom.arch.memory import Memory
from pimloom.arch.policy import load_policy
from pimloom.arch.standard import clocks
from pimloom.arch.table import rule_rows
from tests.foreign import INI, YAML, changed, ini, ramulator
from tests.reference_data import read_yaml, reference_cases
from tests.slow import slow

OURS = {  # DRAMsim3's commands
    **{"READ": "RD", "WRITE": "WR", "READ_PRECHARGE": "RDA", "WRITE_PRECHARGE": "WRA", "ACTIVATE": "ACT"},
    **{"PRECHARGE": "PRE", "REFRESH": "REFab", "REFRESH_BANK": "REFpb", "SREF_ENTER": "SRE", "SREF_EXIT": "SRX"},
}
RANK_WIDE = ("REFab", "SRE", "SRX")
PLACES = ("same_bank", "other_banks_same_bankgroup", "other_bankgroups_same_rank", "other_ranks")
REACH = {Level.BANK: 1, Level.BANK_GROUP: 2, Level.RANK: 3, Level.CHANNEL: 4}  # places that a rule of a level covers
Waits = dict[tuple[str, str, str], int]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def flattened(memory: Memory) -> Waits:
    """(place, command, next command) -> the longest wait of all rules that apply there; windows left out."""
    found: Waits = {}
    for rule in rule_rows(memory.table.rules):
        covered = PLACES[: REACH[Level(rule.level)]] if not rule.sibling else [PLACES[REACH[Level(rule.level)]]]
        pairs = [(p, a, b) for p in covered for a in rule.after for b in rule.before if rule.window == 1]
        for place, a, b in pairs:
            key = (place, memory.table.names[a], memory.table.names[b])
            found[key] = max(found.get(key, 0), rule.wait)
    return found


def tabulated(resolved: dict) -> Iterator[tuple[tuple[str, str, str], int]]:
    """The same of the tool's five tables. A rank-wide command needs all banks, so any place of a rank means all."""
    for place in (*PLACES, "same_rank"):
        for a, nexts in resolved[place].items():
            for b, wait in nexts.items():
                if place == "same_rank" and a == "REFRESH_BANK":
                    continue  # the tool never looks there
                spread = place == "same_rank" or OURS[b] in RANK_WIDE
                for where in PLACES[:3] if spread else (place,):
                    yield (where, OURS[a], OURS[b]), wait


def existing(waits: Waits, resolved: dict) -> Waits:
    absent = [PLACES[3]] * (resolved["ranks"] == 1) + [PLACES[2]] * (resolved["bankgroups"] == 1)
    return {key: wait for key, wait in waits.items() if key[0] not in absent and wait > 0}


@pytest.mark.parametrize("case", reference_cases("dramsim3"))
def test_dramsim3_every_parameter_and_every_wait_is_what_the_tool_resolved(case):
    resolved = json.loads((case / "config_resolved.json").read_text())
    memory, config = load_dramsim3(case / "config.ini"), dramsim3_config.read_config(case / "config.ini")
    assert config.number == {name: resolved[name] for name in config.number}, case.name
    expected: Waits = {}
    for key, wait in tabulated(resolved):
        expected[key] = max(wait, expected.get(key, 0))
    assert existing(flattened(memory), resolved) == existing(expected, resolved), case.name
    windows = [(r.window, r.wait) for r in rule_rows(memory.table.rules) if r.window > 1]
    assert windows == [(4, resolved["tFAW"]), (32, resolved["t32AW"])][: 1 + (resolved["protocol"] == 4)]


@pytest.mark.parametrize("case", reference_cases("dramsim3"))
def test_dramsim3_memory_is_what_the_tool_resolved(case):
    names = {"ch": "channel", "ra": "rank", "bg": "bank_group", "ba": "bank", "ro": "row", "co": "column"}
    resolved, m = json.loads((case / "config_resolved.json").read_text()), load_dramsim3(case / "config.ini")
    low = 0
    positions = {}
    for field, bits in m.address:
        positions[field], low = (low, (1 << bits) - 1), low + bits
    for short, field in names.items():
        mask = resolved[f"{short}_mask"]
        assert positions.get(field, (0, 0)) == ((resolved[f"{short}_pos"], mask) if mask else (0, 0))
    assert m.capacity_bytes == resolved["channel_size"] * resolved["channels"] << 20
    assert (m.access_bytes, m.offset_bits) == (resolved["request_size_bytes"], resolved["shift_bits"])
    assert (m.tCK_ps, m.channels) == (round(resolved["tCK"] * 1000), resolved["channels"])
    assert m.clocks["nCL"] + m.clocks["nBL"] == resolved["read_delay"]
    assert m.clocks["nCWL"] + m.clocks["nBL"] == resolved["write_delay"]
    assert len(set(m.table.rules.bus)) == 1 + resolved["enable_hbm_dual_cmd"]
    policy = (m.policy.queues.upper(), m.policy.page == "closed", m.policy.queue_entries, m.policy.read_entries)
    closed = resolved["row_buf_policy"] == "CLOSE_PAGE"
    sizes = (resolved["cmd_queue_size"], resolved["trans_queue_size"])
    assert policy == (resolved["queue_structure"], closed, *sizes)
    assert m.policy.refresh == ("all_bank", "staggered", "per_bank")[resolved["refresh_policy"]]
    assert m.currents is not None
    idd, vdd, t = m.currents.idd, m.currents.vdd * m.currents.devices, m.clocks
    act = vdd * (idd["IDD0"] * t["tRC"] - (idd["IDD3N"] * t["tRAS"] + idd["IDD2N"] * t["tRP"]))
    energy = [act, vdd * (idd["IDD4R"] - idd["IDD3N"]) * t["nBL"], vdd * (idd["IDD4W"] - idd["IDD3N"]) * t["nBL"]]
    energy += [vdd * (idd["IDD5B"] - idd["IDD3N"]) * t["tRFC"], vdd * (idd["IDD5PB"] - idd["IDD3N"]) * t["tRFCpb"]]
    energy += [vdd * idd["IDD3N"], vdd * idd["IDD2N"], vdd * idd["IDD6"]]
    causes = ("act", "read", "write", "ref", "refb", "act_stb", "pre_stb", "sref")
    assert energy == pytest.approx([resolved[f"{cause}_energy_inc"] for cause in causes])


def test_dramsim3_small_file():
    m = ini(INI)
    assert m.address == (("column", 7), ("bank_group", 2), ("bank", 2), ("rank", 1), ("row", 16))
    assert m.peak_gb_s == pytest.approx(25.3968, abs=1e-4)
    assert m.policy.queue_entries == 8
    config = dramsim3_config.read_config(Path("a.ini"))
    said = [str(rule) for rule in dramsim3_rules.rules(config)]
    assert len(said) == 42
    assert said[:3] == [
        "RD RDA → RD RDA, other rank: 5",
        "RD → RD RDA, same rank: 4",
        "RD → RD RDA, same bank group: 8",
    ]
    assert "ACT → ACT, same rank, 4th latest: 34" in said
    left = "trans_queue_size = 32, queue_structure = PER_BANK, row_buf_policy = OPEN_PAGE"
    left += ", refresh_policy = RANK_LEVEL_STAGGERED, IDD2N = 34, IDD3N = 43, IDD4W = 123, IDD4R = 135, IDD5AB = 250"
    assert m.warnings == (f"a.ini: not given, so DRAMsim3's defaults hold: {left}",)


def test_dramsim3_rules_say_all_waits_of_a_pair_and_no_other():
    Path("a.ini").write_text(INI)
    config = dramsim3_config.read_config(Path("a.ini"))
    for sizes in product((1, 2), repeat=3):
        config = config._replace(number=dict(zip(("banks_per_group", "bankgroups", "ranks"), sizes, strict=True)))
        for waits in product((-1, 0, 1, 2, 3), repeat=4):
            said, placed = [0] * 4, list(dramsim3_rules._placed(config, dramsim3_rules.Waits(*waits)))
            for level, wait, sibling in placed:
                places = [REACH[level]] if sibling else range(REACH[level])
                said = [max(old, wait) if p in places else old for p, old in enumerate(said)]
            exists = (True, *(size > 1 for size in sizes))
            assert all(s == max(w, 0) for s, w, e in zip(said, waits, exists, strict=True) if e), (sizes, waits)
            nested = [max(w, 0) for w, e in zip(waits, exists, strict=True) if e]
            if nested == sorted(nested, reverse=True):
                assert len(placed) == len({*nested} - {0}) and not any(sibling for *_, sibling in placed)


TABLE = """
RD RD RDA: tCCD_L, tCCD_L, tCCD_S, BC + tRTRS
RDA RD RDA: 0, tCCD_L, tCCD_S, BC + tRTRS
RD WR WRA: RL + BC - WL + tRTRS, RL + BC - WL + tRTRS, RL + BC - WL + tRTRS, RL + BC + tRTRS - WL
RDA WR WRA: 0, RL + BC - WL + tRTRS, RL + BC - WL + tRTRS, RL + BC + tRTRS - WL
WR RD RDA: WL + BC + tWTR_L, WL + BC + tWTR_L, WL + BC + tWTR_S, WL + BC + tRTRS - RL
WRA RD RDA: 0, WL + BC + tWTR_L, WL + BC + tWTR_S, WL + BC + tRTRS - RL
WR WR WRA: tCCD_L, tCCD_L, tCCD_S, BC
WRA WR WRA: 0, tCCD_L, tCCD_S, BC
RD PRE: AL + tRTP
WR PRE: WL + BC + tWR
RDA ACT: AL + BC + tRTP + tRP
RDA REFpb: AL + tRTP + tRP
RDA REFab SRE: AL + tRTP + tRP, AL + tRTP + tRP, AL + tRTP + tRP
WRA ACT REFpb: WL + BC + tWR + tRP
WRA REFab SRE: WL + BC + tWR + tRP, WL + BC + tWR + tRP, WL + BC + tWR + tRP
ACT RD RDA: toRD
ACT WR WRA: toWR
ACT PRE: tRAS
ACT ACT: tRAS + tRP, tRRD_L, tRRD_S
ACT REFpb: 0, tRAS + tRP, tRAS + tRP
PRE ACT REFpb: tRP
PRE REFab SRE: tRP, tRP, tRP
PRE PRE: 0, toPRE, toPRE
REFpb ACT: 0, tRFC, tRFC
REFpb REFpb: 0, tREFI, tREFI
REFab ACT REFab SRE: tRFC, tRFC, tRFC
SRE SRX: tCKESR, tCKESR, tCKESR
SRX ACT REFab REFpb SRE: tXS, tXS, tXS
"""  # DRAMsim3's waits for the places of PLACES, as the data's specification states them (2.10)
DISTINCT = "CL 11 CWL 9 tRTRS 1 tRTP 13 tWTR_L 19 tWTR_S 17 tWR 23 tRP 29 tRRD_L 37 tRRD_S 31 tRAS 53 tRCD 41 tRCDRD 43"
DISTINCT += " tRCDWR 47 tRFC 307 tREFI 1009 tCKESR 59 tXS 311 tPPD 5 tCCD_L 10 tCCD_S 8 tFAW 151 AL 3"


@pytest.mark.parametrize(
    ("protocol", "columns", "burst", "groups"),
    [("DDR4", 1024, 4, 4), ("DDR3", 1024, 4, 1), ("GDDR5", 128, 2, 4), ("HBM2", 512, 4, 4)],
)
def test_dramsim3_waits_where_no_two_timings_are_equal(protocol, columns, burst, groups):
    words = DISTINCT.split()
    ck = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    timing = "".join(f"{name} = {value}\n" for name, value in ck.items())
    text = INI[: INI.index("CL = ")] + timing + INI[INI.index("\n[power]") :]
    text = text.replace("columns = 1024", f"columns = {columns}").replace("DDR4", protocol)
    text = text.replace("bankgroups = 4", f"bankgroups = {groups}")
    slow = ck["tRCD"] - ck["AL"]
    to_column = (slow, slow) if protocol.startswith("DDR") else (ck["tRCDRD"], ck["tRCDWR"])
    ck |= {"BC": burst, "RL": 14, "WL": 12, "toRD": to_column[0], "toWR": to_column[1]}
    ck["toPRE"] = ck["tPPD"] if protocol == "GDDR5" else 0
    expected: Waits = {}
    for row in TABLE.strip().replace("_L", "_L" if groups > 1 else "_S").splitlines():
        (after, *nexts), waits = row.split(":")[0].split(), row.split(":")[1].split(",")
        for (place, wait), before in product(zip(PLACES, waits, strict=False), nexts):
            expected[place, after, before] = clocks(wait, ck)
    sizes = {"ranks": 2, "bankgroups": groups}
    assert existing(flattened(ini(text)), sizes) == existing(expected, sizes)


NUMBERS = {  # Ramulator's command numbers, section by section of its exported rules
    "DDR4": ("ACT", "PRE", "PREab", "RD", "WR", "RDA", "WRA", "REFab"),
    "HBM2": ("ACT", "PRE", "PREab", "RD", "WR", "RDA", "WRA", "REFab", "REFpb"),
    "GDDR6": ("ACT", "PREab", "PRE", "RD", "WR", "RDA", "WRA", "REFab", "REFpb"),
}
LEVELS = {"DDR4": (0, 2, 3, 4), "HBM2": (0, 1, 3, 4), "GDDR6": (0, 3, 4)}
SCOPES = {"DDR4": Level.RANK, "HBM2": Level.PSEUDO_CHANNEL, "GDDR6": Level.CHANNEL}


@pytest.mark.parametrize("case", reference_cases("ramulator2"))
def test_ramulator_rules_are_those_of_the_file(case):
    dram = read_yaml(case / "config.yaml")["memory_system"]["controllers"][0]["dram"]
    m, names = load_ramulator2(case / "config.yaml"), NUMBERS[dram["impl"]]
    assert m.table.names == names
    expected = []
    for level, after, before, wait, *rest in dram["timing_constraints"]:
        window, sibling = rest + [1, False][len(rest) :]
        expected.append((LEVELS[dram["impl"]][level], window, wait, sibling, sorted(after), sorted(before)))
    rules = rule_rows(m.table.rules)
    assert [(*row[:4], sorted(row.after), sorted(row.before)) for row in rules] == expected
    scope = m.table.rules.scope
    assert {scope[m.table.cmd("REFab")], scope[m.table.cmd("PREab")]} == {SCOPES[dram["impl"]]}
    assert len(set(m.table.rules.bus)) == 1 + (dram["impl"] == "HBM2")


DEVICES = {  # transfers of a pin in a clock; levels of an address between column and row; channels that pins serve
    "DDR4": (2, ("rank", "bank_group", "bank"), 1),
    "HBM2": (2, ("pseudo_channel", "bank_group", "bank"), 2),
    "GDDR6": (8, ("bank_group", "bank"), 1),
}
PLACES_OF = {  # in the file's `timing`: nBL, nCWL, nREFI, nRFC, tCK in ps
    "DDR4": (1, 9, 18, 17, 20),
    "HBM2": (1, 10, 21, 18, 23),
    "GDDR6": (1, 10, 20, 22, 21),
}


@pytest.mark.parametrize("case", reference_cases("ramulator2"))
def test_ramulator_memory_is_that_of_the_file(case):
    """Addresses as RoBaRaCoCh has them: specification of the data, 5.1."""
    controllers = read_yaml(case / "config.yaml")["memory_system"]["controllers"]
    c, dram, m = controllers[0], controllers[0]["dram"], load_ramulator2(case / "config.yaml")
    rate, levels, served = DEVICES[dram["impl"]]
    burst, write, refresh, refreshing, clock = (dram["timing"][place] for place in PLACES_OF[dram["impl"]])
    *counts, rows, columns = dram["org"]["count"]
    access = dram["channel_width"] * rate * burst // 8
    assert m.offset_bits == access.bit_length() - 1 and m.channels == len(controllers)
    sizes = {"column": columns // (rate * burst), **dict(zip(levels, counts[1:], strict=True)), "row": rows}
    assert [(field, bits) for field, bits in m.address if field != "channel"] == [
        (field, size.bit_length() - 1) for field, size in sizes.items()
    ]
    clocks = tuple(m.clocks[name] for name in ("nCL", "nCWL", "nBL", "tREFI", "tRFC"))
    assert clocks == (dram["read_latency"] - burst, write, burst, refresh, refreshing)
    assert m.tCK_ps == clock and m.peak_gb_s == pytest.approx(served * access / (burst * clock / 1000))
    p, hits = m.policy, c["scheduler"]["impl"] == "FRFCFS-RowHit"
    assert (p.scheduler, p.read_entries, p.write_entries, p.drain_low, p.drain_high) == (
        "fr_fcfs" + "_row_hit" * hits,
        *(c[name] for name in ("read_buffer_size", "write_buffer_size", "wr_low_watermark", "wr_high_watermark")),
    )
    assert p.page == {"Open": "open", "ClosedCAP": "closed"}[c["row_policy"]["impl"]]
    assert p.page == "open" or p.row_hit_cap == c["row_policy"]["cap"]


def test_ramulator_small_file():
    m = ramulator(YAML)
    assert m.warnings == ()
    config = ramulator2_file.read_config(Path("a.yaml"))
    assert [str(rule) for rule in rules(config)] == [
        "RD RDA → RD WR RDA WRA, other rank: 6",
        "ACT → ACT, same rank, 4th latest: 34",
        "REFab → ACT PREab, same rank: 576",
        "ACT → PRE, same bank: 52",
    ]
    p = m.policy
    assert (p.read_entries, p.write_entries, p.scheduler, p.page) == (16, 24, "fr_fcfs_row_hit", "closed")
    assert (p.row_hit_cap, p.drain_low, p.drain_high, p.refresh) == (6, 0.2, 0.8, "all_bank")


def test_ramulator_channel_bits_stand_above_the_interleaved_ones():
    controller = YAML[YAML.index("    - impl: GenericDDR") :]
    m = ramulator(changed(YAML + controller, "interleave_bits: 0", "interleave_bits: 3"))
    rest = (("rank", 1), ("bank_group", 2), ("bank", 2), ("row", 16))
    assert m.address == (("column", 3), ("channel", 1), ("column", 4), *rest)
    assert (m.channels, m.capacity_bytes) == (2, 2 << 34)


HOSTILE = ("", "-1", "0", "3", "9" * 30, "1e308", "nan", "[", "{}", "[1]", "null", "&a x", "x: y", "'\x00'")


@pytest.mark.parametrize("share", [3, slow(1)])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_is_a_traceback(text, share):
    """On every third line, whose turn goes round with the values, or on each."""
    for whole, load, sign in ((INI, ini, "="), (YAML, ramulator, ":")):
        lines = whole.splitlines()
        for i, line in enumerate(lines):
            if sign in line and (i + HOSTILE.index(text)) % share == 0:
                hostile = [*lines[:i], f"{line.split(sign)[0]}{sign} {text}", *lines[i + 1 :]]
                with suppress(UserError):
                    load("\n".join(hostile))


def test_policies_by_name_and_path():
    assert load_policy("default").value.quirks == "none"
    assert load_policy("dramsim3", {"page": "closed"}).value.page == "closed"
    with pytest.raises(UserError, match="unknown controller 'dramsim'; nearest: dramsim3; known controllers: default"):
        load_policy("dramsim")
    with pytest.raises(UserError, match="^--set drain_low: expected at most drain_high = 0.25, got 0.5"):
        load_policy("default", {"drain_low": "0.5", "drain_high": "0.25"})
