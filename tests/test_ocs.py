"""The transceiver's model: the naive oracle, every timing tight on both sides, and drawings by hand."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.optics import SwitchTable, load_optics, switch_table
from pimloom.cycle_sim.ocs import Burst, Fate, Light, Outcome, Request, deliver, simulate
from tests.naive_ocs import tick_all
from tests.ocs_events import draw_events, draw_table

LOOP, ONE, TWO = range(3)  # entries
TABLE = SwitchTable(detect=2, decide=3, blackout=4, retrain=5, paths=3, entries=((2, 0), (0, 2), (1, 1)))
FIELDS = ("detect", "decide", "blackout", "retrain")


def picture(found: Outcome) -> str:
    """A letter a clock: `.` blackout, `~` retrain, else the path that is live."""
    letters = {"blackout": ".", "retrain": "~"}
    return "".join(letters.get(i.state, str(i.path)) * (i.end_cyc - i.start_cyc) for i in found.intervals)


def agree(table: SwitchTable, events: list[Request | Light], clocks: int) -> None:
    """The model says of every clock what the oracle says."""
    found = simulate(table, events, clocks)
    asks = {e.cycle: e.entry for e in events if isinstance(e, Request)}
    light: dict[int, dict[int, bool]] = {}
    for event in events:
        if isinstance(event, Light):
            light.setdefault(event.cycle, {})[event.path] = event.on
    naive = tick_all(table, asks, light, found.end_cyc)
    assert naive["idle"]
    assert [(i.state, i.path) for i in found.intervals for _ in range(i.start_cyc, i.end_cyc)] == naive["states"]
    ends = sorted((clock, *end) for clock, these in enumerate(naive["ends"]) for end in these)
    mine = sorted((f.end_cyc, f.request.cycle, f.taken, f.why, f.stage) for f in found.fates)
    assert mine == ends and len(mine) == len(asks)
    assert [f[:4] for f in found.failovers] == naive["failovers"]


@settings(max_examples=150)
@given(st.integers(0, 10**9))
def test_the_model_is_the_oracle(seed):
    rng = Random(seed)
    table = draw_table(rng)
    agree(table, draw_events(rng, table, 120), 150)


@pytest.mark.slow
@settings(max_examples=3000)
@given(st.integers(0, 10**9))
def test_the_model_is_the_oracle_at_length(seed):
    rng = Random(seed)
    table = draw_table(rng, 12)
    agree(table, draw_events(rng, table, 400), 500)


@settings(max_examples=100)
@given(st.integers(0, 10**9))
def test_what_holds_of_every_run(seed):
    rng = Random(seed)
    table = draw_table(rng)
    events = draw_events(rng, table, 120)
    found = simulate(table, events)
    assert [f.request for f in found.fates] == [e for e in events if isinstance(e, Request)]
    for fate in found.fates:
        assert 0 <= fate.end_cyc - fate.request.cycle <= table.bound == 2 * (table.blackout + table.retrain) + 1
        if fate.taken is None:
            assert fate.why
        else:
            assert not fate.why
            (live,) = [i for i in found.intervals if i.start_cyc <= fate.end_cyc < i.end_cyc]
            assert (live.state, live.path) == ("live", table.entries[fate.taken][0])
            assert fate.taken in (fate.request.entry, table.entries[fate.request.entry][1])
    spans = [(i.start_cyc, i.end_cyc) for i in found.intervals]
    assert spans[0][0] == 0 and spans[-1][1] == found.end_cyc and all(a < b for a, b in spans)
    assert all(a[1] == b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_the_bound_is_reached():
    """Kept in the first clock of a switch, then judged in the first live one, then a switch of its own."""
    fates = simulate(TABLE, [Request(0, ONE), Request(1, TWO)]).fates
    assert fates[1].end_cyc - fates[1].request.cycle == TABLE.bound == 19


@pytest.mark.parametrize(
    ("events", "drawn", "fates"),
    [
        # a switch: blackout of 4, retrain of 5; the request's own clock is still live
        ([Request(2, ONE)], "222....~~~~~0", [(ONE, 12, "")]),
        # the live path, at once
        ([Request(1, LOOP)], "22", [(LOOP, 1, "")]),
        # back to back: the second waits for the first, whose path is live for one clock
        (
            [Request(0, ONE), Request(5, LOOP)],
            "2....~~~~~0....~~~~~2",
            [(ONE, 10, ""), (LOOP, 20, "")],
        ),
        # the newest is kept, the one before refused; the kept one finds its path live
        (
            [Request(0, ONE), Request(3, TWO), Request(7, ONE)],
            "2....~~~~~0",
            [(ONE, 10, ""), (None, 7, "superseded"), (ONE, 10, "")],
        ),
        # a newer one in the first live clock refuses the kept one
        (
            [Request(0, ONE), Request(3, TWO), Request(10, LOOP)],
            "2....~~~~~0....~~~~~2",
            [(ONE, 10, ""), (None, 10, "superseded"), (LOOP, 20, "")],
        ),
        # an entry that is not there, which leaves the kept one alone
        (
            [Request(0, ONE), Request(3, TWO), Request(4, 3)],
            "2....~~~~~0....~~~~~1",
            [(ONE, 10, ""), (TWO, 20, ""), (None, 4, "no such entry")],
        ),
        # path 0 has failed 2 clocks after its light went: not yet in clock 2, in clock 3 the backup takes its place
        ([Light(1, 0, False), Request(2, ONE)], "222....~~~~~000....~~~~~1", [(None, 12, "path failed")]),
        ([Light(1, 0, False), Request(3, ONE)], "2222....~~~~~1", [(TWO, 13, "")]),
        # the loopback is its own backup
        (
            [Request(0, ONE), Light(12, 2, False), Request(15, LOOP)],
            "2....~~~~~000000",
            [(ONE, 10, ""), (None, 15, "path failed")],
        ),
    ],
)
def test_drawn_by_hand(events, drawn, fates):
    found = simulate(TABLE, events)
    assert picture(found) == drawn
    assert [(f.taken, f.end_cyc, f.why) for f in found.fates] == fates


def test_a_failover_goes_to_the_backup_entry_without_a_request():
    """Dark from 20: failed from 22, decided in 24, blackout 25 to 28, retrain 29 to 33: detect + decide + switch."""
    found = simulate(TABLE, [Request(0, ONE), Light(20, 0, False)])
    assert picture(found) == "2....~~~~~0" + 14 * "0" + "....~~~~~1"
    (one,) = found.failovers
    assert one == (ONE, TWO, 20, 25, 34)
    assert one.live_cyc - one.dark_cyc == sum(getattr(TABLE, name) for name in FIELDS)


def test_light_that_comes_back_in_time_calls_a_failover_off():
    for back, count in ((22, 0), (24, 0), (25, 1)):  # before it has failed, before it is decided, too late
        found = simulate(TABLE, [Request(0, ONE), Light(20, 0, False), Light(back, 0, True)])
        assert len(found.failovers) == count


def test_a_failover_waits_for_a_backup_with_light():
    dark: list[Request | Light] = [Request(0, ONE), Light(20, 0, False), Light(20, 1, False)]
    assert simulate(TABLE, dark).failovers == []
    (one,) = simulate(TABLE, [*dark, Light(50, 1, True)]).failovers
    assert (one.start_cyc, one.live_cyc) == (51, 60)


def test_a_request_goes_before_a_failover_in_its_clock():
    found = simulate(TABLE, [Request(0, ONE), Light(20, 0, False), Request(24, LOOP)])
    assert found.failovers == [] and found.fates[1] == Fate(Request(24, LOOP), LOOP, 34, "switch", "")


def test_data_are_passed_lost_and_refused():
    found = simulate(TABLE, [Request(0, ONE), Light(20, 0, False)], until_cyc=50)
    assert deliver(found, Burst(0, 50)) == (1 + 10 + 16, 5, 18)
    assert deliver(found, Burst(20, 25)) == (0, 5, 0)
    assert deliver(found, Burst(7, 7)) == (0, 0, 0)
    with pytest.raises(ValueError, match="expected a burst within clocks 0 to 50"):
        deliver(found, Burst(0, 51))


@settings(max_examples=50)
@given(st.integers(0, 10**9))
def test_data_are_those_of_every_clock(seed):
    rng = Random(seed)
    table = draw_table(rng)
    found = simulate(table, draw_events(rng, table, 100), until_cyc=110)
    a, b = sorted(rng.sample(range(111), 2))
    want = [0, 0, 0]
    for clock in range(a, b):
        (now,) = [i for i in found.intervals if i.start_cyc <= clock < i.end_cyc]
        dark = any(p == now.path and s <= clock < e for p, s, e in found.dark)
        want[2 if now.state != "live" else 1 if dark else 0] += 1
    assert list(deliver(found, Burst(a, b))) == want


SCENE: list[Request | Light] = [
    Request(0, ONE),
    Light(20, 0, False),
    Request(60, LOOP),
    Request(62, TWO),
    Light(80, 0, True),
]


@pytest.mark.parametrize("name", FIELDS)
def test_every_timing_bites(name):
    """One clock more in each is seen, by that clock."""
    bent = TABLE._replace(**{name: getattr(TABLE, name) + 1})
    before, after = simulate(TABLE, SCENE), simulate(bent, SCENE)
    switches = {"detect": 0, "decide": 0, "blackout": 1, "retrain": 1}[name]
    assert after.fates[0].end_cyc == before.fates[0].end_cyc + switches
    assert after.failovers[0].live_cyc == before.failovers[0].live_cyc + 1
    assert after.intervals != before.intervals


@pytest.mark.parametrize(
    "events",
    [
        [Request(3, 0), Request(2, 0)],
        [Request(3, 0), Request(3, 1)],
        [Request(3, -1)],
        [Light(3, 3, False)],
        [Light(3, 0, False), Light(3, 0, True)],
        [Light(-1, 0, False)],
    ],
)
def test_events_that_cannot_be(events):
    with pytest.raises(ValueError, match="clock"):
        simulate(TABLE, events)


def test_the_parts_own_times():
    """80 us of blackout, 1 ms of retrain at 10 MHz; a failover takes 100 + 10 + 80 + 1000 us, as `failover_ps` says."""
    part = load_optics("ocstrx").value
    table = switch_table(part)
    found = simulate(table, [Request(5, ONE), Light(20_000, 0, False)])
    assert found.fates[0].end_cyc == 5 + 800 + 10_000 + 1
    took = (found.failovers[0].live_cyc - 20_000) * part.clock_ps
    assert took == sum(ps for cause, ps in part.failover_ps.items() if cause != "rebuild") == 1_190_000_000
