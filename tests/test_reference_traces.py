"""Command traces of two public simulators, checked against our tables with the timings of each run.

Our tables and theirs were written from the same standards by different people: what they issued must be legal here,
and where one of our waits grows by a clock some trace must break it, unless nothing in the traces meets that rule.
"""

import csv
import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pimloom.arch.command import STREAM, Level, Standard
from pimloom.arch.part import Organization
from pimloom.arch.standard import clocks, join_tables
from pimloom.arch.table import Table, build_table
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.dram.trace import TRACE
from tests.reference_data import lines, ours_alone, read_yaml, reference_cases
from tests.test_naive_controllers import NAMES

IMPLS = {"GDDR6": "gddr6", "HBM2": "hbm2"}  # Ramulator's names of the devices
PROTOCOLS = {4: "gddr6", 8: "hbm2"}  # DRAMsim3's numbers


def dram_of(folder: Path) -> dict[str, Any]:
    """The device in a Ramulator configuration."""
    found = read_yaml(folder / "config.yaml")
    return found["memory_system"]["controllers"][0]["dram"]


def resolved(folder: Path) -> dict[str, Any]:
    """DRAMsim3's configuration."""
    found: dict[str, Any] = json.loads((folder / "config_resolved.json").read_text())
    return found


def kind(folder: Path) -> str | None:
    """Our standard of a case; None: another one, or bank refreshes, which keep no bank from DRAMsim3's commands."""
    if folder.parent.name == "ramulator2":
        return IMPLS.get(dram_of(folder)["impl"])
    said = resolved(folder)
    return PROTOCOLS.get(said["protocol"]) if said["refresh_policy"] < 2 else None


def cases(tool: str) -> list[Any]:
    """As `reference_cases`, those of the devices that are checked here."""
    every = reference_cases(tool)
    if every[0].values[0] is None:
        return every
    none = pytest.mark.skip(reason=f"no case of {tool} is one of GDDR6 or HBM2")
    known = [one for one in every if kind(one.values[0])]
    return known or [pytest.param(None, id="missing", marks=[pytest.mark.reference, none])]


# fmt: off
VECTOR = {  # names of Ramulator's timing vector in ours; "" = not used here
    "gddr6": ("", "nBL", "nCL", "tRCDRD", "tRCDWR", "tRP", "tRAS", "tRC", "tWR", "tRTP", "nCWL", "tCCD_S", "tCCD_L",
              "tRRD_S", "tRRD_L", "tWTR_S", "tWTR_L", "tFAW", "", "", "tREFI", "", "tRFC", "tPPD"),
    "hbm2": ("", "nBL", "nCL", "tRCDRD", "tRCDWR", "tRP", "tRAS", "tRC", "tWR", "tRTP", "nCWL", "tCCD_S", "tCCD_L",
             "tRRD_S", "tRRD_L", "tWTR_S", "tWTR_L", "tFAW", "tRFC", "", "", "tREFI", "", ""),
}
NUMBERS = {  # Ramulator's command numbers
    "gddr6": ("ACT", "PREab", "PRE", "RD", "WR", "RDA", "WRA", "REFab"),
    "hbm2": ("ACT", "PRE", "PREab", "RD", "WR", "RDA", "WRA", "REFab"),
}
# fmt: on
LEVELS = {
    "gddr6": (Level.CHANNEL, Level.BANK_GROUP, Level.BANK),
    "hbm2": (Level.CHANNEL, Level.PSEUDO_CHANNEL, Level.BANK_GROUP, Level.BANK),
}
SAME = ("tRCDRD", "tRCDWR", "tRP", "tRAS", "tRC", "tWR", "tRTP", "tWTR_S", "tWTR_L", "tFAW", "tPPD", "tRFC", "tREFI")


class Run(NamedTuple):
    """One run of another simulator: our table with its timings, and what it issued."""

    standard: Standard
    ck: dict[str, int]
    table: Table
    trace: np.ndarray


