"""Trace-event JSON, the format that Perfetto and chrome://tracing open.

One process per group, one thread per track, one complete event ("X") per thing that took time.
Format: the Trace Event Format document of the Chromium project; times there are decimal microseconds.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import NamedTuple

DIGITS_BELOW_US = 6  # a microsecond is 10**6 ps


class Track(NamedTuple):
    """A row of the timeline, such as `bank 3` in the group `channel 0`."""

    name: str
    group: str


class Event(NamedTuple):
    """Something on a track from `start_ps` for `duration_ps`, both integers."""

    track: Track
    name: str
    start_ps: int
    duration_ps: int
    args: Mapping[str, object] = {}


def trace_json(tracks: Sequence[Track], events: Iterable[Event], other: Mapping[str, object] | None = None) -> str:
    """The timeline as one JSON object; tracks keep their order, times are exact to the picosecond.

    Raises ValueError for a track listed twice, an event on no listed track, a negative time.
    """
    places = _places(tracks)
    timed = sorted((*_placed(event, places), event) for event in map(Event._make, events))
    lines = [*_names(places), *(_line(process, thread, event) for process, thread, _, _, event in timed)]
    rest = f'"displayTimeUnit": "ns", "otherData": {_json(dict(other or {}))}'
    return '{"traceEvents": [\n' + ",\n".join(lines) + "\n],\n" + rest + "}\n"


def microseconds(time_ps: int) -> str:
    """Picoseconds as decimal microseconds, without rounding.

    >>> microseconds(1_250_000), microseconds(7), microseconds(3_000_000)
    ('1.25', '0.000007', '3')
    """
    digits = str(index(time_ps)).zfill(DIGITS_BELOW_US + 1)
    fraction = digits[-DIGITS_BELOW_US:].rstrip("0")
    return digits[:-DIGITS_BELOW_US] + ("." + fraction if fraction else "")


def _places(tracks: Sequence[Track]) -> dict[Track, tuple[int, int]]:
    """Process and thread number of each track, both counted from 1."""
    names = dict.fromkeys(group for _, group in tracks)
    groups = {group: number for number, group in enumerate(names, start=1)}
    places = {Track(*track): (groups[track[1]], number) for number, track in enumerate(tracks, start=1)}
    if len(places) < len(tracks):
        raise ValueError("a track is listed twice")
    return places


def _placed(event: Event, places: Mapping[Track, tuple[int, int]]) -> tuple[int, int, int, int]:
    """Sort key of an event: place, start, longest first, so that nested events follow their parent."""
    if event.track not in places:
        raise ValueError(f"event {event.name!r} is on the track {tuple(event.track)}, which is not listed")
    if event.start_ps < 0 or event.duration_ps < 0:
        times = f"{event.start_ps} + {event.duration_ps} ps"
        raise ValueError(f"event {event.name!r} has a negative time: {times}")
    return *places[event.track], event.start_ps, -event.duration_ps


def _names(places: Mapping[Track, tuple[int, int]]) -> list[str]:
    """The metadata events that name and order processes and threads."""
    groups = {process: track.group for track, (process, _) in places.items()}
    lines = [
        _json({"ph": "M", "pid": process, "name": f"process_{what}", "args": args})
        for process, group in groups.items()
        for what, args in (("name", {"name": group}), ("sort_index", {"sort_index": process}))
    ]
    lines += [
        _json({"ph": "M", "pid": process, "tid": thread, "name": f"thread_{what}", "args": args})
        for track, (process, thread) in places.items()
        for what, args in (("name", {"name": track.name}), ("sort_index", {"sort_index": thread}))
    ]
    return lines


def _line(process: int, thread: int, event: Event) -> str:
    """One event; its times are written digit by digit because a float would round them."""
    times = f'"ts": {microseconds(event.start_ps)}, "dur": {microseconds(event.duration_ps)}'
    rest = f'"name": {_json(event.name)}, "args": {_json(dict(event.args))}'
    return f'{{"ph": "X", "pid": {process}, "tid": {thread}, {times}, {rest}}}'


_json = json.JSONEncoder(allow_nan=False).encode  # `json.dumps` would make one for each of many events
