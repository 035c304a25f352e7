"""What happens to an optical-switch transceiver: a YAML file of events, in clocks of the part that they happen to.

`examples/ocs_events.yaml` shows every kind.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.load import Source, load_sheet, read_sheet
from pimloom.arch.optics import Optics
from pimloom.arch.units import MIB, Time

KINDS = ("request", "fail", "repair", "data")


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event; just one of the last four is there."""

    at: Time
    request: str | None = None
    fail: str | None = None
    repair: str | None = None
    data: Time | None = None


class EventFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events in the order of their times."""

    events: Annotated[list[Event], msgspec.Meta(min_length=1)]
    until: Time = Time()


class Happens(NamedTuple):
    """An event in clocks: `number` of the entry (request) or the path (fail, repair), or of clocks (data)."""

    cycle: int
    kind: str
    number: int


class Story(NamedTuple):
    """All events of a file, in order, and the clock until which to go on at least."""

    events: list[Happens]
    until_cyc: int


def load_events(path: Path, part: Optics) -> Story:
    """Read and check a file of events. A time falls into the first clock that begins at it or later.

    Raises UserError: an entry or path that the part has not, times out of order, two requests in one clock of the part,
    a path that fails and is repaired in one, data while other data last.
    """
    loaded = load_sheet(read_sheet(path, MIB), EventFile)
    reader = _Reader(part, loaded.sources)
    events = [reader.read(number, event) for number, event in enumerate(loaded.value.events)]
    until = loaded.value.until
    if until != Time() and until.ps < reader.latest_ps:
        reader.refuse("until", "expected a time that is not before the last event")
    return Story(events, reader.clocks(until, "until"))


class _Reader:
    """Knows what came before an event."""

    def __init__(self, part: Optics, sources: Mapping[str, Source]) -> None:
        self.part, self.sources = part, sources
        self.latest_ps = self.busy_until = 0
        self.taken = set[tuple[int, str]]()  # what may come once in a clock

    def read(self, number: int, event: Event) -> Happens:
        place = f"events[{number}]"
        kinds = [kind for kind in KINDS if getattr(event, kind) is not None]
        if len(kinds) != 1:
            self.refuse(place, f"expected one of {', '.join(KINDS)}, got {' and '.join(kinds) or 'none'}")
        (kind,) = kinds
        cycle = self.clocks(event.at, f"{place}.at")
        if event.at.ps < self.latest_ps:
            self.refuse(f"{place}.at", f"expected times in order, got {event.at.ps} ps after {self.latest_ps} ps")
        self.latest_ps = event.at.ps
        value = getattr(event, kind)
        if kind == "data":
            return self._data(place, cycle, value)
        known = list(self.part.table) if kind == "request" else self.part.paths
        if value not in known:
            what = "entry of the path table" if kind == "request" else "path"
            self.refuse(f"{place}.{kind}", f"no {what} {value!r}{nearest(value, known)}; known: {', '.join(known)}")
        self._once(place, cycle, "a request" if kind == "request" else f"path {value}")
        return Happens(cycle, kind, known.index(value))

    def clocks(self, time: Time, place: str) -> int:
        if time.ck:
            self.refuse(place, f"expected a time such as 80 us, got {time.ck} nCK")
        return time.cycles(self.part.clock_ps)

    def _data(self, place: str, cycle: int, lasts: Time) -> Happens:
        if cycle < self.busy_until:
            busy = self.busy_until * self.part.clock_ps
            self.refuse(f"{place}.data", f"expected no data before those that came earlier end, at {busy} ps")
        found = Happens(cycle, "data", self.clocks(lasts, f"{place}.data"))
        self.busy_until = cycle + found.number
        return found

    def _once(self, place: str, cycle: int, what: str) -> None:
        if (cycle, what) in self.taken:
            at = f"clock {cycle} of {self.part.clock_ps} ps"
            self.refuse(place, f"{what} comes twice in {at}; expected one event of a kind in a clock")
        self.taken.add((cycle, what))

    def refuse(self, place: str, said: str) -> None:
        source = self.sources[place]
        raise UserError(f"{source.file}:{source.line}: at $.{place}: {said}")