def build(standard: Standard, ck: dict[str, int], counts: tuple[int, ...], skipped: tuple[int, ...] = ()) -> Table:
    """The table of a channel of `counts` (pseudo channels, groups, banks of a group), without the `skipped` rules."""
    pseudo_channels, groups, banks = counts
    org = Organization(
        pseudo_channels, 1, groups, banks, rows=2**16, columns=128, access_bits=256, dq_bits=16, pin_gbps=1,
        capacity_bytes=1,
    )  # fmt: skip
    rules = tuple(r._replace(wait="0") if i in skipped else r for i, r in enumerate(standard.rules))
    return build_table(standard.commands, rules, ck, org, standard.refresh)


def ramulator(folder: Path) -> list[Run]:
    """A run of each channel. HBM2: it logs the first clock of the two-clock ACT, our issue clock is the second."""
    dram = dram_of(folder)
    name = IMPLS[dram["impl"]]
    ck = dict(zip(VECTOR[name], dram["timing"], strict=True))
    ck["nRTW"] = next(w for level, a, b, w, *_ in dram["timing_constraints"] if (a, b) == ([3, 5], [4, 6]))
    standard = join_tables(name, None)
    table = build(standard, ck, (2, 4, 4) if name == "hbm2" else (1, 4, 4))
    runs = []
    for file in sorted(folder.glob("cmd.csv.ch*")):
        rows = list(csv.DictReader(lines(file.with_suffix("") if file.suffix == ".gz" else file)))
        trace = np.zeros(len(rows), TRACE)
        for one, line in zip(trace, rows, strict=True):
            one["cmd"] = table.cmd(line["command"].replace("PREpb", "PRE"))
            one["clock"] = int(line["clock"]) + (name == "hbm2" and line["command"] == "ACT")
            for field, column in [("pch", "PseudoChannel"), ("bg", "BankGroup"), ("bank", "Bank"), ("row", "Row")]:
                one[field] = max(int(line.get(column, 0)), 0)
        runs.append(Run(standard, ck, table, trace[np.argsort(trace["clock"], kind="stable")]))
    return runs


def dramsim(folder: Path) -> list[Run]:
    """A run of each channel. The device has one pseudo channel; in GDDR6 one bank group, and the _S timings for all.

    HBM2: DRAMsim3 knows no two-clock ACT, so our row-bus rule is left out.
    """
    said = resolved(folder)
    name = PROTOCOLS[said["protocol"]]
    ck = {key: said[key] for key in SAME}
    ck |= {"nBL": said["burst_cycle"], "nCL": said["RL"], "nCWL": said["WL"]}
    ck["nRTW"] = said["RL"] + said["burst_cycle"] - said["WL"] + said["tRTRS"]
    for key in ("tCCD", "tRRD"):
        ck[f"{key}_S"] = said[f"{key}_S"]
        ck[f"{key}_L"] = said[f"{key}_L"] if said["bankgroups"] > 1 else said[f"{key}_S"]
    standard = join_tables(name, None)
    skipped = [i for i, r in enumerate(standard.rules) if r.wait == "2"]
    assert len(skipped) == (name == "hbm2")
    table = build(standard, ck, (1, said["bankgroups"], said["banks_per_group"]), tuple(skipped))
    runs = []
    for file in sorted(folder.glob("ch_*cmd.trace*")):
        rows = [line.split() for line in lines(file.with_suffix("") if file.suffix == ".gz" else file)]
        trace = np.zeros(len(rows), TRACE)
        for one, (clock, command, _, _, group, bank, row, _) in zip(trace, rows, strict=True):
            one["clock"], one["cmd"] = int(clock), table.cmd(NAMES[command])
            for field, cell, base in [("bg", group, 10), ("bank", bank, 10), ("row", row, 16)]:
                one[field] = max(int(cell, base), 0)
        runs.append(Run(standard, ck, table, trace))
    return runs


@cache
def runs_of(folder: Path) -> list[Run]:
    """A run of each channel of a case."""
    found = (ramulator if folder.parent.name == "ramulator2" else dramsim)(folder)
    assert found
    return found


BOTH = [*cases("ramulator2"), *cases("dramsim3")]


@pytest.mark.parametrize("case", BOTH)
def test_what_others_issued_is_legal(case):
    for run in runs_of(case):
        assert len(run.trace)
        assert check_trace(run.table, run.trace, due_ck=run.ck["tREFI"]) == []


