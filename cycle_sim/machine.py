"""PIM-GPT's instruction-level state machine: the next step starts when the ASIC and all PIM channels are idle.

PIM is idle when every command has ended and no timing rule waits any more, so each PIM step starts from the same
state but for refresh: when the next one falls due, and whether one is still running. Its timing is therefore looked up
by (step key, due, running) and simulated by the engine once for each; nothing is approximated. The machine jumps from
step to step; `tests/test_machine.py` ticks it clock by clock, and runs whole programs through the engine in one go.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from pimloom.arch.command import POSTPONED_MAX, REFRESH_SOONER
from pimloom.arch.error import UserError
from pimloom.arch.program import AsicStep, PimStep, Step
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.advance import (
    CODE,
    COUNT,
    DUE,
    END,
    LONGEST_PS,
    N_STATE,
    READY,
    REFRESHED,
    REFRESHES,
    STEPS,
    TOO_LATE,
    TOO_LONG,
    TOTAL,
    UNKNOWN,
    WANT_DUE,
    WANT_RUNNING,
    advance,
    refresh_until,
)
from pimloom.cycle_sim.compiled.kernel import bind
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.dram.phases import Phase, phase_of
from pimloom.cycle_sim.dram.stream import Issue
from pimloom.cycle_sim.run_table import RunTable
from pimloom.cycle_sim.runs import Known, Stream, Watch

NOWHERE = np.zeros(0, np.int64)
SEEN_MOST = 4096  # steps that are remembered by identity
TOO_LONG_SAID = "the run lasts longer than 26 days; a value of the system is out of range"


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
    without refresh. `executions` counts each PIM step by key; `steps` holds one PimStep for each key. `sent_values`,
    `received_values` by step name."""

    end_ps: int = 0
    refreshes: int = 0
    time_ps: Counter[str] = field(default_factory=Counter)
    quiet_ps: Counter[str] = field(default_factory=Counter)
    executions: Counter[Hashable] = field(default_factory=Counter)
    steps: dict[Hashable, PimStep] = field(default_factory=dict)
    asic_steps: Counter[str] = field(default_factory=Counter)
    sent_values: Counter[str] = field(default_factory=Counter)
    received_values: Counter[str] = field(default_factory=Counter)
    engine_calls: int = 0


