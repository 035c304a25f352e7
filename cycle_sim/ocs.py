"""An optical-switch transceiver, exact in its control clock; it goes from event to event.

Each clock the module is live on one path, or in a switch: `blackout` clocks in which no path is closed, then `retrain`
clocks in which the new one is but carries no data. These are the rules:

- A request names an entry of the path table. One that the table has not is refused in its own clock.
- On a live module a request is judged in its clock. If its path has failed, the backup entry takes its place; if that
  one's path has failed too, it is refused. If the path is the live one it is served at once. Else a switch starts in
  the next clock; the request is served in the first clock in which the new path is live, or refused there if that
  path has failed meanwhile.
- During a switch the newest request is kept and the one kept before is refused. The kept one is judged in the first
  live clock after the switch, unless a newer one comes in that very clock, which refuses it.
- So every request is served or refused at most 2 (blackout + retrain) + 1 clocks after it came (`SwitchTable.bound`).
- A path has failed in a clock if it had no light in that one and the `detect` clocks before. When the live path has
  failed for `decide` clocks, a switch to the backup entry of the entry in use starts in the next clock, unless a
  request starts one in the same clock or the backup's path has failed; then it starts once that has light again.
- Nothing goes back by itself when a path is repaired.
- Data are taken in every live clock, and refused in the others; on a live path without light they are lost.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pimloom.arch.optics import SwitchTable

State: TypeAlias = Literal["live", "blackout", "retrain"]
Stage: TypeAlias = Literal["arrival", "kept", "switch"]
Why: TypeAlias = Literal["", "no such entry", "path failed", "superseded"]


class Request(NamedTuple):
    """Asks for an entry of the path table."""

    cycle: int
    entry: int


class Light(NamedTuple):
    """From this clock on a path has light, or none."""

    cycle: int
    path: int
    on: bool


class Burst(NamedTuple):
    """Data are offered in every clock from `cycle` to before `end_cyc`."""

    cycle: int
    end_cyc: int


class Fate(NamedTuple):
    """A request's end: the entry that was taken (None if refused), the clock, why it was refused ('' if served).

    stage: it ended in its own clock, when it had been kept, or at the end of the switch that was made for it.
    """

    request: Request
    taken: int | None
    end_cyc: int
    stage: Stage
    why: Why


class Interval(NamedTuple):
    """Clocks from `start_cyc` to before `end_cyc` in one state; `path`: live, or that which is switched to."""

    state: State
    path: int
    start_cyc: int
    end_cyc: int


class Failover(NamedTuple):
    """A switch without a request. dark_cyc: first clock without light; start_cyc: first of the switch; live_cyc: first
    on the backup entry's path."""

    left: int
    taken: int
    dark_cyc: int
    start_cyc: int
    live_cyc: int


class Outcome(NamedTuple):
    """What became of the requests, in their order; intervals from clock 0 to `end_cyc`, none of them empty; failovers;
    `dark`: (path, first clock, end) of each time without light."""

    fates: list[Fate]
    intervals: list[Interval]
    failovers: list[Failover]
    dark: list[tuple[int, int, int]]
    end_cyc: int


class Delivered(NamedTuple):
    """Clocks of a burst: data taken and passed on, lost on a path without light, refused during a switch."""

    passed_cyc: int
    lost_cyc: int
    refused_cyc: int


def simulate(table: SwitchTable, events: Sequence[Request | Light], until_cyc: int = 0) -> Outcome:
    """Follow events, in the order of their clocks, until all is settled and `until_cyc` is over.

    Raises ValueError for events out of order, two requests in a clock, or a path that turns twice in one.
    """
    _check(table, events)
    module, at = _Module(table), 0
    while (clock := module.next_clock(events[at].cycle if at < len(events) else None)) is not None:
        first = at
        while at < len(events) and events[at].cycle == clock:
            at += 1
        module.step(clock, events[first:at])
    return module.outcome(until_cyc)


def deliver(found: Outcome, burst: Burst) -> Delivered:
    """What became of a burst's data; the outcome must reach to its end."""
    if burst.end_cyc > found.end_cyc or not 0 <= burst.cycle <= burst.end_cyc:
        raise ValueError(f"expected a burst within clocks 0 to {found.end_cyc}, got {burst.cycle} to {burst.end_cyc}")
    live = lost = 0
    for state, path, start, end in found.intervals:
        if state == "live":
            span = max(start, burst.cycle), min(end, burst.end_cyc)
            live += max(0, span[1] - span[0])
            lost += sum(max(0, min(span[1], b) - max(span[0], a)) for p, a, b in found.dark if p == path)
    return Delivered(live - lost, lost, burst.end_cyc - burst.cycle - live)