# Rules that no trace meets at their limit. GDDR6 was only read; RDA and WRA were never used; PREab came only before a
# refresh. tFAW <= 4 tRRD but in DRAMsim3's HBM2.
ASLEEP = {
    "gddr6": {
        "WR/WRA to WR/WRA: nBL",
        "WR/WRA to WR/WRA: tCCD_S",
        "WR/WRA to WR/WRA: tCCD_L",
        "RD/RDA to WR/WRA: nRTW",
        "WR/WRA to RD/RDA: nCWL + nBL + tWTR_S",
        "WR/WRA to RD/RDA: nCWL + nBL + tWTR_L",
        "ACT to WR/WRA: tRCDWR",
        "RD to PRE: tRTP",
        "WR to PRE: nCWL + nBL + tWR",
        "RDA to ACT: tRTP + tRP",
        "WRA to ACT: nCWL + nBL + tWR + tRP",
        "ACT to ACT: tFAW",
        "WR to PREab: nCWL + nBL + tWR",
        "PREab to ACT: tRP",
        "RDA to REFab: tRTP + tRP",
        "WRA to REFab: nCWL + nBL + tWR + tRP",
    },
    "hbm2": {
        "RDA to ACT: tRTP + tRP",
        "WRA to ACT: nCWL + nBL + tWR + tRP",
        "RD to PREab: tRTP",
        "PREab to ACT: tRP",
        "RDA to REFab: tRTP + tRP",
        "WRA to REFab: nCWL + nBL + tWR + tRP",
    },
}


@pytest.mark.reference
@pytest.mark.parametrize("name", ASLEEP)
def test_one_clock_more_is_illegal(name):
    """All waits grow by one; a rule bites if some trace breaks it now: 15 of 31 rules in GDDR6, 25 of 31 in HBM2."""
    ours_alone()
    standard, awake = join_tables(name, None), set()
    folders = [parameter.values[0] for parameter in BOTH if parameter.values[0] is not None]
    for run in (run for folder in folders if kind(folder) == name for run in runs_of(folder)):
        rules = run.table.rules
        longer = replace(run.table, rules=rules._replace(wait=rules.wait + (rules.wait > 0)))
        awake |= {v.rule for v in check_trace(longer, run.trace, limit=1) if v.kind == "rule"}
    names = [f"{'/'.join(r.after)} to {'/'.join(r.before)}: {r.wait}" for r in standard.rules]
    assert {rule for i, rule in enumerate(names) if i not in awake} == ASLEEP[name]


def replay(run: Run, release: np.ndarray, streams: list[np.ndarray]) -> np.ndarray:
    """Clocks in which the engine issues the trace's commands, each of `streams` (places in the trace) in order."""
    rows = np.zeros(len(run.trace), STREAM)
    for field in ("cmd", "pch", "rank", "bg", "bank", "row"):
        rows[field] = run.trace[field]
    rows["count"], rows["release"] = 1, release
    result = issue(run.table, [rows[at] for at in streams], refresh=False)
    found = np.zeros(len(rows), np.int64)
    for at, issue_ck in zip(streams, result.issue_ck, strict=True):
        found[at] = issue_ck
    return found


@pytest.mark.parametrize("case", BOTH)
def test_the_engine_can_issue_what_others_did(case):
    """Each bus a stream, each command released in its clock: it issues in that clock."""
    for run in runs_of(case):
        bus = run.table.rules.bus[run.trace["cmd"]]
        streams = [np.flatnonzero(bus == b) for b in np.unique(bus)]
        assert (replay(run, run.trace["clock"], streams) == run.trace["clock"]).all()


@pytest.mark.parametrize("case", BOTH)
def test_the_engine_is_never_later_than_others(case):
    """All commands released at once, one stream: it issues one command a clock, so each pair that shared a clock in the
    trace may delay what follows by one clock, and nothing else may."""
    for run in runs_of(case):
        clock = run.trace["clock"]
        pairs = np.cumsum(np.diff(clock, prepend=-1) == 0)
        assert kind(case) != "gddr6" or pairs[-1] == 0
        found = replay(run, np.zeros(len(clock), np.int64), [np.arange(len(clock))])
        assert (found <= clock + pairs).all()


