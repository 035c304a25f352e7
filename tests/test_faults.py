"""Fault traces: the strict reader, the figures of the public trace, writing, and every way a file can be wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.systems.fabric.faults.events import read_faults, write_faults
from pimloom.systems.fabric.faults.statistics import (
    FaultStatistics,
    fault_statistics,
    faulty_over_time,
    weighted_quantiles,
)
from pimloom.systems.fabric.faults.trace import Kind, Trace

GPU = {"Level": "Hardware Failure", "Class": "GPU", "Desc": "DBE"}
FAN = {"Level": "Hardware Failure", "Class": "Fan", "Desc": "stopped"}


def event(node: str, day: float, kind: str, what: dict[str, str] = GPU) -> dict[str, Any]:
    return {"node_id": node, "event_time": day, "event_type": f"fault_{kind}", "fault_type": what}


GOOD = [
    event("a", 1, "start"),
    event("b", 2, "start", FAN),
    event("b", 3, "start"),
    event("b", 4, "end", FAN),
    event("a", 5, "end"),
    event("b", 8, "end"),
    event("c", 9, "start"),
    event("c", 10.5, "end"),
]


def write(folder: Path, events: object) -> Path:
    path = folder / "trace.json"
    path.write_text(events if isinstance(events, str) else json.dumps(events, indent=1))
    return path


def trace_of(faults: list[tuple[int, int, int]], servers: int, horizon_h: float) -> Trace:
    """A trace of (server, start [h], end [h])."""
    rows = np.array(sorted(faults, key=lambda fault: fault[1]), np.int64).reshape(-1, 3)
    kinds = (Kind("Hardware Failure", "GPU", ""),)
    ends = rows[:, 1].astype(float), rows[:, 2].astype(float)
    return Trace("drawn", servers, horizon_h, rows[:, 0], *ends, np.zeros(len(rows), np.int64), kinds)


def test_a_trace_by_hand(tmp_path: Path) -> None:
    """a is down from 1 to 5, b from 2 to 8 for two faults that overlap, c beyond the horizon of 10 whole days."""
    found = fault_statistics(read_faults(write(tmp_path, GOOD), servers=10), window_h=5 * 24)
    assert (found.servers, found.servers_that_fail, found.faults, found.outages) == (10, 3, 4, 3)
    assert found.horizon_h == 240
    assert found.fault_ratio_mean == pytest.approx((4 + 6 + 1) / 10 / 10)
    assert found.fault_ratio_by_window == pytest.approx([(4 + 3) / 50, (3 + 1) / 50])
    assert (found.faulty_p50, found.faulty_p90, found.faulty_max) == (1, 2, 2)
    assert (found.mttr_mean_h, found.mttr_median_h) == pytest.approx(((4 + 6 + 1.5) * 8, 96))
    assert found.mtbf_h == pytest.approx((10 * 9.5 - 11.5) / 3 * 24)
    assert found.outages_of_a_server == [7, 3]
    assert found.by_class[0] == {"level": "Hardware Failure", "class": "GPU", "faults": 3, "down_server_h": 10.5 * 24}
    assert found.by_level == [{"level": "Hardware Failure", "faults": 4, "down_server_h": 12.5 * 24}]


def test_the_end_belongs_to_the_earliest_open_start_of_its_type(tmp_path: Path) -> None:
    rows = [event("a", 1, "start"), event("a", 2, "start"), event("a", 3, "end"), event("a", 9, "end")]
    trace = read_faults(write(tmp_path, rows), servers=1)
    assert (trace.end_h / 24).tolist() == [3, 9]
    assert fault_statistics(trace).outages == 1


def test_a_fault_that_never_ends_lasts_to_the_horizon_and_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD[:-1])
    trace = read_faults(path, days=20)
    assert trace.end_h[-1] == 20 * 24
    assert trace.notes == (f"{path}: event 7, node_id 'c': the fault never ends; taken as down until day 20",)
    assert fault_statistics(trace).notes == trace.notes


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ("", ": the file is empty"),
        ("[{", ":1: not JSON: Expecting property name enclosed in double quotes"),
        (json.dumps(GOOD, indent=1)[:-30], ": not JSON: "),
        ("{}", ": expected an array of at least one event, each with node_id, event_time [days], event_type and"),
        ("[]", ": expected an array of at least one event"),
        ("[[]]", ":1: event 1: expected an object, got an array"),
        ([GOOD[1], event("z", 3, "end")], ":12: event 2: fault_end of node_id 'z', 'GPU': no such fault began before"),
        ([GOOD[1], event("b", 3, "end")], ":12: event 2: fault_end of node_id 'b', 'GPU': no such fault began before"),
        ([event("a", -1, "start")], ":2: event 1: event_time: expected a number >= 0.0, got -1"),
        ([event("a", 1e9, "start")], ":2: event 1: event_time: expected a number <= 36500.0, got 1000000000.0"),
        ([event("a", 1, "strat")], ':2: event 1: event_type: expected fault_start or fault_end, got "fault_strat"'),
        ([event("", 1, "start")], ':2: event 1: node_id: expected text of length >= 1, got ""'),
        ([event("a", 2, "start"), event("b", 1, "start")], ":12: event 2: event_time 1 is before that of event 1, 2"),
        (
            [{k: v for k, v in GOOD[0].items() if k != "node_id"}],
            ":2: event 1: object missing required field 'node_id'",
        ),
        ([GOOD[0] | {"gpu": 1}], ":2: event 1: object contains unknown field 'gpu'"),
        ([event("a", 1, "start", {"Level": "x", "Class": "y"})], ":2: event 1: fault_type: object missing required"),
        ([GOOD[0] | {"event_time": "1"}], ":2: event 1: event_time: expected a number, got text"),
        ('[{"node_id": "a", "node_id": "b"}]', ":1: duplicate key 'node_id', first on line 1"),
        ('[{"event_time": NaN}]', ":1: expected a finite number, got NaN"),
        ([event("a", 0, "start"), event("a", 0, "end")], ": expected events over more than 0 and at most 36500 days"),
    ],
)
def test_wrong_files_are_one_line_with_the_place(tmp_path: Path, events: object, said: str) -> None:
    path = write(tmp_path, events)
    with pytest.raises(UserError) as error:
        read_faults(path)
    assert str(error.value).startswith(str(path)) and said in str(error.value)
    assert "\n" not in str(error.value)


def test_fewer_servers_than_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--servers 2: .* names 3 servers; expected at least as many$"):
        read_faults(write(tmp_path, GOOD), servers=2)


faults = st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 15)).map(lambda f: (f[0], f[1], f[1] + f[2]))


@given(st.lists(faults, max_size=12), st.integers(1, 50))
def test_figures_are_those_of_counting_hours(drawn: list[tuple[int, int, int]], horizon: int) -> None:
    """Every hour, who is down? Overlapping faults of a server count once."""
    trace = trace_of(drawn, 4, horizon)
    by_hour = [sum(any(s == n and a <= h < b for s, a, b in drawn) for n in range(4)) for h in range(horizon)]
    found = fault_statistics(trace, window_h=10)
    assert found.fault_ratio_mean == pytest.approx(sum(by_hour) / horizon / 4)
    assert found.faulty_max == max(by_hour)
    for share, ours in ((0.5, found.faulty_p50), (0.9, found.faulty_p90), (0.99, found.faulty_p99)):
        assert ours == next(n for n in range(5) if sum(h <= n for h in by_hour) >= share * horizon - 1e-9)
    windows = [by_hour[at : at + 10] for at in range(0, horizon, 10)]
    assert found.fault_ratio_by_window == pytest.approx([sum(part) / len(part) / 4 for part in windows])
    weight_h, faulty = faulty_over_time(trace.outages(), horizon)
    assert np.repeat(faulty, weight_h.astype(int)).tolist() == by_hour


@given(st.lists(faults, min_size=1, max_size=12))
def test_merging_counts_stretches(drawn: list[tuple[int, int, int]]) -> None:
    """An outage ends where no other fault of the server goes on or touches; half hours tell apart what only touches."""
    found = trace_of(drawn, 4, 100).outages()
    stretches = 0
    for server in range(4):
        own = sorted((2 * a, 2 * b) for s, a, b in drawn if s == server)
        held = {half for a, b in own for half in range(a, b + 1)}
        stretches += sum(half - 1 not in held for half in held)
    assert len(found.server) == stretches
    assert (np.diff(found.start_h) >= 0).all()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    trace = read_faults(write(tmp_path, GOOD), servers=5)
    write_faults(tmp_path / "again.json", trace, ["a", "b", "c", "d", "e"])
    assert json.loads((tmp_path / "again.json").read_text()) == GOOD
    again = read_faults(tmp_path / "again.json", servers=5)
    for name in ("server", "start_h", "end_h", "kind"):
        assert getattr(again, name).tolist() == getattr(trace, name).tolist()


def test_a_quantile_is_the_smallest_value_that_reaches_its_share() -> None:
    values, weights = np.array([5, 1, 3]), np.array([0.1, 0.6, 0.3])
    assert weighted_quantiles(values, weights, (0.5, 0.6, 0.61, 0.9, 0.95, 1)) == [1, 1, 3, 3, 5, 5]


@pytest.fixture(scope="module")
def public(fault_trace: Path) -> FaultStatistics:
    return fault_statistics(read_faults(fault_trace))


def test_the_public_trace(public: FaultStatistics) -> None:
    """Literal values of the specification, 2.5."""
    assert (public.servers, public.servers_that_fail, public.faults, public.outages) == (400, 231, 584, 582)
    assert public.horizon_h == 348 * 24
    assert public.down_server_h / 24 == pytest.approx(3231.3, abs=0.05)
    assert 100 * public.fault_ratio_mean == pytest.approx(2.32, abs=0.005)
    assert (public.faulty_p50, public.faulty_p90, public.faulty_p95) == (7, 22, 26)
    assert (public.faulty_p99, public.faulty_max) == (31, 35)
    assert (public.mttr_mean_h or 0) / 24 == pytest.approx(5.55, abs=0.005)
    assert (public.mttr_median_h or 0) / 24 == pytest.approx(0.85, abs=0.005)
    assert (public.mtbf_h or 0) / 24 == pytest.approx(232, abs=0.5)
    assert public.outages_per_server_year == pytest.approx(1.54, abs=0.005)
    assert (public.between_outages_h or 0) / 24 == pytest.approx(0.593, abs=0.0005)
    assert public.outages_of_a_server[1] == 96 and public.outages_of_a_server[14] == 1
    assert public.notes == ()
    windows = (0.82, 1.84, 6.10, 5.39, 1.34, 2.01, 1.36, 2.38, 2.86, 1.77, 1.15, 0.81)
    assert [100 * ratio for ratio in public.fault_ratio_by_window] == pytest.approx(windows, abs=0.006)


def test_classes_and_levels_of_the_public_trace(public: FaultStatistics) -> None:
    assert [(row["level"], row["faults"]) for row in public.by_level] == [
        ("Hardware Failure", 298),
        ("Other Failure", 262),
        ("Software Failure", 24),
    ]
    largest = {
        row["class"]: (row["faults"], round(float(str(row["down_server_h"])) / 24)) for row in public.by_class[:7]
    }
    assert largest == {
        "GPU": (158, 1023),
        "Unknown Error": (144, 672),
        "Stress Test Failure": (97, 139),
        "Parameter Plane Cable": (40, 199),
        "Fan": (33, 299),
        "NIC": (30, 321),
        "Power Supply": (26, 476),
    }


def test_unmerged_durations_of_the_public_trace(fault_trace: Path) -> None:
    trace = read_faults(fault_trace)
    days = (trace.end_h - trace.start_h) / 24
    assert np.quantile(days, [0.9, 0.99]) == pytest.approx([13.0, 81.9], abs=0.05)
    assert days.max() == pytest.approx(131, abs=0.5)
    assert ((days < 1 / 24).sum(), (days < 1e-9).sum(), (days > 30).sum()) == (115, 14, 31)
