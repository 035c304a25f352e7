"""Scenes of the optical switch's path controller: cases on one netlist, clock by clock against `cycle_sim/ocs.py`."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.optics import SwitchTable
from pimloom.cycle_sim.ocs import Fate, Light, Outcome, Request, simulate
from pimloom.rtl.flow.scenes.scene import Scene, row_scene
from pimloom.rtl.ocs_switch import STAGES, TAG_BITS, end_layout, entries_layout, request_layout
from pimloom.rtl.ports import pack

TIMES = ("detect", "decide", "blackout", "retrain")
TAGS = 2**TAG_BITS
BITS = 6  # of the times that are ports
PATHS, ENTRIES, LONGEST = 3, 6, 12  # of a random table


class SwitchCase(NamedTuple):
    """A transceiver and what happens to it in its first `clocks` clocks; data: whether a word is offered in each."""

    table: SwitchTable
    events: list[Request | Light]
    clocks: int
    data: np.ndarray

    def outcome(self) -> Outcome:
        """What the cycle model makes of the case's events."""
        return simulate(self.table, self.events, self.clocks + 1)


def draw_switch_cases(requests: int, seed: int) -> list[SwitchCase]:
    """Random tables of one shape, each with busy stretches and quiet ones, until all have this many requests."""
    rng, found, left = Random(seed), [], requests
    while left > 0:
        entries = tuple((rng.randrange(PATHS), rng.randrange(ENTRIES)) for _ in range(ENTRIES))
        most = rng.choice([2, LONGEST])
        decide, blackout = (rng.randint(1, most) for _ in range(2))
        table = SwitchTable(rng.randint(0, most), decide, blackout, rng.randint(0, most), PATHS, entries)
        events, clock = list[Request | Light](), 0
        lit = [True] * PATHS
        asked = min(left, 50)
        left -= asked
        while asked:
            busy = clock // (6 * LONGEST) % 3
            for path in range(PATHS):
                if rng.random() < ((0.03, 0.03, 0.01) if lit[path] else (0.02, 0.1, 0.05))[busy]:
                    lit[path] = not lit[path]
                    events.append(Light(clock, path, lit[path]))
            if rng.random() < (0.03, 0.15, 0.6)[busy]:
                events.append(Request(clock, rng.randrange(ENTRIES + (rng.random() < 0.2))))
                asked -= 1
            clock += 1
        found.append(_case(rng, table, events))
    return found


def own_switch_case(table: SwitchTable, seed: int) -> SwitchCase:
    """The table's own times at full length: two requests, of which one is kept, and the live path without light, first
    too short for a failover, then for longer than it takes."""
    rng, step = Random(seed), table.switch
    others = [n for n, (path, _) in enumerate(table.entries) if path != table.entries[0][0]]
    if not others:
        raise UserError("all entries of the path table have one path: there is no switch to verify")
    first, second = others[0], others[-1] if len(others) == 1 else others[1]
    path, asked = table.entries[second][0], rng.randrange(step)
    dark = asked + 2 * (step + 1) + table.detect + rng.randrange(step)
    events: list[Request | Light] = [Request(asked, first), Request(asked + 1 + rng.randrange(step), second)]
    if (longest := table.detect + table.decide - 1) > 0:
        events += [Light(dark, path, False), Light(dark + rng.randint(1, longest), path, True)]
    return _case(rng, table, [*events, Light(dark + longest + 1, path, False)])


def decides(cases: Sequence[SwitchCase], time: str) -> int | None:
    """Number of the first case that one clock more in a time would change."""
    for number, case in enumerate(cases):
        table = case.table._replace(**{time: getattr(case.table, time) + 1})
        if case._replace(table=table).outcome() != case.outcome():
            return number
    return None


def _case(rng: Random, table: SwitchTable, events: list[Request | Light]) -> SwitchCase:
    clocks = simulate(table, events).end_cyc + 4
    return SwitchCase(table, events, clocks, np.array([rng.random() < 0.7 for _ in range(clocks)]))


def switch_scene(cases: Sequence[SwitchCase], ports: bool) -> Scene:
    """All cases on one netlist, each after a clock of reset. ports: times and entries are ports, not constants."""
    shape = cases[0].table
    rows = [_inputs(case, ports) for case in cases]
    inputs = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    seen = [_outputs(case) for case in cases]
    expected = {name: np.concatenate([out[name] for out in seen]) for name in seen[0]}
    firsts = np.cumsum([0, *(case.clocks + 1 for case in cases)])
    assert all((c.table.paths, len(c.table.entries)) == (shape.paths, len(shape.entries)) for c in cases)

    def place(port: str, i: int) -> str:
        case = int(np.searchsorted(firsts, i, "right")) - 1
        return f"{port} of case {case} in clock {i - firsts[case]}"

    requests = sum(isinstance(event, Request) for case in cases for event in case.events)
    return row_scene(inputs, expected, 1, place, requests)


def _inputs(case: SwitchCase, ports: bool) -> dict[str, np.ndarray]:
    """Ports by clock; the first row is the reset."""
    table, n = case.table, case.clocks + 1
    asked = np.zeros(n, [("valid", np.int64), ("entry", np.int64), ("tag", np.int64)])
    light = np.full((n, table.paths), True)
    number = 0
    for event in case.events:
        if isinstance(event, Light):
            light[event.cycle + 1 :, event.path] = event.on
        else:
            asked[event.cycle + 1] = (1, event.entry, number % TAGS)
            number += 1
    found = {
        "rst": np.arange(n) == 0,
        "request": pack(request_layout(table), asked).astype(np.uint32),
        "light": (light << np.arange(table.paths)).sum(axis=1).astype(np.uint32),
        "data": np.append(False, case.data),
    }
    if ports:
        found |= {name: np.full(n, getattr(table, name), np.uint32) for name in TIMES}
        rows = [{"path": path, "backup": backup} for path, backup in table.entries]
        found["entries"] = np.full(n, entries_layout(table).const(rows).as_value().value, np.uint64)
    return found


def _outputs(case: SwitchCase) -> dict[str, np.ndarray]:
    """What stands at the outputs after each clock: states of the next one, and what happened in this one."""
    found, n = case.outcome(), case.clocks
    live, closed = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for state, path, start, end in found.intervals:
        live[start:end] = (state == "live") << path
        closed[start:end] = (state != "blackout") << path
    sent = np.append(0, live[:-1] * case.data)
    return {"live": live, "closed": closed, "sent": sent, "ends": _ends(found.fates, n)}


def _ends(fates: Sequence[Fate], clocks: int) -> np.ndarray:
    """The three ends of each clock as one number; none in the reset."""
    width = end_layout().size
    ends = np.zeros(clocks + 1, np.int64)
    for number, fate in enumerate(fates):
        bits = 1 | (not fate.why) << 1 | number % TAGS << 2
        ends[fate.end_cyc + 1] |= bits << width * STAGES.index(fate.stage)
    assert len(STAGES) * width < 63
    return ends
