"""How many cores a simulation may use."""

import os
from contextvars import ContextVar

CORES: ContextVar[int | None] = ContextVar("CORES", default=None)  # 1 where others run beside it; None: of all cores


def cores() -> int:
    """Cores for one simulation: those that this process may use."""
    if own := CORES.get():
        return own
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
