"""The oracles of two public memory controllers against what the tools did, and against their specification.

The tools' runs are those of the reference data; four small cases of our own are kept in `tests/golden/memory`. They
hold what the oracles say; after a change that is meant, with `PIMLOOM_UPDATE_GOLDEN=1` this file writes them anew, with
configurations of the reference data. Numbers such as 2.5 are sections of the specification.
"""

import csv
import json
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests import naive_dramsim3, naive_ramulator
from tests.reference_data import lines, needed, read_yaml, reference_cases

GOLDEN = Path(__file__).parent / "golden" / "memory"
NAMES = {  # of the commands in DRAMsim3's traces
    "read": "RD", "write": "WR", "read_p": "RDA", "write_p": "WRA", "activate": "ACT", "precharge": "PRE",
    "refresh_bank": "REFpb", "refresh": "REFab", "self_refresh_enter": "SRE", "self_refresh_exit": "SRX",
}  # fmt: skip
OWN = {  # name -> the case of the reference data with the configuration, idle clocks, clocks between requests
    "dramsim3_ddr4_mix": ("dramsim3/ddr4_mix", 6300, 3),
    "dramsim3_hbm2_dual": ("dramsim3/hbm2_seq", 3900, 0),
    "ramulator_ddr4_mix": ("ramulator2/ddr4_mix", 12500, 0),
    "ramulator_hbm2_mix": ("ramulator2/hbm2_mix", 3900, 0),
}


def longer_than(clocks: int) -> Callable[[Path], bool]:
    """Whether a case is; an oracle then takes more than half a second or so for it."""

    def long(case: Path) -> bool:
        run = case / "run.json"
        return run.is_file() and json.loads(run.read_text())["cycles_simulated"] > clocks

    return long


def run_dramsim3(config: dict, requests: list, extra: int = 0) -> SimpleNamespace:
    accept, done, channels, cycles = naive_dramsim3.simulate(config, requests, extra)
    return SimpleNamespace(accept=accept, done=done, channels=channels, cycles=cycles, trace=channels[0].trace)


def run_ramulator(config: dict, requests: list, extra: int = 0) -> SimpleNamespace:
    accept, done, channels, cycles = naive_ramulator.simulate(config, requests, extra)
    return SimpleNamespace(accept=accept, done=done, channels=channels, cycles=cycles, trace=channels[0].trace)


def first_in_first_out(requests: list[tuple[int, bool, int]], done: list[int]) -> list[int]:
    """The log knows a callback's address and operation only, and gives it to the oldest such request in flight."""
    waiting = defaultdict(list)
    for (address, write, _), cycle in zip(requests, done, strict=True):
        waiting[address, write].append(cycle)
    in_turn = {key: iter(sorted(cycles)) for key, cycles in waiting.items()}
    return [next(in_turn[address, write]) for address, write, _ in requests]


@pytest.mark.parametrize("case", reference_cases("dramsim3", slow=longer_than(10_500)))
def test_dramsim3_oracle_repeats_the_tool(case):
    config, run = (json.loads((case / file).read_text()) for file in ("config_resolved.json", "run.json"))
    rows = [line.split() for line in lines(case / "input.trc")]
    requests = [(int(address, 16), op == "WRITE", int(cycle)) for address, op, cycle in rows]
    if run.get("livelock"):
        with pytest.raises(naive_dramsim3.Livelock):
            run_dramsim3(config, requests)
        return
    got = run_dramsim3(config, requests, run["cycles_simulated"] - run["cycles_all_done"])

    log = [line.split() for line in lines(case / "requests.log")]
    assert got.accept == [int(row[4]) for row in log]
    assert first_in_first_out(requests, got.done) == [int(row[5]) for row in log]
    assert got.cycles == run["cycles_all_done"]
    statistics = json.loads((case / "dramsim3.json").read_text())
    for c, channel in enumerate(got.channels):
        rows = [line.split() for line in lines(case / f"ch_{c}cmd.trace")]
        said = [(int(r[0]), NAMES[r[1]], *map(int, r[2:6]), int(r[6], 16), int(r[7], 16)) for r in rows]
        assert channel.trace == said
        repeats_dramsim3(channel, statistics[str(c)])


