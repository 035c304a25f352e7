"""The legality monitor: legal at n, illegal at n − 1; and what the engine issues is legal, and tight."""

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from pimloom.arch.command import STREAM, Command, Level, Role, Row
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.system import load_part
from pimloom.arch.table import Table, build_table, compile_table, rule_rows
from pimloom.cycle_sim.dram import monitor
from pimloom.cycle_sim.dram.monitor import check_trace, raise_if_illegal
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.dram.trace import TRACE, expand
from tests.slow import parts, slow
from tests.streams import STANDARDS, draw_case, organization
from tests.streams import expand as one_a_row

GDDR6 = compile_table(load_part("gddr6_14000").value)
AIM = compile_table(load_part("gddr6_aim").value)
HBM2 = compile_table(load_part("hbm2_2000").value)


def trace_of(table: Table, text: str) -> np.ndarray:
    """TRACE of lines or `;`-separated commands like `88 RD bg 2 bank 1 row 7`."""
    lines = [line.split() for line in text.replace(";", "\n").splitlines() if line.strip()]
    found = np.zeros(len(lines), TRACE)
    for one, (clock, name, *pairs) in zip(found, lines, strict=True):
        one["clock"], one["cmd"] = int(clock), table.cmd(name)
        for field, value in zip(pairs[::2], pairs[1::2], strict=True):
            one[field] = int(value)
    return found


def sentences(table: Table, text: str, **options) -> list[str]:
    return [v.sentence for v in check_trace(table, trace_of(table, text), **options)]


def breaks(table: Table, text: str, rule: int) -> bool:
    return any(v.rule == rule for v in check_trace(table, trace_of(table, text)))


def members(table: Table, rule: int, which: str) -> list[str]:
    """Commands that a rule binds (`before`) or that arm it (`after`)."""
    ptr, rules = getattr(table.rules, f"{which}_ptr"), getattr(table.rules, f"{which}_rule")
    return [name for i, name in enumerate(table.names) if rule in rules[ptr[i] : ptr[i + 1]]]


NAMES = ("", "pch", "rank", "bg", "bank")


def part_of(name: str, ranks: int) -> Part:
    """The part with that many ranks, each as large as before."""
    part = load_part(name).value
    timing = part.timing | ({"tCCD_R": part.timing["tCCD_L"]} if part.standard == "hbm3" else {})
    organization = msgspec.structs.replace(part.organization, ranks=ranks)
    return msgspec.structs.replace(part, timing=timing, organization=organization)


class Short(NamedTuple):
    """A few commands, and whether they break a rule."""

    text: str
    rule: int
    broken: bool


def short_ones(table: Table) -> Iterator[Short]:
    """Of each rule and each pair of its commands: in time, a clock early, too few in the window, at another node."""
    for rule, (level, window, wait, sibling) in enumerate(
        zip(table.rules.level, table.rules.window, table.rules.wait, table.rules.sibling, strict=True)
    ):
        if not wait:  # a rule that cannot bind
            continue
        for after, before in product(members(table, rule, "after"), members(table, rule, "before")):
            armed = "; ".join(f"{min(k, wait - 1)} {after}" for k in range(window))
            own, other = ("", f"{NAMES[level]} 1") if level else ("", "")
            if sibling:
                own, other = other, own
            yield Short(f"{armed}; {wait} {before} {own}", rule, False)
            yield Short(f"{armed}; {wait - 1} {before} {own}", rule, True)
            fewer = "; ".join(f"{min(k, wait - 1)} {after}" for k in range(1, window))
            yield Short(f"{fewer}; {wait - 1} {before} {own}", rule, False)
            if level == Level.CHANNEL or table.rules.scope[table.cmd(before)] < level:
                continue
            if table.rules.size[level] > table.rules.size[level - 1]:
                yield Short(f"{armed}; {wait - 1} {before} {other}", rule, False)  # another node is free


