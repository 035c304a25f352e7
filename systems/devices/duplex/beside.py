"""What the xPU and Logic-PIM lose to one another when both read a channel at once, each in bundles of its own."""

from itertools import product
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pimloom.arch.command import STREAM
from pimloom.arch.part import Part
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram.stream import Engine, Issue
from pimloom.systems.devices.duplex.memory import bundle_stream

ROWS = 200  # [design] rows of a bundle in the window that is looked at: some seven refreshes


class KeptSpeed(NamedTuple):
    """Shares of its own speed that the xPU and the other processor keep while both read [1]."""

    xpu: float
    low: float

    def together_s(self, xpu_s: float, low_s: float) -> float:
        """Time of both, which take so long each by itself: together until one is done, then the other alone.

        >>> KeptSpeed(1, 1).together_s(3, 2), KeptSpeed(0.5, 1).together_s(3, 2)
        (3.0, 4.0)
        """
        both_s = min(xpu_s / self.xpu, low_s / self.low)
        return both_s + max(xpu_s - both_s * self.xpu, low_s - both_s * self.low, 0.0)


APART = KeptSpeed(1.0, 1.0)  # S: they do not meet
_MEASURED: WeakKeyDictionary[Table, KeptSpeed] = WeakKeyDictionary()  # a sweep makes a device for each point


def measured(part: Part) -> KeptSpeed:
    """From the engine: a bundle of each pseudo channel, of rank 0 and its lower half, beside reads of all other banks.

    Commands share the row and the column bus of the channel, on which the bundles go first [design]: the pins' reads
    alone, one a clock for two pseudo channels, fill the column bus.
    """
    table = compile_table(part)
    if table not in _MEASURED:
        _MEASURED[table] = _measure(part, table)
    return _MEASURED[table]


def _measure(part: Part, table: Table) -> KeptSpeed:
    engine, bundles = Engine(table), _bundles(part)
    alone = engine.issue(bundles)
    end_ck = _end(alone, len(bundles))
    banks = _banks(table, part, end_ck)
    by_itself, both = engine.issue(banks), engine.issue([*bundles, *banks])
    low = end_ck / _end(both, len(bundles))
    end_ck = _end(both, len(bundles))
    xpu = _read(banks, both.end_ck[len(bundles) :], end_ck) / _read(banks, by_itself.end_ck, end_ck)
    return KeptSpeed(min(xpu, 1.0), min(low, 1.0))


def _bundles(part: Part) -> list[np.ndarray]:
    found = []
    for pch in range(part.organization.pseudo_channels):
        stream = bundle_stream(part, ROWS * part.organization.columns)
        stream["pch"] = pch
        found.append(stream)
    return found


def _banks(table: Table, part: Part, end_ck: int) -> list[np.ndarray]:
    """Reads row after row in every bank of other bundles, more than there is time for, but as many in each."""
    org = part.organization
    banks = list(product(range(org.ranks), range(org.bank_groups), range(org.banks_per_group)))
    others = [(r, g, b) for r, g, b in banks if r or 2 * b >= org.banks_per_group]
    rows = 2 + 2 * end_ck // (org.columns * part.cycles("tCCD_S") * len(others))
    found = []
    for pch, (rank, group, bank) in product(range(org.pseudo_channels), others):
        stream = np.zeros(3 * rows, STREAM)
        stream["cmd"] = np.tile([table.cmd(name) for name in ("ACT", "RD", "PRE")], rows)
        stream["pch"], stream["rank"], stream["bg"], stream["bank"] = pch, rank, group, bank
        stream["row"], stream["count"] = np.arange(3 * rows) // 3, 1
        stream["count"][1::3] = org.columns
        found.append(stream)
    return found


def _end(found: Issue, streams: int) -> int:
    """Clock in which the first so many streams are done."""
    return max(int(end.max()) for end in found.end_ck[:streams])


def _read(streams: list[np.ndarray], end_ck: list[np.ndarray], until_ck: int) -> int:
    """Columns of rows that are read by a clock."""
    return sum(int(s["count"][1::3][end[1::3] <= until_ck].sum()) for s, end in zip(streams, end_ck, strict=True))
