"""The public format of fault traces, read strictly and written.

A JSON array of events sorted by time: `node_id`, `event_time` in days, `event_type` fault_start or fault_end, and
`fault_type` with Level, Class and Desc. The format is that of stepfun-ai/InfiniteHBD-Trace [secondary].
"""

import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec
import numpy as np

from pimloom.arch.document import read_text, short
from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.arch.load import load_json
from pimloom.arch.units import GIB, H_PER_DAY
from pimloom.systems.fabric.faults.trace import SERVERS, Kind, Trace

MOST_DAYS = 36_500
EVENT_TYPES = ("fault_start", "fault_end")
DIGITS = 4  # of a day, as in the public trace: 8.64 s


class FaultType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What failed."""

    Level: str
    Class: str
    Desc: str


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault begins or ends."""

    node_id: Annotated[str, msgspec.Meta(min_length=1)]
    event_time: Annotated[float, msgspec.Meta(ge=0, le=MOST_DAYS)]
    event_type: Literal["fault_start", "fault_end"]
    fault_type: FaultType


class _Fault(msgspec.Struct):
    server: int
    start_d: float
    kind: Kind
    number: int  # of the event that began it, from 1
    end_d: float | None = None


def read_faults(path: Path, servers: int = SERVERS, days: float | None = None) -> Trace:
    """A trace of `servers` servers, of which those without an event never fail. Raises UserError.

    days: the horizon; else the whole days up to the last event (348 of the public trace), or that event within a day.
    An end belongs to the earliest open start of the same server and fault type. A fault that never ends lasts until
    the last event or the horizon, whichever is later, and the trace's notes say so.
    """
    events = _read(path)
    faults, names = _pair(path, events)
    if len(names) > servers:
        raise UserError(f"--servers {servers}: {path} names {len(names)} servers; expected at least as many")
    last_d = events[-1].event_time
    horizon_d = (math.floor(last_d) or last_d) if days is None else days
    if not 0 < horizon_d <= MOST_DAYS:
        raise UserError(f"{path}: expected events over more than 0 and at most {MOST_DAYS} days, got {horizon_d:g}")
    still = [fault for fault in faults if fault.end_d is None]
    notes = [_open_note(path, events, still, max(last_d, horizon_d))] if still else []
    kinds = tuple(dict.fromkeys(fault.kind for fault in faults))
    return Trace(
        path.name,
        servers,
        horizon_d * H_PER_DAY,
        np.array([fault.server for fault in faults], np.int64),
        np.array([fault.start_d for fault in faults]) * H_PER_DAY,
        np.array([max(last_d, horizon_d) if f.end_d is None else f.end_d for f in faults]) * H_PER_DAY,
        np.array([kinds.index(fault.kind) for fault in faults], np.int64),
        kinds,
        tuple(notes),
    )


def write_faults(path: Path, trace: Trace, names: Sequence[str]) -> None:
    """Write a trace in the public format; `names[server]` is its node_id. Times are rounded to 4 digits of a day."""
    events = [
        (round(float(at_h) / H_PER_DAY, DIGITS), nth, kind, int(fault))
        for nth, (kind, times) in enumerate(zip(EVENT_TYPES, (trace.start_h, trace.end_h), strict=True))
        for fault, at_h in enumerate(times)
    ]
    rows = []
    for at_d, _, kind, fault in sorted(events, key=lambda event: (event[0], event[1])):
        level, class_, desc = trace.kinds[trace.kind[fault]]
        what = {"Level": level, "Class": class_, "Desc": desc}
        name = names[trace.server[fault]]
        rows.append({"node_id": name, "event_time": at_d, "event_type": kind, "fault_type": what})
    write_atomic(path, json.dumps(rows, indent=4) + "\n")


