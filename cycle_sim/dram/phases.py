"""A stream again and again, each time with a refresh that falls due at another clock."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bind
from pimloom.cycle_sim.dram.kernels.stream import (
    CODE,
    DUE,
    ENDED,
    IDLE_AT,
    LAST_REFRESH,
    N_PHASE,
    OK,
    READY,
    REFRESHES,
    RUNNING,
    run_phase,
)
from pimloom.cycle_sim.dram.stream import Engine, Issue

MOST = 256  # streams that are ready to be run; some 20 KB each
REFRESHED = 64  # refreshes of a run, at most; with more it is left to the engine


class Phase(NamedTuple):
    """What a run came to; clocks in CK. ended: when the last command had its effect; the others as in `Issue`."""

    idle_ck: int
    ended_ck: int
    refreshes: int
    last_ck: int
    ready_ck: int


class Phases:
    """Streams of one engine, each of which runs alone, from the start."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._calls: dict[int, tuple[np.ndarray, np.ndarray, Callable[[], Any]]] = {}

    def run(self, stream: np.ndarray, due_ck: int, refreshed_ck: int) -> Phase:
        """As `Engine.issue` of the stream. Raises UserError."""
        key = id(stream)
        if key not in self._calls:
            if len(self._calls) == MOST:
                del self._calls[next(iter(self._calls))]
            self._calls[key] = stream, *self._ready(stream)
        _, phase, call = self._calls[key]
        phase[DUE], phase[RUNNING] = due_ck, refreshed_ck
        call()
        if phase[CODE] != OK:
            return phase_of(self._engine.issue([stream], due_ck=due_ck, refreshed_ck=refreshed_ck), refreshed_ck)
        return Phase(*phase[[IDLE_AT, ENDED, REFRESHES, LAST_REFRESH, READY]].tolist())

    def _ready(self, stream: np.ndarray) -> tuple[np.ndarray, Callable[[], Any]]:
        rules = self._engine.table.rules
        ends = np.array([0, len(stream)])
        work, start = (self._engine.walk(stream, ends, True) for _ in range(2))
        first, last = np.zeros((2, len(stream)), np.int64)
        log, who, ready = np.zeros((REFRESHED, 2), np.int64), np.zeros(3, np.int64), np.zeros(len(work.due), np.int64)
        phase = np.zeros(N_PHASE, np.int64)
        return phase, bind(
            run_phase, work, start, rules.refresh, rules.refi, rules.done, first, last, log, who, ready, phase
        )


def phase_of(found: Issue, refreshed_ck: int) -> Phase:
    """The same of a stream that the engine has issued."""
    n = len(found.refresh_ck)
    ended = max((int(end.max()) for end in found.end_ck if len(end)), default=0)
    last = int(found.refresh_ck[-1, 0]) if n else refreshed_ck
    return Phase(found.idle_ck, ended, n, last, int(found.ready_ck.max()) if len(found.ready_ck) else 0)