@pytest.mark.parametrize("part", parts())
def test_every_timing_rule_is_tight(part):
    """On two ranks, which some parts have and all could have. One trace, in which no rule looks from case to case."""
    table = compile_table(part_of(part, 2))
    cases, traces, clock = list(short_ones(table)), list[np.ndarray](), 0
    for case in cases:
        traces.append(trace_of(table, case.text))
        traces[-1]["clock"] += clock
        clock = int(traces[-1]["clock"][-1]) + int(table.rules.wait.max()) + 1
    ends = np.cumsum([len(trace) for trace in traces])
    found = check_trace(table, np.concatenate(traces), limit=len(cases) * 100)
    broken = {(int(np.searchsorted(ends, v.at, side="right")), v.rule) for v in found if v.kind == "rule"}
    for number, case in enumerate(cases):
        assert ((number, case.rule) in broken) == case.broken, case
    assert any(case.broken for case in cases)


def test_a_rule_between_ranks_binds_the_others_alone():
    """DDR4-3200: nBL + nRTRS = 6 from RD to the next rank's RD; tCCD_S = 4 in the same rank."""
    table = compile_table(part_of("ddr4_3200", 4))
    opened = "; ".join(f"{9 * rank} ACT rank {rank}" for rank in range(4))
    assert not sentences(table, f"{opened}; 90 RD rank 1; 94 RD rank 1 bg 0; 100 RD rank 2; 106 RD rank 0")[1:]
    assert sentences(table, f"{opened}; 90 RD rank 1; 96 RD rank 2; 101 RD rank 0") == [
        'RD rank 0 bg 0 bank 0 at CK 101: 5 CK after RD at CK 96, rule "RD to RD" needs 6'
    ]


def test_a_command_of_many_banks_waits_for_each():
    """NeuPIMs: G_ACT opens a row of four banks; tRP after the PIM_PRECHARGE of any of them."""
    part = load_part("hbm2_neupims").value
    table, wait = compile_table(part), part.cycles("tRP")
    pair = ((table.cmd("PIM_PRECHARGE"),), (table.cmd("G_ACT"),))
    (rule,) = (i for i, row in enumerate(rule_rows(table.rules)) if (row.after, row.before) == pair)
    for bank in range(4):
        assert breaks(table, f"0 PIM_PRECHARGE bg 1 bank {bank}; {wait - 1} G_ACT bg 1 bank 0", rule)
        assert not breaks(table, f"0 PIM_PRECHARGE bg 1 bank {bank}; {wait} G_ACT bg 1 bank 0", rule)
        assert not breaks(table, f"0 PIM_PRECHARGE bg 1 bank {bank}; {wait - 1} G_ACT bg 2 bank 0", rule)


def test_a_broken_rule_says_who_when_and_how_long():
    """
    WR bg 2 bank 0 ──┐ nCWL + nBL + tWTR_L = 6 + 2 + 11 = 19
    RD bg 2 bank 1   └────────────── 11 ✗
    """
    text = "0 ACT bg 2 bank 0 row 7; 40 ACT bg 2 bank 1 row 7; 77 WR bg 2 bank 0 row 7; 88 RD bg 2 bank 1 row 7"
    assert sentences(GDDR6, text) == [
        'RD bg 2 bank 1 at CK 88: 11 CK after WR at CK 77, rule "WR to RD" needs 17',
        'RD bg 2 bank 1 at CK 88: 11 CK after WR at CK 77, rule "WR to RD" needs 19',
    ]


def test_the_window_counts_the_fourth_latest():
    acts = "; ".join(f"{11 * k} ACT bg {k} bank 0" for k in range(4))
    table = compile_table(load_part("gddr6_14000", {"timing.tFAW": "50 nCK"}).value)
    assert not sentences(table, f"{acts}; 50 ACT bg 0 bank 1")
    assert sentences(table, f"{acts}; 49 ACT bg 0 bank 1") == [
        'ACT bg 0 bank 1 at CK 49: 49 CK after the 4 latest, first ACT at CK 0, rule "ACT to ACT" needs 50'
    ]


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        (GDDR6, "9 PRE bg 0 bank 0; 9 RD bg 1 bank 2", "RD bg 1 bank 2 at CK 9: its bus carries PRE bg 0 bank 0"),
        (HBM2, "9 PRE bg 0 bank 0; 9 RD pch 1 bg 1 bank 2", None),
        (HBM2, "9 RD bg 0 bank 0; 9 RD pch 1", "RD pch 1 bg 0 bank 0 at CK 9: its bus carries RD pch 0 bg 0 bank 0"),
        (HBM2, "9 PRE; 9 RD bg 1; 9 REFab pch 1", "REFab pch 1 at CK 9: its bus carries PRE pch 0 bg 0 bank 0"),
    ],
)
def test_a_bus_carries_one_command_a_clock(table, text, said):
    found = [v.sentence for v in check_trace(table, trace_of(table, text)) if v.kind == "bus"]
    assert found == ([said] if said else [])