@dataclass
class _Seen:
    """A step, the row of it that the kernel takes, and executions that are not in the sums yet."""

    step: Step
    row: tuple[int, int, int, int]
    times: int = 0


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
        watch: Watch | None = None,
        known: Known | None = None,
    ) -> None:
        self._watch, self._known = watch, known or Known()
        self._engine, self._phases = self._known.engine(table), self._known.phases(table)
        self.table, self.tCK_ps, self.clock_ps, self.latency_cyc = table, tCK_ps, clock_ps, latency_cyc
        self.refresh = refresh and table.rules.refresh >= 0
        again = _refresh_to_refresh(table) if self.refresh else 0
        on = (table.rules.refi, again, 1, POSTPONED_MAX) if self.refresh else (0, 0, 0, 0)
        self._fixed = np.array([tCK_ps, clock_ps, *on], np.int64)
        self._state = np.zeros(N_STATE, np.int64)
        self._state[[DUE, REFRESHED]] = table.rules.refi if self.refresh else FAR, -FAR
        self._outcome = Outcome()
        self._slots: dict[str, int] = {}
        self._time_ps, self._quiet_ps = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self._entries: dict[Hashable, tuple[int, bytes, Stream]] = {}
        self._table, self._rows = RunTable(), np.zeros((64, 4), np.int64)
        self._seen, self._uncounted = dict[int, _Seen](), list[_Seen]()  # by identity: most steps come again and again
        self._bound: tuple[list[np.ndarray], Callable[[], None]] = [], lambda: None

    @property
    def outcome(self) -> Outcome:
        """Sums over the steps so far."""
        self._count()
        out = self._outcome
        out.end_ps, out.refreshes = int(self._state[END]), int(self._state[REFRESHES])
        out.time_ps = Counter(dict(zip(self._slots, self._time_ps.tolist(), strict=False)))
        out.quiet_ps = Counter(dict(zip(self._slots, self._quiet_ps.tolist(), strict=False)))
        return out

    @property
    def end_ps(self) -> int:
        """When the last step so far ends."""
        return int(self._state[END])

    @property
    def refreshes(self) -> int:
        """Refreshes of a channel so far."""
        return int(self._state[REFRESHES])

    def run(
        self, steps: Sequence[Step], trace: Trace | None = None, *, times: int = 1, ends_ps: np.ndarray = NOWHERE
    ) -> None:
        """Run steps in order, all of them `times` times; appends an Event for each to `trace`. ends_ps: takes the end
        of each, int64, if it has room; they follow one another without gaps."""
        if trace is None:
            self._advance(steps, times, ends_ps)
            return
        for step in [*steps] * times:
            self._traced(step, trace)

    def finish(self) -> None:
        """Issue the refreshes that fall due behind the last PIM step, before the last step ends."""
        refresh_until(int(self._state[END]) // self.tCK_ps, self._fixed, self._state)
        self._raise_if_over()

    def _advance(self, steps: Sequence[Step], times: int, ends_ps: np.ndarray = NOWHERE) -> None:
        if not steps:
            return
        if len(self._seen) > SEEN_MOST:
            self._count()
            self._seen.clear()
        n, state = len(steps), self._state
        if n > len(self._rows):
            self._rows = np.zeros((2 * n, 4), np.int64)
        self._rows[:n] = [self._row(step, times) for step in steps]
        state[STEPS], state[TOTAL], state[COUNT] = 0, n * times, n
        while state[STEPS] < state[TOTAL]:
            self._kernel(ends_ps)()
            if state[CODE] == UNKNOWN:
                self._find_out(steps[state[STEPS] % n])
            self._raise_if_over()

    def _kernel(self, ends_ps: np.ndarray) -> Callable[[], None]:
        """The kernel on the arrays as they are now."""
        arrays = [self._rows, *self._table.arrays, self._fixed, self._state, self._time_ps, self._quiet_ps, ends_ps]
        if len(self._bound[0]) != len(arrays) or any(a is not b for a, b in zip(arrays, self._bound[0], strict=True)):
            self._bound = arrays, bind(advance, *arrays)
        return self._bound[1]

    def _row(self, step: Step, times: int) -> tuple[int, int, int, int]:
        """A step as the kernel takes it."""
        seen = self._seen.get(id(step))
        if seen is None:
            seen = self._seen[id(step)] = _Seen(step, self._new_row(step))
        if times and not seen.times:
            self._uncounted.append(seen)
        seen.times += times
        return seen.row

    def _new_row(self, step: Step) -> tuple[int, int, int, int]:
        slot = self._slots.setdefault(step.name, len(self._slots))
        if slot == len(self._time_ps):
            self._time_ps, self._quiet_ps = np.append(self._time_ps, [0] * slot), np.append(self._quiet_ps, [0] * slot)
        if isinstance(step, AsicStep):
            duration = self.latency_cyc(step) * self.clock_ps
            if duration > LONGEST_PS:
                raise UserError(TOO_LONG_SAID)
            return 0, 0, slot, duration
        if step.key not in self._entries:
            self._outcome.steps[step.key] = step
            key, stream = self._known.stream(self.table, step.stream, self._engine, self._watch)
            self._entries[step.key] = self._table.add(stream), key, stream
        return 1, self._entries[step.key][0], slot, 0

    def _count(self) -> None:
        """Add up what does not depend on time."""
        out = self._outcome
        for seen in self._uncounted:
            step, times, seen.times = seen.step, seen.times, 0
            if isinstance(step, AsicStep):
                out.asic_steps[step.name] += times
            else:
                out.executions[step.key] += times
                out.sent_values[step.name] += step.sent_values * times
                out.received_values[step.name] += step.received_values * times
        self._uncounted.clear()

    def _find_out(self, step: Step) -> None:
        """Let the engine find the run at which the kernel stopped."""
        assert isinstance(step, PimStep)
        entry, key, stream = self._entries[step.key]
        due, running = int(self._state[WANT_DUE]), int(self._state[WANT_RUNNING])
        if stream.find(due, running) is None:  # else another machine has found it meanwhile
            new = stream.compute(partial(self._phase, step.stream), due, running)
            self._outcome.engine_calls += len(new)
            self._known.new += [(key, run) for run in new]
        self._table.renew(entry)

    def _phase(self, stream: np.ndarray, due: int, running: int) -> Phase:
        """A run of the engine, which is shown to who watches."""
        if self._watch:
            found = self._engine.issue([stream], due_ck=due, refreshed_ck=running)
            self._watch(stream, found, due, running)
            return phase_of(found, running)
        return self._phases.run(stream, due, running)

    def _traced(self, step: Step, trace: Trace) -> None:
        """One step, with all that its event tells."""
        state, edge, idle_refresh = self._state, self.clock_ps, tuple[int, ...]()
        if isinstance(step, PimStep):
            edge = self.tCK_ps
            idle_refresh = self._refresh_until(ceil_div(int(state[END]), edge))
        start = ceil_div(int(state[END]), edge)
        due, running = int(state[DUE]) - start, int(state[REFRESHED]) - start
        self._advance([step], 1)
        found = None
        if isinstance(step, PimStep):
            found = self._engine.issue(
                [step.stream], refresh=self.refresh, due_ck=due, refreshed_ck=max(running, -int(FAR))
            )
        trace.append(Event(step, start * edge, int(state[END]), found, idle_refresh))

    def _refresh_until(self, start: int) -> tuple[int, ...]:
        """Issue the refreshes that fall due while PIM is idle, up to and in clock `start`; returns their clocks."""
        done: list[int] = []
        while self.refresh and (at := int(max(self._state[DUE], self._state[READY]))) <= start:
            done.append(at)
            refresh_until(at, self._fixed, self._state)
            self._raise_if_over()
        return tuple(done)

    def _raise_if_over(self) -> None:
        """Raise UserError if the kernel stopped for good."""
        if self._state[CODE] == TOO_LATE:
            at = int(self._state[WANT_DUE])
            said = f"REFab at CK {at} comes too late: {POSTPONED_MAX} refreshes are postponed already"
            raise UserError(f"{said}; {REFRESH_SOONER}")
        if self._state[CODE] == TOO_LONG:
            raise UserError(TOO_LONG_SAID)


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
