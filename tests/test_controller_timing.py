"""The compiled controller against its rules, against numbers done by hand, and against the PIM engine."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from pimloom.arch.command import STREAM
from pimloom.arch.table import bend, rule_rows
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from tests.controller_streams import PARTS, commands_of, memory_of, policy_of, stream
from tests.memory_run import run

PRESETS = (*PARTS, "ddr4_2400", "ddr5_6400", "gddr6_14000", "gddr6_aim", "gddr6_pim_gpt", "hbm2_2000")


def row_by_row(part):
    """Without refresh, and a row is the first field that the address counts through."""
    return memory_of(part, policy_of(refresh="none"), mapping="row,rank,bank,bank_group,pseudo_channel,column,channel")


def clocks_of(found, *names):
    return [row[0] for row in commands_of(found) if row[2] in names]


# Rules bite: one clock more, and something changes.

REFRESH = "PREab comes only before a REFab, which keeps the rank closed for longer"
ASLEEP = {
    "PREab → ACT, level 2, 1 latest: 22": REFRESH,
    "PREab → SRE, level 2, 1 latest: 22": REFRESH,
    "WR WRA → RD RDA, level 2 sibling, 1 latest: 0": "the command bus keeps a clock between them anyway",
}


@pytest.fixture(scope="module")
def corpus():
    """Streams for two ranks of DDR4, with the commands of all policies between them."""
    found = []
    short = {"tRFC": 60, "tREFI": 500, "tXS": 70}
    bank = 1 << 15  # a read in the bank group of a write, and the rank rests or is refreshed
    pairs = [(bank * (k % 2), k % 2 == 0, k // 2 * 97 + k % 2 * 3) for k in range(400)]
    for after in (None, 1):
        policy = policy_of(page="closed", self_refresh_after_ck=after)
        found.append((memory_of("ddr4_3200", policy, short, ranks=2), pairs))
    settings: list[dict] = [
        {"page": "open"},
        {"page": "closed"},
        {"page": "adaptive", "page_timeout_ck": 20},
        {"page": "closed", "self_refresh_after_ck": 20},
        {"page": "open", "self_refresh_after_ck": 20, "refresh": "staggered"},
        {"page": "adaptive", "self_refresh_after_ck": 1, "page_timeout_ck": 1},
    ]
    for i, fields in enumerate(settings):
        memory = memory_of("ddr4_3200", policy_of(**fields), short, ranks=2)
        requests = [r for k in range(12) for r in stream(memory, Random(f"bite {i} {k}"), 60)]
        ends = np.cumsum([0] + [requests[k * 60 + 59][2] + 200 for k in range(12)]).tolist()
        found.append((memory, [(a, w, t + ends[k // 60]) for k, (a, w, t) in enumerate(requests)]))
    return found


def answers(memory, requests):
    found = run(memory, requests)
    return found.rows, found.accept, found.done


def sleeping(corpus, by):
    """The rules that nothing in the corpus misses."""
    table = corpus[0][0].table
    expected = [answers(*case) for case in corpus]

    def bites(rule):
        bent = bend(table, rule, by)
        cases = zip(corpus, expected, strict=True)
        return any(answers(memory._replace(table=bent), requests) != was for (memory, requests), was in cases)

    def said(row):
        after, before = (" ".join(table.names[c] for c in side) for side in (row.after, row.before))
        return f"{after} → {before}, level {row.level}{' sibling' * row.sibling}, {row.window} latest: {row.wait}"

    return {said(row) for rule, row in enumerate(rule_rows(table.rules)) if not bites(rule)}


def test_every_rule_of_two_ranks_of_ddr4_bites(corpus):
    assert sleeping(corpus, 1) == ASLEEP.keys()


# Numbers done by hand: DDR4-3200, nCL 22, nCWL 16, nBL 4, tRCD 22, tRP 22, tRAS 52, tRC 74.

GROUP, ROW = 1 << 6, 1 << 17  # strides of the address: to the next bank group, to the next row


def ddr4(**fields):
    return memory_of("ddr4_3200", policy_of(**{"refresh": "none", **fields}))


@pytest.mark.parametrize(("write", "took"), [(0, 2 + 22 + 22 + 4), (1, 2 + 22 + 16 + 4)])
def test_an_unloaded_request(write, took):
    found = run(ddr4(), [(0, write, 0), (ROW // 2, write, 1000), (ROW, write, 2000)])
    assert (found.accept, found.done) == (
        [0, 1000, 2000],
        [took, 1000 + took, 2022 + took],
    )  # the last one waits for PRE


def test_steady_streams():
    distances = {
        (0, GROUP): 4,  # tCCD_S
        (0, 4 * GROUP): 8,  # tCCD_L
        (1, GROUP): 4,
        (1, 4 * GROUP): 8,
        (0, ROW): 74,  # tRC
        (1, ROW): 22 + 16 + 4 + 24 + 22,  # tRCD, nCWL, nBL, tWR, tRP
    }
    for (write, stride), ck in distances.items():
        clocks = clocks_of(run(ddr4(), [(stride * i, write, 0) for i in range(100)]), "RD", "WR")
        assert {b - a for a, b in pairwise(clocks[8:])} == {ck}


def test_four_activates_in_a_window():
    """Every row another one, banks in turn: tFAW 34 for four ACT, tRRD_S 4 between two."""
    banks = [GROUP * (i % 4) + (i // 4 % 4) * (1 << 15) + ROW * (i // 16) for i in range(160)]
    clocks = clocks_of(run(ddr4(page="closed", arbiter="round_robin"), [(address, 0, 0) for address in banks]), "ACT")
    assert {b - a for a, b in zip(clocks[20:-8], clocks[24:-4], strict=True)} == {34}
    assert min(b - a for a, b in pairwise(clocks)) == 4


def test_turnarounds():
    """In one open row: RD to WR nRTW 12; WR to RD nCWL + nBL + tWTR_L 12, of another bank group tWTR_S 4."""
    for stride, back in ((4 * GROUP, 16 + 4 + 12), (GROUP, 16 + 4 + 4)):
        opened = [(GROUP * i, 0, 0) for i in range(4)]
        found = run(ddr4(), [*opened, (0, 0, 500), (stride, 1, 501), (2 * stride, 0, 515)])
        assert [row[0] for row in commands_of(found)][-3:] == [502, 514, 514 + back]


def test_refresh_takes_its_share():
    """Every tREFI 12480: PREab (at most tRAS 52 after the last ACT), tRP 22, tRFC 560, tRCD 22."""
    found = run(memory_of("ddr4_3200", policy_of()), [(GROUP * i, 0, 0) for i in range(30000)])
    refreshes, reads = clocks_of(found, "REFab"), clocks_of(found, "RD")
    assert all(12480 * k + 22 <= clock <= 12480 * k + 51 + 22 for k, clock in enumerate(refreshes, 1))
    for a, b in pairwise(refreshes):
        inside = [clock for clock in reads if a < clock < b]
        assert inside[0] == a + 560 + 22
        assert 12480 - 51 - 22 - 560 - 22 - 51 <= 4 * len(inside) <= 12480 - 22 - 560 - 22 + 51
    assert len(refreshes) >= 9


# The same parts drive the PIM engine.


def in_order(memory, rows):
    """The log of one channel as a stream; the engine's opcodes, no releases."""
    size, table = memory.table.rules.size.tolist(), memory.table
    found = np.zeros(len(rows), STREAM)
    for i, (_, _, name, bank, row, column) in enumerate(rows):
        each = [bank // (size[4] // n) % (n // m) for m, n in pairwise(size)]
        found[i] = (table.cmd(name), *each, row, column, 1, 0, 0)
    return found


@pytest.mark.parametrize("page", ["open", "closed"])
@pytest.mark.parametrize("part", PARTS)
def test_the_streaming_engine_agrees_on_what_is_legal(part, page):
    """At the controller's clocks all is legal; and nothing comes later if nobody waits but for the device."""
    memory = memory_of(part, policy_of(refresh="none", page=page))
    for seed in range(3):
        requests = [(a, 0, t) for a, _, t in stream(memory, Random(f"legal {seed}"), 400)]
        rows = commands_of(run(memory, requests))
        clocks = np.array([row[0] for row in rows])
        bus = memory.table.rules.bus[in_order(memory, rows)["cmd"]]
        whole = in_order(memory, rows)
        whole["release"] = clocks
        streams = [whole[bus == b] for b in range(bus.max() + 1)]
        for found, b in zip(issue(memory.table, streams, refresh=False).issue_ck, range(bus.max() + 1), strict=True):
            assert found.tolist() == clocks[bus == b].tolist()
        if bus.max() == 0:
            assert (issue(memory.table, [in_order(memory, rows)], refresh=False).issue_ck[0] <= clocks).all()


@pytest.mark.parametrize("part", PARTS)
def test_one_open_row_is_read_at_the_same_pace(part):
    memory = row_by_row(part)
    rows = commands_of(run(memory, [(i * memory.access_bytes, 0, 0) for i in range(32)]))
    assert [row[2] for row in rows] == ["ACT", *["RD"] * 32]
    alone = issue(memory.table, [in_order(memory, rows)], refresh=False).issue_ck[0]
    assert np.diff(alone).tolist() == np.diff([row[0] for row in rows]).tolist()


# Streams.


@pytest.mark.parametrize("write", [0, 1])
@pytest.mark.parametrize("part", PRESETS)
def test_a_stream_is_as_fast_as_the_pins(part, write):
    """100,000 requests in a row: at least 90 % of the peak, less refresh."""
    memory, n = memory_of(part, policy_of()), 100_000
    address = np.arange(n, dtype=np.int64) * memory.access_bytes
    (tally,) = simulate(memory, [Chunk(address, np.full(n, write), np.zeros(n, np.int64))])
    ck, pseudo_channels = memory.clocks, int(memory.table.rules.size[1])
    best = n * ck["nBL"] / pseudo_channels / (1 - ck["tRFC"] / ck["tREFI"])
    assert tally.counters["reads_done"] + tally.counters["writes_done"] == n
    assert best < tally.cycles < best / 0.9
