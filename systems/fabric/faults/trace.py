"""A fault trace: which server was down from when to when, and for what.

Servers are numbered from 0; those that never fail have the numbers after the others. Times are hours from the start of
the trace. Faults of one server may overlap: an outage is what is left when they are merged.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SERVERS = 400  # [secondary] servers that the public trace was sampled from; 231 of them appear in it
GPUS_PER_SERVER = 8  # [recalled] the public trace does not say


class Kind(NamedTuple):
    """What failed, in the words of the trace."""

    level: str
    class_: str
    desc: str


class Outages(NamedTuple):
    """Times when a server was down, in the order in which they began: int64 (n,), hours (n,), hours (n,)."""

    server: np.ndarray
    start_h: np.ndarray
    end_h: np.ndarray


@dataclass(frozen=True)
class Trace:
    """Faults of `servers` servers; all arrays are (faults,), in the order in which the faults began.

    Shares and percentiles over time run from 0 to `horizon_h`; a fault may last longer. `kind` is a position in
    `kinds`.
    """

    name: str
    servers: int
    horizon_h: float
    server: np.ndarray
    start_h: np.ndarray
    end_h: np.ndarray
    kind: np.ndarray
    kinds: tuple[Kind, ...]
    notes: tuple[str, ...] = ()

    def outages(self) -> Outages:
        """Faults of the same server that overlap or touch, merged."""
        order = np.lexsort((self.start_h, self.server))
        server, start, end = self.server[order], self.start_h[order], self.end_h[order]
        if not len(server):
            return Outages(server, start, end)
        last = np.empty(len(end))  # the latest end so far of the same server
        for place, (who, until) in enumerate(zip(server, end, strict=True)):
            same = place and server[place - 1] == who
            last[place] = max(until, last[place - 1]) if same else until
        begins = np.flatnonzero((np.diff(server, prepend=-1) != 0) | (start > np.roll(last, 1)))
        until = last[np.append(begins[1:], len(server)) - 1]
        by_start = np.argsort(start[begins], kind="stable")
        return Outages(server[begins][by_start], start[begins][by_start], until[by_start])