def _read(path: Path) -> list[Event]:
    tree = load_json(path, GIB)
    if not isinstance(tree, list) or not tree:
        raise UserError(f"{path}: expected an array of at least one event, {_SHAPE}")
    try:
        events = msgspec.convert(tree, list[Event])
    except msgspec.ValidationError as error:
        _fail_event(path, str(error), tree)
    for number, (a, b) in enumerate(zip(events, events[1:], strict=False), start=2):
        if b.event_time < a.event_time:
            said = f"event_time {b.event_time:g} is before that of event {number - 1}, {a.event_time:g}"
            raise UserError(f"{_place(path, number)}: {said}; expected rising times")
    return events


def _pair(path: Path, events: Sequence[Event]) -> tuple[list[_Fault], dict[str, int]]:
    """Faults in the order in which they began, and the number of each named server."""
    names: dict[str, int] = {}
    faults: list[_Fault] = []
    still: defaultdict[tuple[int, Kind], deque[_Fault]] = defaultdict(deque)
    for number, event in enumerate(events, start=1):
        server = names.setdefault(event.node_id, len(names))
        kind = Kind(event.fault_type.Level, event.fault_type.Class, event.fault_type.Desc)
        waiting = still[server, kind]
        if event.event_type == "fault_start":
            faults.append(_Fault(server, event.event_time, kind, number))
            waiting.append(faults[-1])
        elif waiting:
            waiting.popleft().end_d = event.event_time
        else:
            what = f"fault_end of node_id {short(event.node_id)!r}, {short(kind.class_)!r}"
            raise UserError(
                f"{_place(path, number)}: {what}: no such fault began before; expected a fault_start of the same "
                "node_id and fault_type"
            )
    return faults, names


def _open_note(path: Path, events: Sequence[Event], still: Sequence[_Fault], until_d: float) -> str:
    first = still[0]
    more = f", and {len(still) - 1} more," if len(still) > 1 else ""
    named = f"event {first.number}, node_id {short(events[first.number - 1].node_id)!r}"
    return f"{path}: {named}{more}: the fault never ends; taken as down until day {until_d:g}"


_WORDS = {"float": "a number", "str": "text", "object": "an object", "array": "an array", "null": "null", "int": "int"}
_SHAPE = "each with node_id, event_time [days], event_type and fault_type"


def _fail_event(path: Path, said: str, tree: list[Any]) -> NoReturn:
    """Raise msgspec's message with the event's number and line first."""
    match = re.fullmatch(r"(.*?)(?: - at `\$(?:\[(\d+)\])?(.*)`)?", said, re.DOTALL)
    assert match is not None
    text = re.sub(r"`(\w+)`", lambda word: _WORDS.get(word[1], repr(word[1])), match[1][0].lower() + match[1][1:])
    if text.startswith("invalid enum"):
        text = f"expected {' or '.join(EVENT_TYPES)}"
    number, key = int(match[2] or 0), match[3].strip(".")
    value = tree[number]
    for step in key.split(".") if key else ():
        value = value[step]
    got = f", got {short(json.dumps(value))}" if key and ", got " not in text and "missing" not in text else ""
    raise UserError(f"{_place(path, number + 1)}: {f'{key}: ' if key else ''}{text}{got}") from None


def _place(path: Path, number: int) -> str:
    """`FILE:LINE: event NUMBER`, both from 1."""
    try:
        text = read_text(path, GIB)
    except UserError:  # a pipe can be read once
        return f"{path}: event {number}"
    for count, at in enumerate(_starts(text), start=1):
        if count == number:
            return f"{path}:{text.count(chr(10), 0, at) + 1}: event {number}"
    return f"{path}: event {number}"


def _starts(text: str) -> Iterator[int]:
    """Where each item of the array `text` begins."""
    decoder, space = json.JSONDecoder(), re.compile(r"[\s,]*")
    at = text.index("[") + 1
    while at < len(text):
        match = space.match(text, at)
        at = match.end() if match else at
        if text[at] == "]":
            return
        yield at
        _, at = decoder.raw_decode(text, at)
