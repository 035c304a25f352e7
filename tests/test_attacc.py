"""AttAcc's heads, requests and controller: counts in closed form, against lists and clocks written from words."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.pim import attacc
from pimloom.arch.standard import given
from pimloom.arch.system import load_part
from pimloom.arch.table import bend, compile_table, standard_of
from pimloom.cycle_sim.attacc import kernels
from pimloom.cycle_sim.attacc.simulate import Issue, simulate
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.trace import TRACE
from pimloom.mappers.attacc.counts import count_commands
from pimloom.mappers.attacc.layout import CHANNELS, KINDS, Placement, Work, lay_out
from pimloom.mappers.attacc.stream import Channels, streams
from tests import naive_attacc
from tests.slow import slow

PART = load_part("hbm3_attacc_5200").value
ORG = PART.organization
PLACEMENTS = tuple(Placement)
COUNTS = {  # heads, context, width, bytes: MAC, SFM, MVGB, MVSB, WRGB of a stack, as released
    (3, 2049, 128, 2): (1548, 3, 216, 264, 24),
    (60, 2048, 128, 2): (31_760, 60, 3840, 4864, 480),
    (130, 1024, 128, 2): (33_296, 130, 4160, 6240, 1040),
    (157, 2048, 160, 1): (81_168, 157, 5024, 12_608, 1256),
    (188, 2048, 128, 2): (97_296, 188, 12_032, 15_104, 1504),
}


def counted(placement: Placement, work: Work, as_released: bool) -> dict[str, int]:
    return count_commands(lay_out(ORG, placement, work), work, as_released=as_released)


def asked(placement: Placement, work: Work, as_released: bool) -> list[Channels]:
    return streams(ORG, lay_out(ORG, placement, work), work, as_released=as_released)


def draw_work(rng: Random) -> Work:
    context = rng.choice((rng.randint(1, 60), rng.randint(1, 700)))
    return Work(rng.randint(1, 70), context, rng.choice((17, 32, 64, 80, 128, 160)), rng.choice((1, 2, 4)))


# Counts


@pytest.mark.parametrize("work", COUNTS)
def test_counts_of_the_simulator(work: tuple[int, int, int, int]) -> None:
    found = counted(Placement.BANK, Work(*work), as_released=True)
    assert tuple(found[kind] for kind in ("MAC", "SFM", "MVGB", "MVSB", "WRGB")) == COUNTS[work]


def test_counts_as_intended() -> None:
    """60 heads: the released count has 12 dummies less than one a channel more, and four heads' contexts too many."""
    found = counted(Placement.BANK, Work(60, 2048, 128, 2), as_released=False)
    assert found == {"MAC": 60 * 512, "WRGB": 480, "MVSB": 60 * 80, "MVGB": 3840, "SFM": 60}
    assert 31_760 - found["MAC"] == 16 + (16 - 12) * 256 and 4864 - found["MVSB"] == (16 - 12) * 16


def test_each_sixteen_tokens_take_four_macs_a_channel() -> None:
    macs = [counted(Placement.BANK, Work(3, n, 128, 2), as_released=True)["MAC"] for n in range(2049, 2177, 16)]
    assert set(np.diff(macs)) == {3 * 4}


@pytest.mark.parametrize("chunk", [*range(2), *map(slow, range(2, 20))])
def test_requests_are_as_many_as_the_closed_form_says(chunk: int) -> None:
    rng = Random(f"attacc counts {chunk}")
    for _ in range(20):
        work, as_released = draw_work(rng), rng.random() < 0.5
        for placement in PLACEMENTS:
            found = Counter[str]()
            channels = asked(placement, work, as_released)
            for same in channels:
                for kind, n in zip(KINDS, np.bincount(same.requests[:, 0], minlength=6).tolist(), strict=True):
                    found[kind] += same.channels * n
            del found["BARRIER"]
            assert sum(same.channels for same in channels) == CHANNELS
            assert dict(found) == counted(placement, work, as_released), (work, placement)


# Requests


@pytest.mark.parametrize("works", [3, slow(30)])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_requests_are_those_of_the_released_generator(placement: Placement, works: int) -> None:
    """Of every channel, in order, with bank and row; but for what a channel without work is told to wait for."""
    rng = Random(f"attacc requests {placement}")
    for _ in range(works):
        work = draw_work(rng)
        expected = Counter(map(tuple, naive_attacc.requests(placement, *work)))
        found = Counter[tuple]()
        for same in asked(placement, work, as_released=True):
            rows = tuple((KINDS[kind], bank, row) for kind, bank, row in same.requests.tolist())
            found[rows] += same.channels
        for rows in {*expected, *found}:
            if any(kind != "BARRIER" for kind, *_ in rows):
                assert expected[rows] == found[rows] > 0 or without_idle(expected) == without_idle(found), work


