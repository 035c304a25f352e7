"""An optical-switch transceiver through a file of events: every request's fate, where data went, and the timeline."""

from typing import Any, NamedTuple

import msgspec

from pimloom.arch.digest import digest
from pimloom.arch.optics import Optics, switch_table
from pimloom.arch.optics_events import Story
from pimloom.arch.units import BITS_PER_BYTE, PS_PER_NS, PS_PER_US
from pimloom.arch.version import __version__
from pimloom.cycle_sim.ocs import Burst, Delivered, Light, Outcome, Request, deliver, simulate
from pimloom.systems.timeline import Event, Track, trace_json

STATE, DATA, FAILOVER = Track("state", "module"), Track("data", "module"), Track("failovers", "module")
COLUMNS = (  # of a request
    "request", "cycle", "at_us", "entry", "outcome", "taken", "path", "why", "stage", "end_cycle", "end_us", "wait_us"
)  # fmt: skip
Rows = list[dict[str, Any]]
LIVE_SHARE_DIGITS = 6


class SwitchRun(NamedTuple):
    """A part, what happened to it, and what the model says."""

    part: Optics
    found: Outcome
    bursts: list[tuple[Burst, Delivered]]

    def us(self, cycles: int) -> float:
        """Clocks as microseconds."""
        return cycles * self.part.clock_ps / PS_PER_US

    def entry(self, number: int | None) -> str | None:
        """Name of an entry."""
        return None if number is None else list(self.part.table)[number]


def run_switch(part: Optics, story: Story) -> SwitchRun:
    """Follow the events to their end, and at least until the last data and `until` are over."""
    events: list[Request | Light] = []
    bursts = [Burst(e.cycle, e.cycle + e.number) for e in story.events if e.kind == "data"]
    for cycle, kind, number in story.events:
        if kind == "request":
            events.append(Request(cycle, number))
        elif kind != "data":
            events.append(Light(cycle, number, kind == "repair"))
    until = max(story.until_cyc, *(burst.end_cyc for burst in bursts), 0)
    found = simulate(switch_table(part), events, until)
    return SwitchRun(part, found, [(burst, deliver(found, burst)) for burst in bursts])


def switch_values(name: str, run: SwitchRun, story: Story) -> dict[str, Any]:
    """All of it; fields as in docs/fabric.md. name: of the part."""
    part, table, intervals = run.part, switch_table(run.part), interval_rows(run)
    live = sum(row["end_cycle"] - row["start_cycle"] for row in intervals if row["state"] == "live")
    return {
        "part": name,
        "clock_ps": part.clock_ps,
        "times_cycles": {name: getattr(table, name) for name in ("detect", "decide", "blackout", "retrain")},
        "bound_cycles": table.bound,
        "rows": request_rows(run),
        "intervals": intervals,
        "failovers": failover_rows(run),
        "bursts": burst_rows(run),
        "end_us": run.us(run.found.end_cyc),
        "live_share": round(live / run.found.end_cyc, LIVE_SHARE_DIGITS),
        "spec_digest": digest(msgspec.structs.replace(part, description=""), story),
        "version": __version__,
    }


def request_rows(run: SwitchRun) -> Rows:
    """A row for each request: when it came, how it ended."""
    rows = []
    for number, fate in enumerate(run.found.fates):
        at, end, taken = fate.request.cycle, fate.end_cyc, run.entry(fate.taken)
        path = run.part.table[taken].path if taken else None
        outcome = "refused" if fate.why else "served"
        cells: list[Any] = [
            number,
            at,
            run.us(at),
            run.entry(fate.request.entry),
            outcome,
            taken,
            path,
            fate.why or None,
        ]
        cells += [fate.stage, end, run.us(end), run.us(end - at)]
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def interval_rows(run: SwitchRun) -> Rows:
    """A row for each stretch of time in one state."""
    return [
        {
            "state": state,
            "path": run.part.paths[path],
            "start_cycle": start,
            "end_cycle": end,
            "start_us": run.us(start),
            "duration_us": run.us(end - start),
        }
        for state, path, start, end in run.found.intervals
    ]


def failover_rows(run: SwitchRun) -> Rows:
    """A row for each failover; work goes on when the software has made its communicator again."""
    rebuild_us = run.part.timing.rebuild.ps / PS_PER_US
    return [
        {
            "left": run.entry(left),
            "taken": run.entry(taken),
            "dark_us": run.us(dark),
            "start_us": run.us(start),
            "live_us": run.us(live),
            "down_us": run.us(live - dark),
            "work_again_us": run.us(live) + rebuild_us,
        }
        for left, taken, dark, start, live in run.found.failovers
    ]


def burst_rows(run: SwitchRun) -> Rows:
    """A row for each burst of data: for how long they were passed on, lost and refused, and how many bytes that is."""
    bytes_per_us = run.part.gbps * PS_PER_US / PS_PER_NS / BITS_PER_BYTE
    rows = []
    for burst, found in run.bursts:
        row: dict[str, Any] = {"at_us": run.us(burst.cycle), "end_us": run.us(burst.end_cyc)}
        for name, cycles in zip(("passed", "lost", "refused"), found, strict=True):
            row |= {f"{name}_us": run.us(cycles), f"{name}_bytes": run.us(cycles) * bytes_per_us}
        rows.append(row)
    return rows


def switch_timeline(run: SwitchRun, title: str) -> str:
    """Trace-event JSON: the module's state, each path, light, data, failovers, and each request from first to last."""
    ps, part = run.part.clock_ps, run.part
    lanes, requests = _lanes(run)
    paths = [Track(path, "paths") for path in part.paths]
    dark = [Track(path, "no light") for path in part.paths]
    events = [_event(STATE, i.state, i.start_cyc, i.end_cyc, ps, path=part.paths[i.path]) for i in run.found.intervals]
    events += [
        _event(paths[i.path], i.state, i.start_cyc, i.end_cyc, ps) for i in run.found.intervals if i.state != "blackout"
    ]
    events += [_event(dark[path], "dark", start, end, ps) for path, start, end in run.found.dark]
    for left, taken, since, start, live in run.found.failovers:
        name = f"{run.entry(left)} to {run.entry(taken)}"
        events.append(_event(FAILOVER, name, since, live, ps, started_us=run.us(start)))
    for burst, found in run.bursts:
        events.append(_event(DATA, "data", burst.cycle, burst.end_cyc, ps, **found._asdict()))
    other = {"title": title, "clock": f"{ps} ps"}
    return trace_json([STATE, *paths, *dark, DATA, FAILOVER, *lanes], [*events, *requests], other)


def _lanes(run: SwitchRun) -> tuple[list[Track], list[Event]]:
    """Requests that wait at the same time stand on different tracks; one that ends at once lasts a clock."""
    free, events = list[int](), list[Event]()
    for row in request_rows(run):
        start, end = row["cycle"], row["end_cycle"] + 1
        lane = next((lane for lane, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        name = f"{row['entry']}: {row['outcome']}"
        facts = {"why": row["why"] or "", "taken": row["taken"] or ""}
        events.append(_event(_lane(lane), name, start, end, run.part.clock_ps, **facts))
    return [_lane(lane) for lane in range(len(free))], events


def _lane(number: int) -> Track:
    return Track(f"requests {number + 1}", "requests")


def _event(track: Track, name: str, start: int, end: int, clock_ps: int, **facts: object) -> Event:
    return Event(track, name, start * clock_ps, (end - start) * clock_ps, facts)
