"""PIM-GPT's instruction-level state machine: the next step starts when the ASIC and all PIM channels are idle.

PIM is idle when every command has ended and no timing rule waits any more, so each PIM step starts from the same
state but for refresh: when the next one falls due, and whether one is still running. Its timing is therefore looked up
by (step key, due, running) and simulated by the engine once for each; nothing is approximated. The machine jumps from
step to step; `tests/test_machine.py` ticks it clock by clock, and runs whole programs through the engine in one go.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from pimloom.arch.command import POSTPONED_MAX
from pimloom.arch.error import UserError
from pimloom.arch.program import AsicStep, PimStep, Step
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.dram import Engine, Issue
from pimloom.cycle_sim.kernel import FAR


class Run(NamedTuple):
    """One PIM step as it ran; clocks in CK from its start. ready, refreshed: as the next step finds them."""

    idle_ck: int
    ready_ck: int
    refreshed_ck: int
    refreshes: int


class Trace(Protocol):
    """What takes the events of a trace: a list, or something choosier."""

    def append(self, event: "Event", /) -> None:
        """Take one event."""


class Event(NamedTuple):
    """One step in a trace. `issued` is for PIM steps; idle_refresh_ck: clocks of REFab since the PIM step before."""

    step: Step
    start_ps: int
    end_ps: int
    issued: Issue | None
    idle_refresh_ck: tuple[int, ...]


@dataclass
class Outcome:
    """Sums over a program. Times in ps. `time_ps` by step name, waiting for clock edges included; `quiet_ps` the same
    without refresh. `executions` counts each PIM step by key; `steps` holds one PimStep for each key."""

    end_ps: int = 0
    refreshes: int = 0
    time_ps: Counter[str] = field(default_factory=Counter)
    quiet_ps: Counter[str] = field(default_factory=Counter)
    executions: Counter[Hashable] = field(default_factory=Counter)
    steps: dict[Hashable, PimStep] = field(default_factory=dict)
    asic_steps: Counter[str] = field(default_factory=Counter)
    sent_values: int = 0
    received_values: int = 0
    engine_calls: int = 0


class Machine:
    """Runs steps one after the other from time 0; `outcome` holds the sums so far, `trace` the steps if asked for.

    Channels run in lock-step, so one is simulated; a step with `one_channel` leaves the others idle meanwhile.
    `watch(stream, issue, due_ck, refreshed_ck)` sees each distinct run of the engine once.
    """

    def __init__(
        self,
        table: Table,
        tCK_ps: int,
        clock_ps: int,
        latency_cyc: Callable[[AsicStep], int],
        *,
        refresh: bool = True,
        watch: Callable[[np.ndarray, Issue, int, int], None] | None = None,
    ) -> None:
        self._watch, self._engine = watch, Engine(table)
        self.table, self.tCK_ps, self.clock_ps, self.latency_cyc = table, tCK_ps, clock_ps, latency_cyc
        self.refresh = refresh and table.rules.refresh >= 0
        self.outcome = Outcome()
        self._due = table.rules.refi if self.refresh else int(FAR)
        self._ready, self._refreshed = 0, -int(FAR)
        self._again = _refresh_to_refresh(table) if self.refresh else 0
        self._quiet: dict[Hashable, tuple[int, int]] = {}
        self._runs: dict[tuple[Hashable, int, int], Run] = {}

    def run(self, steps: Iterable[Step], trace: Trace | None = None) -> None:
        """Run steps in order; appends an Event for each to `trace`."""
        for step in steps:
            if isinstance(step, AsicStep):
                self._run_asic(step, trace)
            else:
                self._run_pim(step, trace)

    def finish(self) -> None:
        """Issue the refreshes that fall due behind the last PIM step, before the last step ends."""
        self._refresh_until(self.outcome.end_ps // self.tCK_ps)

    def _run_asic(self, step: AsicStep, trace: Trace | None) -> None:
        out, duration = self.outcome, self.latency_cyc(step) * self.clock_ps
        start = ceil_div(out.end_ps, self.clock_ps) * self.clock_ps
        out.time_ps[step.name] += start + duration - out.end_ps
        out.quiet_ps[step.name] += duration
        out.asic_steps[step.name] += 1
        out.end_ps = start + duration
        if trace is not None:
            trace.append(Event(step, start, out.end_ps, None, ()))

    def _run_pim(self, step: PimStep, trace: Trace | None) -> None:
        out = self.outcome
        start = ceil_div(out.end_ps, self.tCK_ps)
        idle_refresh = self._refresh_until(start)
        if step.key not in out.steps:
            out.steps[step.key] = step
            quiet = self._engine.issue([step.stream], refresh=False)
            if self._watch:
                self._watch(step.stream, quiet, int(FAR), -int(FAR))
            last = max((int(e.max()) for e in quiet.end_ck if len(e)), default=0)
            self._quiet[step.key] = (quiet.idle_ck, max(last, quiet.idle_ck))
        quiet_ck, settled = self._quiet[step.key]
        due, running = self._due - start, self._refreshed - start
        rest = max(running + self._again, 0)  # clocks that an earlier REFab may still hold the step up
        if due > settled and not rest:
            idle = quiet_ck
            self._ready = max(self._ready, start + idle)
        else:
            run = self._look_up(step, min(due, settled + rest + 1), running if rest else -int(FAR))
            idle = run.idle_ck
            if run.refreshes:
                self._due += run.refreshes * self.table.rules.refi
                self._refreshed = start + run.refreshed_ck
                out.refreshes += run.refreshes
            self._ready = start + run.ready_ck
        end = (start + idle) * self.tCK_ps
        out.time_ps[step.name] += end - out.end_ps
        out.quiet_ps[step.name] += quiet_ck * self.tCK_ps
        out.executions[step.key] += 1
        out.sent_values += step.sent_values
        out.received_values += step.received_values
        if trace is not None:
            found = self._engine.issue(
                [step.stream], refresh=self.refresh, due_ck=due, refreshed_ck=max(running, -int(FAR))
            )
            trace.append(Event(step, start * self.tCK_ps, end, found, idle_refresh))
        out.end_ps = end

    def _refresh_until(self, start: int) -> tuple[int, ...]:
        """Issue the refreshes that fall due while PIM is idle, up to and in clock `start`; returns their clocks."""
        done = []
        while self.refresh and (at := max(self._due, self._ready)) <= start:
            if at >= self._due + POSTPONED_MAX * self.table.rules.refi:
                raise UserError(f"REFab at CK {at} comes too late: {POSTPONED_MAX} refreshes are postponed already")
            done.append(at)
            self._due += self.table.rules.refi
            self._refreshed, self._ready = at, at + self._again
        self.outcome.refreshes += len(done)
        return tuple(done)

    def _look_up(self, step: PimStep, due: int, running: int) -> Run:
        key = (step.key, due, running)
        if key not in self._runs:
            found = self._engine.issue([step.stream], refresh=self.refresh, due_ck=due, refreshed_ck=running)
            self.outcome.engine_calls += 1
            if self._watch:
                self._watch(step.stream, found, due, running)
            n = len(found.refresh_ck)
            last = int(found.refresh_ck[-1, 0]) if n else running
            ready = int(found.ready_ck.max()) if len(found.ready_ck) else 0
            self._runs[key] = Run(found.idle_ck, ready, last, n)
        return self._runs[key]


def _refresh_to_refresh(table: Table) -> int:
    """Clocks from REFab to the next, the longest that REFab makes anything wait."""
    rules = table.rules
    armed = rules.after_rule[rules.after_ptr[rules.refresh] : rules.after_ptr[rules.refresh + 1]]
    return int(max(rules.wait[armed].max(initial=1), rules.done[rules.refresh]))


def command_counts(table: Table, steps: Sequence[PimStep], times: Sequence[int], channels: int) -> Counter[str]:
    """Commands of all channels by name, without refresh: each stream's counts × how often it ran × its channels."""
    total: Counter[str] = Counter()
    for step, n in zip(steps, times, strict=True):
        counts = np.bincount(step.stream["cmd"], step.stream["count"], len(table.names))
        for name, count in zip(table.names, counts, strict=True):
            if count:
                total[name] += int(count) * n * (1 if step.one_channel else channels)
    return total
