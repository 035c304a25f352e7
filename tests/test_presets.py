"""The presets as data: what each file says agrees with itself, with its standard, and with what it restates."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pimloom.arch.command import STREAM
from pimloom.arch.llm import list_presets, load_llm
from pimloom.arch.part import Part, Table, compile_table, standard_of
from pimloom.arch.system import HERE, PimSystem, RooflineSystem, list_names, load_part, load_system
from pimloom.cycle_sim.dram import Issue, issue
from pimloom.cycle_sim.monitor import check_trace, expand

PARTS, SYSTEMS = list_names("parts"), list_names("systems")
LOADERS: dict[str, Callable[[str], Any]] = {"parts": load_part, "systems": load_system}


def test_every_yaml_walks() -> None:
    files = sorted(HERE.rglob("*.yaml"))
    assert {(path.parent.name, path.stem) for path in files} == {
        *(("parts", name) for name in PARTS),
        *(("systems", name) for name in SYSTEMS),
    }
    for path in files:
        assert LOADERS[path.parent.name](str(path))


# Parts: capacity [bytes], peak of a channel [GB/s], both typed from the data sheets' headlines
HEADLINE = {
    "gddr6_14000": (512 * 2**20, 28.0),
    "gddr6_aim": (512 * 2**20, 32.0),
    "gddr6_pim_gpt": (512 * 2**20, 32.0),
    "hbm2_2000": (1024 * 2**20, 32.0),
}


@pytest.mark.parametrize("name", PARTS)
def test_part_agrees_with_itself(name: str) -> None:
    part = load_part(name).value
    org, ck = part.organization, part.cycles
    capacity, peak = HEADLINE[name]
    banks = org.pseudo_channels * org.ranks * org.bank_groups * org.banks_per_group
    assert banks * org.rows * org.columns * org.access_bits == 8 * org.capacity_bytes == 8 * capacity
    assert org.dq_bits * org.pin_gbps == 8 * part.peak_gb_s == 8 * peak
    pins = org.dq_bits // org.pseudo_channels
    assert ck("nBL") * part.tCK_ps * pins * org.pin_gbps / 1000 == pytest.approx(org.access_bits, rel=0.003)
    assert ck("tRC") >= ck("tRAS") + ck("tRP") and ck("tRAS") >= ck("tRCDRD") and ck("tREFI") > ck("tRFC")
    assert ck("tCCD_L") >= ck("tCCD_S") >= ck("nBL") and ck("tRRD_L") >= ck("tRRD_S")
    assert 4 * ck("tRRD_S") >= ck("tFAW") or ck("tFAW") > 3 * ck("tRRD_S")
    if part.pim_unit:
        assert part.pim_unit.lanes * part.pim_unit.element_bits == org.access_bits
        assert part.pim_unit.global_buffer_bytes == org.row_bytes == 2048
    assert all(part.current[key] > 0 for key in part.current)


# Streaming: reads of open rows, bank groups in turn, all pseudo channels at once. Per part: the accesses in one tREFI
# in a steady stream, (tREFI - overhead) / tCCD_S, where a refresh costs: the last RD, tRTP, PREab, tRP, REFab, tRFC,
# 16 ACT (the first bank is read as soon as it may).
ROUNDS = 40_000
SHARE = {  # percent of peak: the refresh share 1 - tRFC / tREFI, and what we reach
    "gddr6_14000": (93.67, 92.0),
    "gddr6_aim": (97.31, 95.9),
    "gddr6_pim_gpt": (93.33, 92.4),
    "hbm2_2000": (91.03, 89.7),
}


def reads(table: Table, part: Part, pch: int, rounds: int) -> np.ndarray:
    """Open row 0 of all banks of a pseudo channel, then read bank after bank, neighbours in different bank groups."""
    org = part.organization
    places = list(product(range(org.banks_per_group), range(org.bank_groups)))
    stream = np.zeros(len(places) + rounds, STREAM)
    stream["pch"] = pch
    stream["cmd"] = table.cmd("RD")
    stream["cmd"][: len(places)] = table.cmd("ACT")
    bank, group = np.array([places[i % len(places)] for i in range(len(stream))]).T
    stream["bank"], stream["bg"], stream["count"] = bank, group, 1
    stream["col"] = np.arange(len(stream)) // len(places) % org.columns
    return stream


def stream_all(name: str, rounds: int, refresh: bool) -> tuple[Part, Table, list[np.ndarray], Issue]:
    part = load_part(name).value
    table = compile_table(part)
    streams = [reads(table, part, pch, rounds) for pch in range(part.organization.pseudo_channels)]
    return part, table, streams, issue(table, streams, refresh=refresh)


@pytest.mark.parametrize("name", PARTS)
def test_streaming_without_refresh_is_the_peak(name: str) -> None:
    part, table, streams, found = stream_all(name, 2000, refresh=False)
    assert part.cycles("tCCD_S") == part.cycles("nBL")
    for stream, at in zip(streams, found.issue_ck, strict=True):
        data = at[stream["cmd"] == table.cmd("RD")][100:]
        assert set(np.diff(data)) == {part.cycles("nBL")}
    gb_s = len(streams) * part.organization.access_bits / 8 / (part.cycles("nBL") * part.tCK_ps) * 1000
    assert gb_s == pytest.approx(part.peak_gb_s, rel=0.003)
    assert not check_trace(table, expand(table, streams, found.issue_ck, found.end_ck, found.refresh_ck))