def repeats_dramsim3(channel: Any, said: dict[str, Any]) -> None:
    """The oracle's counters of a channel are the tool's."""
    for key, value in channel.counters.items():
        assert value == (pytest.approx(said[key], rel=1e-9) if "_energy" in key or "average" in key else said[key]), key
    for key in ("read_latency", "write_latency"):
        assert {str(cycles): count for cycles, count in getattr(channel, key).items()} == (said[key] or {})


@pytest.mark.parametrize("case", reference_cases("ramulator2", slow=longer_than(6_000)))
def test_ramulator_oracle_repeats_the_tool(case):
    config, said = (read_yaml(case / file) for file in ("config.yaml", "stats.yaml"))
    run = json.loads((case / "run.json").read_text())
    requests = [(int(address, 16), op == "ST") for op, address in map(str.split, lines(case / "input.trc"))]
    got = run_ramulator(config, requests, run["cycles_simulated"] - run["cycles_all_done"])

    log = [line.split() for line in lines(case / "requests.log")]
    assert got.accept == [int(row[3]) for row in log]
    assert got.done == [int(row[4]) for row in log]
    assert got.cycles == run["cycles_all_done"]
    for c, (channel, counted) in enumerate(zip(got.channels, ramulator_statistics(said), strict=True)):
        rows = list(csv.reader(lines(case / f"cmd.csv.ch{c}")))[1:]
        trace = [(int(clock), command, *map(int, r)) for clock, command, *r in rows]
        assert [(*row, -1) for row in channel.trace] == trace
        for key, value in channel.counters.items():  # the tool prints fractions with six digits
            assert (float(f"{value:.6g}") if isinstance(value, float) else value) == counted[key], key
        numbers = {key for key, x in counted.items() if isinstance(x, int | float) and "_core_" not in key}
        assert numbers <= {*channel.counters}


