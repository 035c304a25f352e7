"""How many cores a simulation may use, and whether anybody still waits for it."""

import os
from contextvars import ContextVar
from threading import Event

CORES: ContextVar[int | None] = ContextVar("CORES", default=None)  # 1 where others run beside it; None: of all cores
STOP: ContextVar[Event | None] = ContextVar("STOP", default=None)  # of simulations beside others, all at once


class Stopped(Exception):
    """Nobody waits for this simulation any more."""


def beside_others(stop: Event) -> None:
    """For threads that simulate side by side: each has one core, and goes on until `stop` is set."""
    CORES.set(1)
    STOP.set(stop)


def raise_if_stopped() -> None:
    """Raise Stopped if this simulation is to stop."""
    if (stop := STOP.get()) and stop.is_set():
        raise Stopped


def cores() -> int:
    """Cores for one simulation: those that this process may use."""
    if own := CORES.get():
        return own
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