def without_idle(found: Counter[tuple]) -> Counter[tuple]:
    """Barriers at the end of a channel's requests, which nothing waits behind, left out."""
    cut = Counter[tuple]()
    for rows, n in found.items():
        last = next((i for i in reversed(range(len(rows))) if rows[i][0] != "BARRIER"), -1)
        cut[rows[: last + 1]] += n
    return cut


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_heads_have_rows_of_their_own_as_intended(placement: Placement) -> None:
    work = Work(40, 3000, 128, 2)
    layout = lay_out(ORG, placement, work)
    busiest = streams(ORG, layout, work)[0].requests
    macs = busiest[busiest[:, 0] == 0]
    assert len(macs) == 3 * 2 * layout.macs
    rows = [set(map(tuple, macs[i : i + layout.macs, 1:3].tolist())) for i in range(0, len(macs), layout.macs)]
    for i, one in enumerate(rows):
        assert not any(one & other for other in rows[:i])
        assert all((row >= ORG.rows // 2) == (i in (2, 3, 5)) for _, row in one)  # K K V V K V


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_heads_wait_for_what_they_need_as_intended(placement: Placement) -> None:
    """Query, scores, what moves of them, softmax, probabilities, context: of each head, in this order. Between query
    and scores, and between probabilities and context, there is a barrier."""
    for seed in range(20):
        work = draw_work(Random(f"attacc order {placement} {seed}"))
        layout = lay_out(ORG, placement, work)
        kinds = streams(ORG, layout, work)[0].requests[:, 0]
        at = {kind: np.flatnonzero(kinds == i) for i, kind in enumerate(KINDS)}
        heads = -(-work.heads // CHANNELS)
        moved = len(layout.places_score) * layout.flushes, len(layout.places_context) * layout.groups
        macs, moves = np.split(at["MAC"], 2 * heads), iter(at["MVSB"].tolist())
        for i in range(heads):
            first, pair = i - i % 2, min(2, heads - (i - i % 2))  # heads that go together
            scores, context = macs[2 * first + i % 2], macs[2 * first + pair + i % 2]
            query = np.split(at["WRGB"], heads)[i]
            probabilities, softmax = np.split(at["MVGB"], heads)[i], at["SFM"][i]
            if i % 2 == 0:
                every = [[next(moves) for _ in range(n)] for n in moved for _ in range(pair)]
            scores_moved, context_moved = every[i % 2], every[pair + i % 2]
            order = [query, scores, scores_moved[-1:], [softmax], probabilities, context, context_moved[-1:]]
            ends = [(int(np.min(one)), int(np.max(one))) for one in map(np.asarray, order)]
            assert all(last < first for (_, last), (first, _) in pairwise(ends)), (work, i)
            for last, first in ((max(query), min(scores)), (max(probabilities), min(context))):
                assert ((at["BARRIER"] > last) & (at["BARRIER"] < first)).any(), (work, i)


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (Work(0, 1, 1, 2), "heads: expected at least 1, got 0; give a decode step with something to attend to"),
        (Work(1, 1, 1, 5), "element_bytes: expected a divisor of an access of 32 bytes, got 5"),
        (Work(33, 2**20, 128, 2), "heads: expected K of them in 8192 rows of a bank, got 12288 rows for 33 heads"),
    ],
)
def test_what_cannot_be_laid_out(work: Work, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        asked(Placement.BANK, work, as_released=False)


# The controller

NAMES = {
    "BL": ("nBL",), "RCD": ("tRCDRD",), "RP": ("tRP",), "RAS": ("tRAS",), "RC": ("tRC",), "RTP": ("tRTP",),
    "CCDS": ("tCCD_S",), "CCDL": ("tCCD_L",), "CCDAB": ("nCCDAB",), "CCDSB": ("nCCDSB",), "RFC": ("tRFC",),
    "REFI": ("tREFI",),
}  # fmt: skip
DUAL = {"always": Issue.ALWAYS, "beside": Issue.BESIDE, "one": Issue.ONE}


def draw_timings(rng: Random) -> dict[str, int]:
    t = dict(naive_attacc.T)
    for name in sorted(set(NAMES) - {"BL", "REFI", "RFC"}):
        if rng.random() < 0.5:
            t[name] = rng.randint(1, rng.choice((3, 9, 40)))
    t["RFC"] = rng.choice((5, 40, 120))
    t["RAS"] = max(t["RAS"], t["RCD"])
    t["RC"] = max(t["RC"], t["RAS"] + t["RP"])
    t["REFI"] = rng.randint(2 * (t["RFC"] + t["RC"]), 2 * t["RFC"] + 900)
    t["CCDS"], t["CCDL"] = max(2, t["CCDS"]), max(2, t["CCDS"], t["CCDL"])
    return t


def part_of(t: dict[str, int]) -> Part:
    timing = {f"timing.{ours}": f"{t[name]} nCK" for name, every in NAMES.items() for ours in every}
    return load_part("hbm3_attacc_5200", timing).value


def draw_requests(rng: Random, placement: Placement) -> list[tuple[str, int, int]]:
    """In runs of a kind, on few banks and rows."""
    macs = {"bank": [0], "bg": [0, 1, 2, 3], "buffer": list(range(32))}[placement]
    macs, moves, rows = rng.sample(macs, rng.randint(1, min(len(macs), 6))), rng.sample(range(64), 5), rng.randint(1, 5)
    found = []
    for _ in range(rng.randint(3, 25)):
        kind, times = rng.choice(("MAC", "MAC", "MAC", *naive_attacc.MOVES, "BARRIER")), rng.randint(1, 12)
        if kind == "BARRIER":
            found += [(kind, 0, 0)] * rng.choice((1, 1, 2))
        elif kind == "MAC":
            row = rng.randrange(rows)
            found += [(kind, rng.choice(macs), row) for _ in range(times)]
        else:
            found += [(kind, rng.choice((*macs, *moves)), 0) for _ in range(times)]
    return found


def as_rows(requests: list[tuple[str, int, int]]) -> np.ndarray:
    return np.array([(KINDS.index(kind), bank, row) for kind, bank, row in requests], np.int32).reshape(-1, 3)


def trace_of(table, log: list[tuple[int, str, int, int]]) -> np.ndarray:
    found = np.zeros(len(log), TRACE)
    for one, (clock, name, bank, row) in zip(found, log, strict=True):
        one["clock"], one["cmd"], one["row"] = clock, table.cmd(name), max(row, 0)
        one["pch"], one["rank"], one["bg"], one["bank"] = bank // 32, bank // 16 % 2, bank // 4 % 4, bank % 4
    return found


# 28, 37, 43: refreshes that meet a wait, which no other of 50 finds; 735: what comes in behind a BARRIER that leaves
QUICK = (*range(25), 28, 37, 43, 735)
CHUNKS = [range(first, first + 25) for first in range(25, 1000, 25)]


@pytest.mark.parametrize("seeds", [QUICK, *map(slow, CHUNKS)])
def test_random_requests(seeds: Sequence[int]) -> None:
    """Every command at its clock, and none against a rule."""
    for seed in seeds:
        rng = Random(f"attacc {seed}")
        placement, dual, refresh = rng.choice(PLACEMENTS), rng.choice(tuple(DUAL)), rng.random() < 0.7
        t, requests = draw_timings(rng), draw_requests(rng, placement)
        naive = naive_attacc.Controller(placement, requests, t, dual, refresh)
        cycles = naive.run()
        table = compile_table(part_of(t))
        found = simulate(table, placement, as_rows(requests), issue=DUAL[dual], refresh=refresh, logged=True)
        log = [(clock, kernels.COMMANDS[op], bank, row) for clock, op, bank, row in found.log.tolist()]
        assert (found.cycles, log) == (cycles, naive.log), seed
        assert found.counts == Counter(name for _, name, *_ in log)
        assert not check_trace(table, trace_of(table, log)), seed


def test_every_rule_that_the_controller_can_feel_bites() -> None:
    """With its wait longer by a clock, some requests end later or take their commands at other clocks."""
    cases = []
    for seed in range(60):
        rng = Random(f"attacc bites {seed}")
        placement = rng.choice(PLACEMENTS)
        cases.append((placement, as_rows(draw_requests(rng, placement)), DUAL[rng.choice(tuple(DUAL))]))
    t = naive_attacc.T | {"RFC": 40, "REFI": 300}
    table = compile_table(part_of(t))

    def clocks(bent):
        return (simulate(bent, where, rows, issue=issue, logged=True).log for where, rows, issue in cases)

    right, places = list(clocks(table)), [i for i, rule in enumerate(RULES) if rule in attacc.RULES]
    felt = [i for i in places if {*kernels.COMMANDS} & {*RULES[i].after} and {*kernels.COMMANDS} & {*RULES[i].before}]
    assert {str(RULES[i]) for i in felt if all(map(np.array_equal, clocks(bend(table, i, 1)), right))} == SLEEPING


RULES = given(standard_of(PART), PART.timing.keys())[1]
SLEEPING = {"PREA → ACTSB ACTPB ACT, same channel: tRP"}  # SB and PB meet PREA before REFab alone, which waits longer


def test_refresh_that_leaves_no_time() -> None:
    """A row is closed again before it can be read."""
    table = compile_table(part_of(naive_attacc.T | {"RCD": 30, "RFC": 5, "REFI": 20}))
    with pytest.raises(UserError, match="no request since clock 0: refresh comes too often; .*lengthen tREFI"):
        simulate(table, "bank", as_rows([("MAC", 0, 0)]), issue=Issue.BESIDE)


@pytest.mark.parametrize("request_", [("MVGB", 64, 0), ("MAC", -1, 0), ("MAC", 0, -1)])
def test_what_is_no_request(request_: tuple[str, int, int]) -> None:
    with pytest.raises(ValueError, match="of a request: expected 0 or more, below "):
        simulate(compile_table(PART), "bank", as_rows([request_]))


def test_parts_without_the_commands_are_refused() -> None:
    said = "expected a part with AttAcc's commands, as hbm3_attacc_5200; it lacks ACTAB"
    with pytest.raises(UserError, match=said):
        simulate(compile_table(load_part("hbm3_6400").value), "bank", as_rows([("MAC", 0, 0)]))
