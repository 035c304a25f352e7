"""How many cores a simulation may use."""

import os
from contextvars import ContextVar

CORES: ContextVar[int | None] = ContextVar("CORES", default=None)  # 1 where others run beside it; None: of all cores


def cores() -> int:
    """Cores for one simulation."""
    return CORES.get() or os.cpu_count() or 1
