"""The memory engine against the cycle-by-cycle oracles on random controllers, devices and requests.

Configurations are drawn over all that matters and written as a user would, as `.ini` for DRAMsim3 and `.yaml` for
Ramulator; the oracles get them through `tests.resolve_dramsim3` and as they are, not through the importers. Requests
crowd on few banks, rows and addresses. What the engine says must be what the oracle says: commands, clocks of each
request, counters; where an oracle finds that nothing goes on, the engine must say so.
"""

import json
import re
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2
from tests import naive_dramsim3, naive_ramulator
from tests.memory_run import (
    dramsim3_counters,
    dramsim3_latencies,
    dramsim3_trace,
    ramulator_counters,
    ramulator_trace,
    run,
)
from tests.reference_data import reference_cases
from tests.resolve_dramsim3 import POLICIES, PROTOCOLS, ini_text, resolve

LIMIT = 6000  # clocks that an oracle is given
PATIENCE = 3000  # of them without a callback, after which Ramulator's gives up
STARVED = "clock [0-9]+: requests wait, but none has been accepted or served since clock [0-9]+: "
LIVELOCK = "clock [0-9]+: DRAMsim3 livelocks: the write of (0x[0-9a-f]+) waits for a read of that address"
ASLEEP = "clock [0-9]+: DRAMsim3 aborts when a request or a refresh comes to a rank that has just entered "
TRANSFERS = {"GDDR5": 4, "GDDR5X": 8, "GDDR6": 16}  # of a clock


class Endless(Exception):
    """An oracle has used up its clocks."""


class Lost(Exception):
    """2.1: a column command has left its queue, and is dropped."""


SAYS = {  # what the oracle raises -> what the engine says
    naive_dramsim3.Livelock: LIVELOCK,
    RuntimeError: ASLEEP,
    Lost: "clock [0-9]+: DRAMsim3 loses a read or a write where two may issue in one clock; ",
    Endless: STARVED,
}


class Limited(naive_dramsim3.Channel):
    """A channel that does not tick for ever, and says when it loses a request."""

    def tick(self) -> None:
        if self.clock >= LIMIT:
            raise Endless
        super().tick()

    def pick(self) -> naive_dramsim3.Entry | None:
        found = super().pick()
        issued = self.trace[-1] if self.trace else (-1, "")
        if found and {found[0], issued[1]} <= {*naive_dramsim3.COLUMN} and issued[0] == self.clock:
            raise Lost
        return found


# DRAMsim3


def some_clocks(rng: Random, most: int) -> int:
    """Mostly few, often none, sometimes many."""
    return rng.choice((0, 1, rng.randrange(8), rng.randrange(most), rng.randrange(most), rng.randrange(4 * most)))


def dramsim3_ini(rng: Random) -> str:
    protocol = rng.choice([name for name in PROTOCOLS if name != "LPDDR3"])
    burst = TRANSFERS.get(protocol, 2) * rng.choice((1, 2, 4))
    width = rng.choice((8, 16, 64))
    structure = {
        **{"protocol": protocol, "bankgroups": rng.choice((1, 2, 4)), "banks_per_group": rng.choice((1, 2, 4))},
        **{"rows": rng.choice((1024, 4096)), "device_width": width, "BL": burst},
        "columns": 2048 // (burst if protocol in TRANSFERS else 2 if protocol.startswith("HBM") else 1),
        **{"hbm_dual_cmd": rng.random() < 0.7, "bankgroup_enable": rng.random() < 0.9},
    }
    most = rng.choice((3, 12, 40))
    names = (
        "AL CL CWL tCCD_L tCCD_S tRTRS tRTP tWTR_L tWTR_S tWR tRP tRRD_L tRRD_S tRAS tRCD tRFC tCKESR tXS tRFCb tFAW"
    )
    timing = {name: some_clocks(rng, most) for name in f"{names} tPPD t32AW tRCDRD tRCDWR".split()}
    timing["AL"] = rng.choice((0, 0, rng.randrange(4)))
    timing["tREFI"] = max(4, timing["tRFC"] + 1, rng.choice((20, 150, 400, 2000)) + rng.randrange(50))
    timing["tREFIb"] = rng.choice((1, 10, 60, 300)) + rng.randrange(20)
    fields = ["ch", "ra", "bg", "ba", "ro", "co"]
    rng.shuffle(fields)
    system = {
        **{"bus_width": 64, "channels": rng.choice((1, 1, 2, 4)), "address_mapping": "".join(fields)},
        **{"cmd_queue_size": rng.choice((1, 2, 4, 8)), "trans_queue_size": rng.choice((1, 2, 4, 12, 32))},
        "queue_structure": rng.choice(("PER_BANK", "PER_RANK")),
        "row_buf_policy": rng.choice(("OPEN_PAGE", "OPEN_PAGE", "CLOSE_PAGE")),
        **{"refresh_policy": rng.choice(POLICIES), "unified_queue": rng.random() < 0.2},
        **{"enable_self_refresh": rng.random() < 0.3, "sref_threshold": rng.choice((1, 7, 40, 200))},
        "channel_size": 1,
    }
    text = ini_text({"dram_structure": structure, "timing": timing, "power": {"IDD0": 60.5}, "system": system})
    ranks = rng.choice((1, 2, 4))
    return text.replace("channel_size = 1\n", f"channel_size = {resolve(text)['channel_size'] * ranks}\n")