def rows(table: Table, text: str) -> list[str]:
    return [v.sentence for v in check_trace(table, trace_of(table, text)) if v.kind == "row"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 RD bg 1 bank 2 row 7", "RD bg 1 bank 2 at CK 0 needs row 7 open, but nothing opened it"),
        ("0 ACT row 6; 50 RD row 7", "RD bg 0 bank 0 at CK 50 needs row 7 open, but ACT opened row 6 at CK 0"),
        ("0 ACT row 7; 50 PRE; 90 WR row 7", "WR bg 0 bank 0 at CK 90 needs row 7 open, but PRE closed it at CK 50"),
        ("0 ACT; 50 RDA; 90 RD", "RD bg 0 bank 0 at CK 90 needs row 0 open, but RDA closed it at CK 50"),
        ("0 ACT; 50 PREab; 90 RD", "RD bg 0 bank 0 at CK 90 needs row 0 open, but PREab closed it at CK 50"),
        ("0 ACT row 3; 90 ACT row 3", "ACT bg 0 bank 0 at CK 90 needs closed rows, but ACT opened row 3 at CK 0"),
        (
            "0 ACT bg 1 bank 3 row 9; 90 REFab",
            "REFab at CK 90 needs closed rows in bank 7 of the channel, but ACT opened row 9 at CK 0",
        ),
        (
            "0 ACTab row 4; 50 PRE bg 0 bank 1; 90 MACab row 4",
            "MACab at CK 90 needs row 4 open in bank 1 of the channel, but PRE closed it at CK 50",
        ),
        (
            "0 ACTab; 50 WRAab; 99 MACab",
            "MACab at CK 99 needs row 0 open in bank 0 of the channel, but WRAab closed it",
        ),
        ("0 ACT bg 1; 99 ACTab", "ACTab at CK 99 needs closed rows in bank 4 of the channel, but ACT opened row 0"),
        ("0 ACTab row 5; 50 RD bg 3 bank 3 row 5; 60 PREab; 70 PRE; 90 WRGB; 99 REFab", None),
        ("0 ACT bg 1; 1 ACT; 50 RD; 51 RD bg 1; 60 PRE; 61 RD bg 1", None),
    ],
)
def test_rows_are_as_a_command_needs_them(text, said):
    found = rows(AIM, text)
    assert len(found) == (said is not None)
    assert all(sentence.startswith(said) for sentence in found)


def test_a_pseudo_channel_refreshes_alone():
    assert not rows(HBM2, "0 ACT pch 1; 90 REFab pch 0")
    assert rows(HBM2, "0 ACT pch 1; 90 REFab pch 1")


def test_each_row_buffer_has_rows_of_its_own():
    bank = Level.BANK
    commands = tuple(
        command
        for buffer, name in enumerate(("host", "pim"))
        for command in (
            Command(f"ACT_{name}", Role.ACTIVATE, bank, Row.CLOSED, Row.OPEN, "1", "", buffer=buffer),
            Command(f"RD_{name}", Role.READ, bank, Row.OPEN, Row.ANY, "1", "", buffer=buffer),
            Command(f"PRE_{name}", Role.PRECHARGE, bank, Row.ANY, Row.CLOSED, "1", "", buffer=buffer),
        )
    )
    table = build_table(commands, (), {}, organization((1, 1, 1, 2)), "")
    both = "0 ACT_host row 1; 1 ACT_pim row 2; 2 RD_host row 1; 3 RD_pim row 2"
    assert not rows(table, f"{both}; 4 PRE_pim; 5 RD_host row 1")
    assert len(rows(table, "0 ACT_host row 1; 1 RD_pim row 1")) == 1


