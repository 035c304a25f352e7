"""A machine's steps as a Perfetto timeline: one track per bank, the command bus, the ASIC."""

from collections.abc import Iterable

import numpy as np

from pimloom.arch.command import Level
from pimloom.arch.part import Part
from pimloom.arch.program import AsicStep, PimStep
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.machine import Event as StepEvent
from pimloom.systems.timeline import Event, Track, trace_json

BUS, ASIC = Track("command bus", "PIM channel"), Track("ASIC", "ASIC")
STEPS = Track("instructions", "PIM channel")


def timeline(part: Part, steps: Iterable[StepEvent], window_ps: tuple[int, int], title: str) -> str:
    """Trace-event JSON of the steps, cut to the window.

    A command is drawn on the bus from its issue for one clock (a run with count for its whole length), and on its
    banks until its effect is over. All channels run in lock-step; one is drawn.
    """
    table, org = compile_table(part), part.organization
    banks = [
        Track(f"bank group {g} bank {b}", "banks") for g in range(org.bank_groups) for b in range(org.banks_per_group)
    ]
    events: list[Event] = []
    for step in steps:
        if isinstance(step.step, AsicStep):
            info = {"elements": step.step.elements}
            events.append(Event(ASIC, step.step.name, step.start_ps, step.end_ps - step.start_ps, info))
        else:
            events += _pim_events(table, part.tCK_ps, step, banks)
    low, high = window_ps
    inside = [e for e in events if e.start_ps < high and e.start_ps + e.duration_ps > low]
    other = {"title": title, "clock": f"{part.tCK_ps} ps", "window": f"{low} ps to {high} ps"}
    return trace_json([ASIC, STEPS, BUS, *banks], inside, other)


def _pim_events(table: Table, tCK_ps: int, step: StepEvent, banks: list[Track]) -> list[Event]:
    assert isinstance(step.step, PimStep) and step.issued is not None
    events = [Event(STEPS, step.step.name, step.start_ps, step.end_ps - step.start_ps, {})]
    done, refresh = table.rules.done, table.rules.refresh

    def draw(cmd: int, first_ck: int, last_ck: int, where: list[Track], info: dict[str, object]) -> None:
        name, start = table.names[cmd], step.start_ps + first_ck * tCK_ps
        run, lasts = (last_ck - first_ck) * tCK_ps, max(int(done[cmd]), 1) * tCK_ps
        events.append(Event(BUS, name, start, run + tCK_ps, info))
        events.extend(Event(track, name, start, run + lasts, info) for track in where)

    ends = step.issued.end_ck[0] - done[step.step.stream["cmd"]]
    for row, first, last in zip(step.step.stream, step.issued.issue_ck[0], ends, strict=True):
        draw(int(row["cmd"]), int(first), int(last), _banks(table, row, banks), _info(row))
    idle = [ck - step.start_ps // tCK_ps for ck in step.idle_refresh_ck]
    for ck in (*idle, *(int(ck) for ck, _ in step.issued.refresh_ck)):
        draw(refresh, ck, ck, banks, {})
    return events


def _banks(table: Table, row: np.void, banks: list[Track]) -> list[Track]:
    rules, cmd = table.rules, int(row["cmd"])
    if rules.needs[cmd] == 0 and rules.leaves[cmd] == 0:
        return []  # touches no bank
    if rules.scope[cmd] == Level.BANK:
        return [banks[int(row["bg"]) * int(rules.size[4] // rules.size[3]) + int(row["bank"])]]
    return banks


def _info(row: np.void) -> dict[str, object]:
    return {"row": int(row["row"]), "column": int(row["col"]), "count": int(row["count"])}