def ramulator_statistics(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of each channel: a mapping, or a list of them."""
    found = said["memory_system"]["controller"]
    return found if isinstance(found, list) else [found]


# Four small cases of our own


def write_golden(name: str) -> None:
    """40 requests: runs of neighbours between which one of eight places is met again; always the same are written."""
    source, extra, gap = OWN[name]
    folder, draw = needed(source), Random(name)
    if name.startswith("dramsim3"):
        config = json.loads((folder / "config_resolved.json").read_text())
    else:
        config = read_yaml(folder / "config.yaml")
    places = [draw.randrange(2**22) << 6 for _ in range(8)]
    requests: list[tuple] = []
    at = places[0]
    for i in range(40):
        at = at + 64 if draw.random() < 0.6 else draw.choice(places) ^ draw.randrange(4) << 20
        row = at, (at * 0x9E3779B97F4A7C15 >> 32) % 5 < 2
        requests.append((*row, gap * i) if name.startswith("dramsim3") else row)
    found = facts(name, config, requests, extra)
    text = ",\n".join(f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in found.items())
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / f"{name}.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def facts(name: str, config: dict, requests: list, extra: int) -> dict[str, Any]:
    """What a case keeps: what it was asked, and what the oracle says."""
    got = (run_dramsim3 if name.startswith("dramsim3") else run_ramulator)(config, requests, extra)
    asked = {"config": config, "requests": requests, "extra": extra}
    return asked | {"accept": got.accept, "done": got.done, "trace": got.trace, "counters": got.channels[0].counters}


def kept(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OWN)
def test_own_case(name):
    if os.environ.get("PIMLOOM_UPDATE_GOLDEN") == "1":
        write_golden(name)
    want = kept(name)
    found = facts(name, want["config"], want["requests"], want["extra"])
    assert json.loads(json.dumps(found)) == want
    assert len(want["requests"]) <= 40 and (GOLDEN / f"{name}.json").stat().st_size < 10_000
    issued = {row[1] for row in want["trace"]}
    assert {"ACT", "RD", "WR", "REFab"} < issued  # none of the cases is idle
    assert name != "dramsim3_hbm2_dual" or want["counters"]["hbm_dual_cmds"] > 0


def test_no_own_case_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == set(OWN)


# Rules that no case covers: DRAMsim3


def device(**changes) -> dict[str, Any]:
    """DDR4 with two ranks; tREFI 12480, tCKESR 9, tXS 576, tRCD 22, a read is back after 26 cycles."""
    return kept("dramsim3_ddr4_mix")["config"] | changes


def address(rank=0, group=0, bank=0, row=0, column=0) -> int:
    """2.9, the device's order: row, bank rank, bank, bank group, column, then 6 bits within a request."""
    return row << 18 | rank << 17 | bank << 15 | group << 13 | column << 6


SLEEPY = {"enable_self_refresh": 1, "sref_threshold": 1000}


def test_a_rank_never_used_sleeps_after_the_threshold():
    """2.5: in its 1000th idle cycle, which is 999; then no refresh comes to it, and it never wakes by itself."""
    got = run_dramsim3(device(**SLEEPY), [(address(row=7), False, 0)], 20000)
    assert [row for row in got.trace if row[1] == "SRE"] == [(999, "SRE", -1, 1, -1, -1, -1, -1)]
    assert [row[3] for row in got.trace if row[1] == "REFab"] == [0, 0]  # at 6240 and 18720; 12480 was rank 1's turn
    n = got.channels[0].counters
    assert n["all_bank_idle_cycles"]["1"] == 1000 and n["sref_cycles"] == {"0": 0, "1": n["num_cycles"] - 1000}
    assert n["sref_energy"]["1"] == pytest.approx(288 * (n["num_cycles"] - 1000), rel=1e-9)
    assert n["num_srefe_cmds"] == 1 and n["num_srefx_cmds"] == 0


def test_self_refresh_is_off_unless_enabled():
    got = run_dramsim3(device(sref_threshold=1000), [(address(), False, 0)], 3000)
    assert {row[1] for row in got.trace} == {"ACT", "RD"}


def test_a_request_wakes_its_rank():
    """2.1: moved in the tick after its acceptance, first command in the next; ACT after tXS; the rank stays awake."""
    got = run_dramsim3(device(**SLEEPY), [(address(1, 2, 3, 4, 5), False, 2000)], 3000)
    place = (0, 1, 2, 3, 4, 5)
    assert [row for row in got.trace if row[3] == 1] == [
        (999 + 1, "SRE", -1, 1, -1, -1, -1, -1),  # rank 0 fell asleep in 999, and only one may in a cycle
        (2002, "SRX", *place),
        (2002 + 576, "ACT", *place),
        (2002 + 576 + 22, "RD", *place),
    ]
    assert got.done == [2002 + 576 + 22 + 26]
    assert got.channels[0].counters["sref_cycles"]["1"] == 2002 - 1001


@pytest.mark.parametrize("cycle", [998, 1000, 1005])
def test_waking_a_rank_too_early_is_an_error(cycle):
    """2.5: asleep since 999, it can wake from 1008 on; a request is first looked at two ticks after its acceptance."""
    requests = [(address(row=7), False, 0), (address(rank=1), False, cycle)]
    with pytest.raises(RuntimeError, match="sleeping bank"):
        run_dramsim3(device(**SLEEPY), requests)


@pytest.mark.parametrize("cycle, woken", [(997, None), (1006, 1008)])
def test_waking_a_rank_in_time(cycle, woken):
    """2.5: a request that comes before the rank sleeps keeps it awake for ever."""
    requests = [(address(row=7), False, 0), (address(rank=1), False, cycle)]
    got = run_dramsim3(device(**SLEEPY), requests, 3000)
    assert [row[0] for row in got.trace if row[1] == "SRX"] == ([woken] if woken else [])


def read_then_written(writes: int) -> list[tuple[int, bool, int]]:
    """2.2: 20 reads to rows 0..19 of a bank, later writes to the last of these rows and to others."""
    rows = [19, *range(100, 131)][:writes]
    return [(address(row=row), False, 0) for row in range(20)] + [(address(row=row), True, 20) for row in rows]


def test_livelock_of_52_requests():
    with pytest.raises(naive_dramsim3.Livelock, match=f"{address(row=19):#x}"):
        run_dramsim3(device(), read_then_written(32))


def test_no_livelock_while_the_write_buffer_has_room():
    """2.2: reads go on until the command queues are empty, and then none is left to wait for."""
    got = run_dramsim3(device(), read_then_written(31), 4000)
    assert [row[6] for row in got.trace if row[1] == "RD"] == [*range(20)]
    assert [row[6] for row in got.trace if row[1] == "WR"] == [19, *range(100, 130)]


def test_reads_go_on_after_a_cancelled_drain():
    """2.2: four writes to another bank move first, so the buffer is not full when the one to row 19 has to wait."""
    writes = [(address(bank=1, row=row), True, 20) for row in range(4)]
    requests = read_then_written(28)
    got = run_dramsim3(device(), requests[:20] + writes + requests[20:], 4000)
    assert [row[6] for row in got.trace if row[1] == "RD"] == [*range(20)]


def test_window_of_32_activations():
    """2.4: GDDR only, beside that of four."""
    requests = [(address(group=i % 4, bank=i // 4 % 4, row=i), False, 0) for i in range(33)]
    for protocol, bound in ((1, False), (4, True)):
        trace = run_dramsim3(device(protocol=protocol, t32AW=2000), requests).trace
        opened = [row[0] for row in trace if row[1] == "ACT"]
        assert all(late - early >= 34 for early, late in zip(opened, opened[4:], strict=False))
        assert (opened[32] - opened[0] == 2000) == bound


def test_a_unified_queue_writes_at_once():
    """2.2: without a unified queue up to eight writes stay in the buffer for ever."""
    requests = [(address(row=7), True, 0)]
    assert run_dramsim3(device(), requests, 1000).trace == []
    got = run_dramsim3(device(unified_queue=1), requests, 1000)
    assert [row[:2] for row in got.trace] == [(2, "ACT"), (2 + 22, "WR")]
    assert got.done == [2]


def test_dramsim3_channels_are_independent():
    got = run_dramsim3(device(channels=2, ch_pos=20, ch_mask=1), [(1 << 26, False, 0), (0, False, 0)])
    assert [[row[:3] for row in channel.trace] for channel in got.channels] == [
        [(3, "ACT", 0), (25, "RD", 0)],
        [(2, "ACT", 1), (24, "RD", 1)],
    ]


# Rules that no case covers: Ramulator


def controllers(changes: dict[str, Any], count: int = 1) -> dict[str, Any]:
    """DDR4 with two ranks: nRCD 22, nCCDL 8, nRTP 12, nRP 22."""
    memory = kept("ramulator_ddr4_mix")["config"]["memory_system"]
    return {"memory_system": memory | {"controllers": [memory["controllers"][0] | changes] * count}}


CLOSED_CAP = {"row_policy": {"impl": "ClosedCAP"}}


def short(trace: list[tuple]) -> list[tuple]:
    """Clock and command."""
    return [row[:2] for row in trace]


def test_closed_cap_closes_a_bank_after_four_accesses():
    """3.10: the precharge is asked for as soon as it could go, and goes in that tick: nRTP after the last read."""
    got = run_ramulator(controllers(CLOSED_CAP), [(64 * i, False) for i in range(4)], 200)
    assert short(got.trace) == [(1, "ACT"), (23, "RD"), (31, "RD"), (39, "RD"), (47, "RD"), (47 + 12, "PREpb")]
    n = got.channels[0].counters
    assert n["num_maintenance_reqs"] == n["num_maintenance_reqs_served"] == 1
    assert n["row_hits"] == 3 and n["row_misses"] == 1


def test_closed_cap_leaves_three_accesses_alone():
    got = run_ramulator(controllers(CLOSED_CAP), [(64 * i, False) for i in range(3)], 200)
    assert short(got.trace)[-1] == (39, "RD")


@pytest.mark.parametrize("write", [False, True])
def test_closed_cap_precharges_with_the_fifth_access(write):
    """3.10: it goes before the precharge could; afterwards the bank needs an ACT, nRTP + nRP later for a read."""
    got = run_ramulator(controllers(CLOSED_CAP), [(64 * i, write) for i in range(6)], 50)
    name, closed = ("WR", 55 + 66) if write else ("RD", 55 + 34)
    assert short(got.trace) == [
        (1, "ACT"), (23, name), (31, name), (39, name), (47, name), (55, f"{name}A"),
        (closed, "ACT"), (closed + 22, name),
    ]  # fmt: skip


def test_closed_cap_can_close_a_bank_under_an_active_request():
    """3.10: the request needs a second ACT, and its second promotion is never given back.

    The first write opens another bank of the group. After it the read has to wait (nWTRL 32 after each WR) for longer
    than the writes to its own row do, and the fifth of these takes the row away, for 66 clocks.
    """
    requests = [(1 << 16, True), (0, False), *((64 * i, True) for i in range(1, 6))]
    requests += [(64 * 5, True)] * 56 + [(1 << 18, False)]  # absorbed until the last write goes; then another row
    got = run_ramulator(controllers(CLOSED_CAP), requests)
    assert [(row[0], row[1], row[5]) for row in got.trace] == [
        (1, "ACT", 1), (9, "ACT", 0), (23, "WR", 1), (31, "WR", 0), (39, "WR", 0), (47, "WR", 0), (55, "WR", 0),
        (63, "WRA", 0), (129, "ACT", 0), (151, "RD", 0),
        (129 + 52, "PREpb", 0), (181 + 22, "ACT", 0), (181 + 44, "RD", 0),  # no request is active: the bank may close
    ]  # fmt: skip
    assert {bank: count for bank, count in got.channels[0].active_count.items() if count} == {(0, 0, 0, 0): 1}


def test_closed_cap_asks_once_for_each_bank():
    """3.10: two banks at their cap; the second precharge waits for a tick, but is not asked for again."""
    channel = naive_ramulator.Channel(controllers(CLOSED_CAP)["memory_system"]["controllers"][0], 0)
    banks = (0, 0, 0, 1), (0, 1, 2, 3)
    for total in (2, 4):  # precharged banks can be worn out anew
        channel.accesses.update(dict.fromkeys(banks, 4))
        for _ in range(5):
            channel.tick()
        assert channel.n["num_maintenance_reqs"] == channel.n["num_maintenance_reqs_served"] == total
    assert [row[:6] for row in channel.trace] == [
        (1, "PREpb", *banks[0]), (2, "PREpb", *banks[1]), (6, "PREpb", *banks[0]), (7, "PREpb", *banks[1]),
    ]  # fmt: skip


def test_watermarks_in_single_precision():
    """3.6: 0.29 of 100 is just below 29 in double precision, and 29 in single precision."""
    changes = {"wr_high_watermark": 0.29, "write_buffer_size": 100}
    channel = naive_ramulator.Channel(controllers(changes)["memory_system"]["controllers"][0], 0)
    channel.send(0, False, 0)
    for i in range(1, 31):
        assert not channel.is_write_mode()
        channel.send(i, True, 64 * i)
    assert channel.is_write_mode() and 0.29 * 100 < 29


def test_no_refresh():
    for impl, want in (
        ("NoRefresh", []),
        ("AllBank", [(12480, "PREab"), (12480 + 22, "REFab"), (12481 + 22, "REFab")]),
    ):
        got = run_ramulator(controllers({"refresh_manager": {"impl": impl}}), [(0, False)], 13000)
        assert short(got.trace)[2:] == want


def test_ramulator_channels_are_independent():
    """3.11: the bits above the 64 bytes of a request choose the channel and leave the address."""
    got = run_ramulator(controllers({}, 2), [(64, False), (0, False), (64 * 3, False)])
    assert [[(*row[:3], row[-2]) for row in channel.trace] for channel in got.channels] == [
        [(2, "ACT", 0, 0), (24, "RD", 0, 0)],
        [(1, "ACT", 1, 0), (23, "RD", 1, 0), (31, "RD", 1, 1)],
    ]