def test_refresh_may_be_postponed_eight_times():
    """Due at CK 100 and every tREFI = 3333 from then: the ninth falls due at CK 100 + 8 x 3333 = 26764."""
    late = "refresh 1 of node 0, due at CK 100, {} at CK 26764: more than 8 are postponed"
    assert not sentences(GDDR6, "0 PREab; 26763 PREab", due_ck=100)
    assert sentences(GDDR6, "0 PREab; 26764 PREab", due_ck=100) == [late.format("has not issued")]
    assert not sentences(GDDR6, "26763 REFab; 26974 PREab", due_ck=100)
    assert sentences(GDDR6, "26764 REFab", due_ck=100) == [late.format("issues")]
    assert not sentences(GDDR6, "0 PREab; 99999 PREab"), "no refresh asked for"
    assert len(sentences(HBM2, "0 REFab pch 0; 31299 PREab", due_ck=100)) == 0
    assert sentences(HBM2, "0 REFab pch 0; 31300 PREab", due_ck=100) == [
        "refresh 1 of node 1, due at CK 100, has not issued at CK 31300: more than 8 are postponed"
    ]


def test_what_is_no_trace_is_refused():
    for text, said in [
        ("9 PRE; 8 PRE", "the trace is not sorted: CK 8 follows CK 9"),
        ("9 PRE bank 4", "command 0: bank 4 is outside 0 to 3"),
        ("9 PREab bank 0; 10 PRE bg -1", "command 1: bg -1 is outside 0 to 3"),
    ]:
        with pytest.raises(ValueError, match=said):
            check_trace(GDDR6, trace_of(GDDR6, text))
    with pytest.raises(RuntimeError, match="illegal command trace, 1 violations: RD bg 0 bank 0 at CK 5 needs row 0"):
        raise_if_illegal(GDDR6, trace_of(GDDR6, "5 RD"))
    raise_if_illegal(GDDR6, trace_of(GDDR6, "5 PRE"))
    assert not check_trace(GDDR6, np.zeros(0, TRACE), due_ck=0)


def test_a_run_is_expanded_only_where_it_was_even():
    stream = np.zeros(3, STREAM)
    stream["cmd"], stream["count"] = [GDDR6.cmd(n) for n in ("ACT", "RD", "PRE")], [1, 5, 1]
    result = issue(GDDR6, [stream])
    trace = expand(GDDR6, [stream], *result[:3])
    assert trace["clock"].tolist() == [0, 30, 34, 38, 42, 46, 60]
    late = [end + (stream["count"] > 1) for end in result.end_ck]
    with pytest.raises(ValueError, match="row 1 of stream 0: its 5 RD from CK 30 to CK 47 are not 4 CK apart; issue"):
        expand(GDDR6, [stream], result.issue_ck, late, result.refresh_ck)


def test_a_run_makes_way_for_refreshes():
    """A refresh of 20 clocks falls due every 40 clocks while 40 WRGB fill the buffer."""
    part = load_part("gddr6_pim_gpt", {"timing.tREFI": "40 nCK", "timing.tRFC": "20 nCK"}).value
    table = compile_table(part)
    stream = np.zeros(1, STREAM)
    stream["cmd"], stream["count"] = table.cmd("WRGB"), 40
    result = issue(table, [stream])
    trace = expand(table, [stream], *result[:3])
    single = np.repeat(stream, 40)
    single["count"] = 1
    one_by_one = issue(table, [single])
    assert len(result.refresh_ck) == 2
    assert trace["clock"][trace["cmd"] == table.cmd("WRGB")].tolist() == one_by_one.issue_ck[0].tolist()
    assert not check_trace(table, trace, due_ck=40)


def engine_traces(machine: str, seeds: range):
    """(table, trace, first due refresh) of random streams, one command a row, as the engine issues them."""
    for seed in seeds:
        case = draw_case(Random(seed), machine)
        case = case._replace(streams=[one_a_row(stream) for stream in case.streams], refreshed=None)
        table = case.table()
        streams = case.arrays(table)
        try:
            result = issue(table, streams, refresh=case.refresh, due_ck=case.due)
        except UserError:
            continue
        due = table.rules.refi if case.due is None else case.due
        yield table, expand(table, streams, *result[:3]), due if case.refresh else None


@pytest.mark.parametrize("seeds", [range(60), slow(range(60, 300))], ids=str)
@pytest.mark.parametrize("machine", STANDARDS)
def test_what_the_engine_issues_is_legal(machine, seeds):
    commands = 0
    for table, trace, due in engine_traces(machine, seeds):
        assert check_trace(table, trace, due_ck=due) == []
        commands += len(trace)
    assert commands > 1500