class _Module:
    """The state after the latest clock that was looked at."""

    def __init__(self, table: SwitchTable) -> None:
        self.table = table
        self.entry, self.live_since, self.done_at = 0, 0, None  # type: int, int, int | None
        self.owner: int | None = None  # request for which the switch is made
        self.kept: int | None = None
        self.dark_since: list[int | None] = [None] * table.paths
        self.requests, self.fates = list[Request](), dict[int, Fate]()
        self.intervals, self.failovers = list[Interval](), list[Failover]()
        self.dark, self.clock = list[tuple[int, int, int]](), -1

    def next_clock(self, event: int | None) -> int | None:
        """The next clock in which something may happen."""
        times = [event, self.done_at]
        if self.done_at is None and (decided := self._decided()) is not None and decided > self.clock:
            times.append(decided)
        return min((time for time in times if time is not None), default=None)

    def step(self, clock: int, events: Iterable[Request | Light]) -> None:
        """One clock in which something happens."""
        self.clock, came = clock, None
        for event in events:
            if isinstance(event, Light):
                self._turn(event)
            else:
                came = self._take(event)
        if self.done_at == clock:
            self._complete()
        if came is not None:
            if self.kept is not None:
                self._end(self.kept, None, "kept", "superseded")
            self.kept = came
        if self.done_at is None and self.kept is not None:
            number, self.kept = self.kept, None
            self._judge(number, "kept" if came is None else "arrival")
        if self.done_at is None and (decided := self._decided()) is not None and clock >= decided:
            self._fail_over()

    def outcome(self, until_cyc: int) -> Outcome:
        """All that was seen, to `until_cyc` or to the latest clock of interest."""
        end = max(until_cyc, self.clock + 1, self.live_since + 1)
        last = Interval("live", self._path(self.entry), self.live_since, end)
        dark = [*self.dark, *((p, since, end) for p, since in enumerate(self.dark_since) if since is not None)]
        fates = [self.fates[n] for n in range(len(self.requests))]
        return Outcome(fates, [*self.intervals, last], self.failovers, dark, end)

    def _path(self, entry: int) -> int:
        return self.table.entries[entry][0]

    def _failed(self, path: int) -> bool:
        since = self.dark_since[path]
        return since is not None and self.clock >= since + self.table.detect

    def _turn(self, event: Light) -> None:
        since = self.dark_since[event.path]
        if event.on and since is not None:
            self.dark.append((event.path, since, event.cycle))
            self.dark_since[event.path] = None
        elif not event.on and since is None:
            self.dark_since[event.path] = event.cycle

    def _take(self, request: Request) -> int | None:
        """Number of the request; None if it is refused for its entry."""
        number = len(self.requests)
        self.requests.append(request)
        if request.entry < len(self.table.entries):
            return number
        self._end(number, None, "arrival", "no such entry")
        return None

    def _end(self, number: int, taken: int | None, stage: Stage, why: Why = "") -> None:
        self.fates[number] = Fate(self.requests[number], taken, self.clock, stage, why)

    def _judge(self, number: int, stage: Stage) -> None:
        entry = self.requests[number].entry
        if self._failed(self._path(entry)):
            entry = self.table.entries[entry][1]
        if self._failed(self._path(entry)):
            self._end(number, None, stage, "path failed")
        elif self._path(entry) == self._path(self.entry):
            self.entry = entry
            self._end(number, entry, stage)
        else:
            self.owner = number
            self._start(entry)

    def _start(self, entry: int) -> None:
        first, table = self.clock + 1, self.table
        dark_end, path = first + table.blackout, self._path(entry)
        self.done_at = dark_end + table.retrain
        self.intervals.append(Interval("live", self._path(self.entry), self.live_since, first))
        self.intervals.append(Interval("blackout", path, first, dark_end))
        if table.retrain:
            self.intervals.append(Interval("retrain", path, dark_end, self.done_at))
        self.entry, self.live_since = entry, self.done_at

    def _complete(self) -> None:
        self.done_at = None
        if self.owner is not None:
            bad = self._failed(self._path(self.entry))
            self._end(self.owner, None if bad else self.entry, "switch", "path failed" if bad else "")
            self.owner = None

    def _decided(self) -> int | None:
        """The clock from which on the live path is left, as things stand."""
        since = self.dark_since[self._path(self.entry)]
        if since is None:
            return None
        return max(self.live_since, since + self.table.detect) + self.table.decide - 1

    def _fail_over(self) -> None:
        left, taken = self.entry, self.table.entries[self.entry][1]
        since = self.dark_since[self._path(left)]
        if not self._failed(self._path(taken)):
            assert since is not None
            self._start(taken)
            assert self.done_at is not None
            self.failovers.append(Failover(left, taken, since, self.clock + 1, self.done_at))


def _check(table: SwitchTable, events: Sequence[Request | Light]) -> None:
    latest, turned, asked = 0, set[int](), False
    for event in events:
        if event.cycle < latest:
            raise ValueError(f"expected events in the order of their clocks, got {event.cycle} after {latest}")
        if event.cycle > latest:
            latest, asked = event.cycle, False
            turned.clear()
        if isinstance(event, Light):
            if not 0 <= event.path < table.paths or event.path in turned:
                raise ValueError(f"clock {latest}: path {event.path} is not there, or turns twice")
            turned.add(event.path)
        elif asked or event.entry < 0:
            raise ValueError(f"clock {latest}: two requests, or a negative entry")
        else:
            asked = True
