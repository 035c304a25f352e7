"""The timeline is valid trace-event JSON, exact to the picosecond."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from pimloom.systems.timeline import Event, Track, microseconds, trace_json

BANK, BUS, ASIC = Track("bank 0", "channel 0"), Track("command bus", "channel 0"), Track("bank 0", "ASIC <b>")


def load(text: str) -> dict:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def test_tracks_become_named_and_ordered_threads():
    events = load(trace_json([BANK, BUS, ASIC], []))["traceEvents"]
    named = [(e["name"], e["pid"], e.get("tid"), *e["args"].values()) for e in events if e["ph"] == "M"]
    assert named == [
        ("process_name", 1, None, "channel 0"),
        ("process_sort_index", 1, None, 1),
        ("process_name", 2, None, "ASIC <b>"),
        ("process_sort_index", 2, None, 2),
        ("thread_name", 1, 1, "bank 0"),
        ("thread_sort_index", 1, 1, 1),
        ("thread_name", 1, 2, "command bus"),
        ("thread_sort_index", 1, 2, 2),
        ("thread_name", 2, 3, "bank 0"),
        ("thread_sort_index", 2, 3, 3),
    ]


def test_an_event_keeps_every_digit():
    two_us: Any = np.int64(2_000_000)
    late = 9_007_199_254_740_993_000_001  # more than a float can hold
    events = [Event(BANK, 'ACT "7"', late, 1, {"row": 7}), Event(ASIC, "GELU", 0, two_us)]
    shown = [e for e in load(trace_json([BANK, ASIC], events))["traceEvents"] if e["ph"] == "X"]
    assert shown[0] == {
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "ts": Decimal("9007199254740993.000001"),
        "dur": Decimal("0.000001"),
        "name": 'ACT "7"',
        "args": {"row": 7},
    }
    assert (shown[1]["pid"], shown[1]["tid"], shown[1]["ts"], shown[1]["dur"]) == (2, 2, 0, 2)


def test_events_are_sorted_with_the_enclosing_one_first():
    events = [Event(BUS, "c", 5, 1), Event(BANK, "inner", 5, 1), Event(BANK, "outer", 5, 9), Event(BANK, "a", 0, 5)]
    shown = load(trace_json([BANK, BUS], events))["traceEvents"]
    assert [e["name"] for e in shown if e["ph"] == "X"] == ["a", "outer", "inner", "c"]


def test_the_frame_around_the_events():
    trace = load(trace_json([BANK], [], {"version": "0.1.0", "seed": 0}))
    assert trace["displayTimeUnit"] == "ns"
    assert trace["otherData"] == {"version": "0.1.0", "seed": 0}
    assert load(trace_json([], []))["traceEvents"] == []


@pytest.mark.parametrize("time_ps", [0, 1, 999_999, 1_000_000, 1_000_001, 123_456_789_012_345_678_901, 10**12])
def test_microseconds_are_exact(time_ps):
    text = microseconds(time_ps)
    assert Decimal(text).scaleb(6) == time_ps
    assert Decimal(json.loads(text, parse_float=Decimal)) == Decimal(text)


HALF: Any = 0.5


@pytest.mark.parametrize(
    ("tracks", "event", "error", "message"),
    [
        ([BUS], Event(BANK, "e", 0, 1), ValueError, r"'e' is on the track \('bank 0', 'channel 0'\), which is not"),
        ([BANK], Event(BANK, "e", -1, 1), ValueError, "'e' has a negative time: -1 \\+ 1 ps"),
        ([BANK], Event(BANK, "e", 0, -1), ValueError, "negative time"),
        ([BANK, BANK], Event(BANK, "e", 0, 1), ValueError, "listed twice"),
        ([BANK], Event(BANK, "e", HALF, 1), TypeError, "float"),
        ([BANK], Event(BANK, "e", 0, 1, {"x": float("nan")}), ValueError, "JSON compliant"),
    ],
)
def test_what_is_not_a_timeline_is_refused(tracks, event, error, message):
    with pytest.raises(error, match=message):
        trace_json(tracks, [event])