def some_requests(rng: Random, bits: int, low: int, count: int) -> list[tuple[int, bool, int]]:
    """Addresses of `bits` bits, `low` of them inside a request, that differ in few bits; bursts, then pauses."""
    base, alike = rng.randrange(1 << bits), rng.choice((1, 3, 8))
    choices = [1 << rng.randrange(low, bits) for _ in range(alike)]
    writes, gap, pause = rng.choice((0, 0.1, 0.3, 0.5, 1)), rng.choice((0, 0, 2, 20)), rng.choice((5, 60, 400))
    recent, clock, found = [base], 0, []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.3:
            address = rng.choice(recent)
        elif kind < 0.9:
            address = rng.choice(recent) ^ rng.choice(choices) ^ rng.choice((0, 0, rng.choice(choices)))
        else:
            address = rng.randrange(1 << bits + rng.choice((0, 0, 2)))
        recent = [*recent[-12:], address]
        clock += rng.randrange(1 + gap) + (rng.randrange(pause) if rng.random() < 0.05 else 0)
        found.append((address, rng.random() < writes, clock))
    return found


def check_dramsim3(rng: Random, folder: Path) -> str:
    """Compare one random case; returns how it ended."""
    text = dramsim3_ini(rng)
    config = resolve(text)
    requests = some_requests(rng, config["address_bits"], config["shift_bits"], rng.choice((1, 10, 40, 120)))
    extra = rng.choice((0, 0, 1, 300))
    (folder / "a.ini").write_text(text)
    memory = load_dramsim3(folder / "a.ini")
    try:
        got = run(memory, requests, extra, rng.choice((1, 2)))
    except UserError as e:
        got, said = None, str(e)
    if got and max(tally.cycles for tally in got.tallies) > LIMIT:
        return "too long"
    with patch.object(naive_dramsim3, "Channel", Limited):
        try:
            accept, done, channels, _ = naive_dramsim3.simulate(config, requests, extra)
        except tuple(SAYS) as e:
            assert got is None, (e, text, requests, extra)
            # Of several channels the engine may find another one at fault; of a fault after LIMIT it knows more.
            known = SAYS[type(e)] if config["channels"] == 1 and type(e) is not Endless else "|".join(SAYS.values())
            assert re.match(known, said), (said, e, text, requests, extra)
            return type(e).__name__
    assert got, (said, text, requests, extra)
    assert got.accept == accept and got.done == done, (text, requests, extra)
    for i, channel in enumerate(channels):
        assert dramsim3_trace(memory, got.rows, i) == channel.trace, (text, requests, extra)
        found, want = dramsim3_counters(memory, got.tallies[i]), channel.counters
        for key, value in found.items():
            if "_energy" in key:
                said = sum(want[key].values()) if isinstance(want[key], dict) else want[key]
                assert value == pytest.approx(said, rel=1e-9, abs=1e-6), key
            else:
                assert value == want[key], (key, text, requests, extra)
        assert dramsim3_latencies(got.tallies[i]) == channel.read_latency
    return "same"


# Ramulator

LEVELS = {"DDR4": 4, "HBM2": 4, "GDDR6": 3}  # down to the bank


def ramulator_yaml(rng: Random) -> dict[str, Any]:
    standard = rng.choice(tuple(LEVELS))
    levels, prefetch = LEVELS[standard], naive_ramulator.PREFETCH[standard]
    inner = [rng.choice((1, 2, 4)) for _ in range(2)]
    ranks = {"DDR4": [rng.choice((1, 2, 4))], "HBM2": [2], "GDDR6": []}[standard]
    timing = [1] * {"DDR4": 21, "HBM2": 24, "GDDR6": 24}[standard]
    timing[naive_ramulator.NREFI[standard]] = rng.choice((15, 80, 300, 1000)) + rng.randrange(30)
    dram = {
        **{"impl": standard, "org": {"dq": 8, "count": [1, *ranks, *inner, 64, 8 * prefetch]}, "timing": timing},
        **{"channel_width": rng.choice((16, 64)), "read_latency": 1 + rng.randrange(30)},
        "timing_constraints": bank_rules(rng, standard, levels - 1) * rng.choice((0, 1, 1))
        + [some_rule(rng, standard, levels) for _ in range(rng.choice((0, 4, 15, 40)))],
    }
    low, high = sorted(rng.choice((0.0, 0.1, 0.2, 0.29, 0.5, 0.8, 1.0)) for _ in range(2))
    controller = {
        "impl": "HBM12" if standard == "HBM2" and rng.random() < 0.7 else "GenericDDR",
        **{"wr_low_watermark": low, "wr_high_watermark": high, "priority_buffer_size": 1568},
        **{f"{op}_buffer_size": rng.choice((1, 2, 5, 32)) for op in ("read", "write")},
        "scheduler": {"impl": rng.choice(("FRFCFS", "FRFCFS-RowHit"))},
        "refresh_manager": {"impl": rng.choice(("AllBank", "AllBank", "NoRefresh"))},
        "row_policy": rng.choice(({"impl": "Open"}, {"impl": "ClosedCAP", "cap": rng.choice((1, 2, 4))})),
        **{"addr_mapper": {"impl": "RoBaRaCoCh"}, "dram": dram},
    }
    mapper = {"impl": "CacheLineInterleave", "interleave_bits": rng.choice((0, 1, 4))}
    channels = [controller] * rng.choice((1, 1, 2))
    return {"memory_system": {"impl": "GenericDRAM", "channel_mapper": mapper, "controllers": channels}}