@pytest.mark.parametrize("seeds", [range(40), slow(range(40, 150))], ids=str)
@pytest.mark.parametrize("machine", STANDARDS)
def test_runs_expand_to_what_single_commands_do(machine, seeds):
    same = 0
    for seed in seeds:
        case = draw_case(Random(seed), machine)
        table = case.table()
        short, long = case.arrays(table), case._replace(streams=[one_a_row(s) for s in case.streams]).arrays(table)
        try:
            both = [(s, issue(table, s, refresh=case.refresh, due_ck=case.due)) for s in (short, long)]
            one, other = (expand(table, streams, *result[:3]) for streams, result in both)
        except (UserError, ValueError):  # illegal, or a run that another stream or rule cut
            continue
        assert (one == other).all()
        same += any(order.count > 1 for stream in case.streams for order in stream)
    assert same > 20


def earlier_is_illegal(table: Table, trace: np.ndarray) -> int:
    """Commands that a rule bound: a clock earlier each of them breaks a rule. One trace for all of them, each behind
    what may bind it, in which no rule looks from case to case."""
    late, reach = np.flatnonzero(np.diff(trace["clock"]) > 1) + 1, int(table.rules.wait.max(initial=0))
    cases, clock = [trace[:0]], 0
    for i in late:
        early = trace[np.searchsorted(trace["clock"], trace["clock"][i] - reach) : i + 1].copy()
        early["clock"][-1] -= 1
        early["clock"] += clock - early["clock"][0]
        clock = int(early["clock"][-1]) + reach + 1
        cases.append(early)
    ends = np.cumsum([len(case) for case in cases])
    found = check_trace(table, np.concatenate(cases), limit=int(ends[-1]) * 100)
    assert set((ends[1:] - 1).tolist()) <= {v.at for v in found if v.kind == "rule"}
    return len(late)


@pytest.mark.parametrize("seeds", [range(10), slow(range(10, 40))], ids=str)
@pytest.mark.parametrize("machine", STANDARDS)
def test_one_clock_earlier_is_illegal(machine, seeds):
    """Without refresh and releases a single stream's command that did not follow at once was bound by a rule."""
    bound = 0
    for seed in seeds:
        case = draw_case(Random(seed), machine, rows=25)
        orders = [order._replace(release=0) for order in one_a_row(case.streams[0])]
        table = case.table()
        stream = case._replace(streams=[orders]).arrays(table)
        try:
            result = issue(table, stream, refresh=False)
        except UserError:
            continue
        bound += earlier_is_illegal(table, expand(table, stream, *result[:3]))
    assert bound > 40


def test_pieces_find_what_the_whole_finds(monkeypatch):
    rng = np.random.default_rng(1)
    cases = []
    for table, trace, due in engine_traces("gddr6+aim", range(30)):
        trace["clock"] = np.maximum(trace["clock"] - rng.integers(0, 3, len(trace)).cumsum(), 0)
        trace["row"] += rng.integers(0, 20, len(trace)) == 0
        trace = trace[np.argsort(trace["clock"], kind="stable")]
        cases.append((table, trace, due, check_trace(table, trace, due_ck=due)))
    assert {v.kind for *_, found in cases for v in found} >= {"rule", "row", "bus"}
    monkeypatch.setattr(monitor, "PIECE", 7)
    for table, trace, due, whole in cases:
        assert check_trace(table, trace, due_ck=due) == whole


def test_rows_that_one_command_opened_in_all_banks_are_known_in_later_pieces(monkeypatch):
    text = "0 ACTab row 3; 500 RD bg 1 bank 2 row 3; 600 RD bg 3 bank 1 row 4"
    whole = check_trace(AIM, trace_of(AIM, text))
    assert [(v.at, v.kind) for v in whole] == [(2, "row")]
    monkeypatch.setattr(monitor, "PIECE", 1)
    assert check_trace(AIM, trace_of(AIM, text)) == whole


def test_only_the_first_of_each_rule_are_told():
    text = "; ".join(f"{k} RD" for k in range(50))
    assert len(check_trace(GDDR6, trace_of(GDDR6, text), limit=3)) == 4 * 3  # nBL, tCCD_S, tCCD_L and the closed row
