"""The fault trace that a user asks for: a file, or a synthetic one."""

from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError

if TYPE_CHECKING:
    from pimloom.systems.fabric.faults.trace import Trace


def find_trace(file: Path | None, servers: int | None, days: float | None, seed: int, least: int = 0) -> "Trace":
    """The trace of a file, or a synthetic one of at least `least` servers. Raises UserError."""
    from pimloom.systems.fabric.faults.events import MOST_DAYS, read_faults
    from pimloom.systems.fabric.faults.synthetic import synthesise
    from pimloom.systems.fabric.faults.trace import SERVERS

    if servers is not None and not 1 <= servers <= 10**7:
        raise UserError(f"--servers {servers}: expected 1 to 10000000")
    if file is None:
        if days is not None:
            raise UserError(f"--days {days:g}: belongs to --faults FILE; a synthetic trace has a length of its own")
        return synthesise(max(SERVERS, least) if servers is None else servers, seed)
    if days is not None and not 0 < days <= MOST_DAYS:
        raise UserError(f"--days {days:g}: expected more than 0 and at most {MOST_DAYS}")
    return read_faults(file, SERVERS if servers is None else servers, days)