def bank_rules(rng: Random, standard: str, level: int) -> list[list]:
    """What every device has: a row opens, is used and closes in some clocks."""
    n = {name: i for i, name in enumerate(naive_ramulator.COMMANDS[standard])}
    pairs = "ACT RD, ACT WR, ACT PREpb, RD PREpb, WR PREpb, PREpb ACT, RDA ACT, WRA ACT, RD RD, WR WR, WR RD, RD WR"
    names = [pair.split() for pair in pairs.split(", ")]
    most = rng.choice((6, 25))
    return [[level, [n[after]], [n[before]], rng.randrange(1, most)] for after, before in names]


def some_rule(rng: Random, standard: str, levels: int) -> list:
    """[level, [previous], [next], clocks, window, sibling]; the level is not below that of a rank-wide command."""
    names = naive_ramulator.COMMANDS[standard]
    level = rng.randrange(levels)
    scope = levels - 3
    known = [i for i, name in enumerate(names) if level <= scope or name not in ("REFab", "PREab")]
    after, before = (rng.sample(known, rng.choice((1, 1, 2, 3))) for _ in range(2))
    window, sibling = rng.choice(((1, False), (1, False), (1, True), (rng.choice((2, 3, 4, 9)), False)))
    return [level, after, before, rng.choice((-2, 0, 1, 3, 8, 20, rng.randrange(60))), window, sibling]


def check_ramulator(rng: Random, folder: Path) -> str:
    """Compare one random case; returns how it ended."""
    config = ramulator_yaml(rng)
    (folder / "a.yaml").write_text(json.dumps(config))
    memory = load_ramulator2(folder / "a.yaml")
    bits = memory.capacity_bytes.bit_length() - 1
    requests = [row[:2] for row in some_requests(rng, bits, memory.offset_bits, rng.choice((1, 10, 40, 90)))]
    extra, say = rng.choice((0, 0, 1, 300)), json.dumps(config)
    try:
        got = run(memory, requests, extra, rng.choice((1, 2)))
    except UserError as e:
        got, said = None, str(e)
    if got and max(tally.cycles for tally in got.tallies) > LIMIT:
        return "too long"
    with patch.object(naive_ramulator, "PATIENCE", PATIENCE):
        try:
            accept, done, channels, _ = naive_ramulator.simulate(config, requests, extra)
        except RuntimeError as e:
            assert got is None and re.match(STARVED, said), (e, say, requests, extra)
            return "Endless"
    assert got, (said, say, requests, extra)
    assert got.accept == accept and got.done == done, (say, requests, extra)
    for i, channel in enumerate(channels):
        want = [(*row[:-1], min(row[-1], 0)) for row in channel.trace]
        assert ramulator_trace(memory, got.rows, i, channel.depth == 4) == want, (say, requests, extra)
        for key, value in ramulator_counters(got.tallies[i]).items():
            assert value == channel.counters[key], (key, say, requests, extra)
    return "same"


# All together


@pytest.mark.parametrize("case", reference_cases("dramsim3"))
def test_the_resolved_configurations_are_the_tools(case):
    said = json.loads((case / "config_resolved.json").read_text())
    said["same_rank"]["REFRESH_BANK"] = {}  # the tool never looks there
    for key, value in resolve((case / "config.ini").read_text()).items():
        assert key not in said or (pytest.approx(said[key]) if key.endswith("_inc") else said[key]) == value, key


CHECKS = {"dramsim3": check_dramsim3, "ramulator2": check_ramulator}
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("random")


@pytest.mark.parametrize("tool", CHECKS)
@settings(max_examples=25)
@given(seed=SEEDS)
def test_random_cases(folder, tool, seed):
    CHECKS[tool](Random(seed), folder)


@pytest.mark.slow
@pytest.mark.parametrize("tool", CHECKS)
@given(seed=SEEDS)
@settings(max_examples=3000)
def test_many_random_cases(folder, tool, seed):
    CHECKS[tool](Random(seed), folder)