def waits(standard: Standard, ck: dict[str, int]) -> dict[tuple[str, str, str, int], int]:
    """Longest wait [CK] of our rules by level, earlier command, later command and window."""
    found: dict[tuple[str, str, str, int], int] = {}
    for rule in standard.rules:
        for after, before in product(rule.after, rule.before):
            key = rule.level.name, after, before, rule.window
            found[key] = max(found.get(key, 0), clocks(rule.wait, ck))
    return found


# (ours, Ramulator's) where they differ; None: no such rule. GDDR6: there only PREab, not PRE, holds up REFab.
# HBM2: the two-clock ACT keeps others off the bus after its logged clock, ours before; and there REFab holds up only
# ACT and PREab, as nothing else can follow at once: banks are closed, and the next refresh is far.
def different(name: str, ck: dict[str, int]) -> dict[tuple[str, str, str, int], tuple]:
    if name == "gddr6":
        return {("CHANNEL", "PRE", "REFab", 1): (ck["tRP"], None)}
    held_up = ("RD", "RDA", "WR", "WRA", "PRE", "REFab")
    refresh = {("PSEUDO_CHANNEL", "REFab", b, 1): (ck["tRFC"], None) for b in held_up}
    early = {("CHANNEL", "ACT", b, 1): (None, 1) for b in ("PRE", "PREab", "REFab")}
    return refresh | early | {("CHANNEL", a, "ACT", 1): (2, None) for a in ("PRE", "PREab", "REFab")}


@pytest.mark.parametrize("case", cases("ramulator2"))
def test_waits_equal_ramulators(case):
    """Command by command, level by level; its ACT is logged a clock before ours in HBM2."""
    dram, run = dram_of(case), runs_of(case)[0]
    name = IMPLS[dram["impl"]]
    number, early = NUMBERS[name], {"ACT"} if name == "hbm2" else set()
    theirs: dict[tuple[str, str, str, int], int] = {}
    for level, after, before, wait, *window in dram["timing_constraints"]:
        for a, b in product(after, before):
            if max(a, b) < len(number):  # not REFpb
                key = LEVELS[name][level].name, number[a], number[b], *(window or (1,))
                wait_here = wait + (number[b] in early) - (number[a] in early)
                theirs[key] = max(theirs.get(key, 0), wait_here)
    ours = waits(run.standard, run.ck)
    both = {key: (ours.get(key), theirs.get(key)) for key in ours | theirs}
    assert len(both) > 60
    assert {key: pair for key, pair in both.items() if pair[0] != pair[1]} == different(name, run.ck)


DRAMSIM_NAMES = {
    "READ": "RD",
    "WRITE": "WR",
    "READ_PRECHARGE": "RDA",
    "WRITE_PRECHARGE": "WRA",
    "ACTIVATE": "ACT",
    "PRECHARGE": "PRE",
    "REFRESH": "REFab",
}
NEAR = {  # DRAMsim3's tables of waits between two banks, and the innermost level that two such banks share
    "same_bank": Level.BANK,
    "other_banks_same_bankgroup": Level.BANK_GROUP,
    "other_bankgroups_same_rank": Level.PSEUDO_CHANNEL,
    "same_rank": Level.RANK,
}


@pytest.mark.parametrize("case", cases("dramsim3"))
def test_waits_equal_dramsim3s(case):
    """Where DRAMsim3 has a wait, ours is the same, but that RDA waits for tRTP there only after its burst."""
    run, said = runs_of(case)[0], resolved(case)
    ours, seen, found = waits(run.standard, run.ck), 0, {}
    for (near, level), (a, after) in product(NEAR.items(), DRAMSIM_NAMES.items()):
        for b, theirs in said[near][a].items():
            if b in DRAMSIM_NAMES and not (near.startswith("other_bankgroups") and said["bankgroups"] == 1):
                inside = level if DRAMSIM_NAMES[b] != "REFab" else Level.PSEUDO_CHANNEL
                mine = max(ours.get((x.name, after, DRAMSIM_NAMES[b], 1), 0) for x in Level if x <= inside)
                seen += 1
                if mine != theirs:
                    found[near, after, DRAMSIM_NAMES[b]] = theirs - mine
    assert seen > 40
    assert found == {("same_bank", "RDA", "ACT"): said["burst_cycle"]}
