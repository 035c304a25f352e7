"""How long it takes to move bytes between a Duplex device's memory and what computes: the ideal, and by simulation."""

from functools import partial
from statistics import fmean as mean
from typing import NamedTuple, Protocol

import numpy as np

from pimloom.arch.command import STREAM
from pimloom.arch.duplex import Duplex
from pimloom.arch.part import Part
from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, S_PER_PS, ceil_div
from pimloom.cycle_sim.dram.stream import engine_of
from pimloom.cycle_sim.memory.prefixes import Prefixes
from pimloom.cycle_sim.memory.simulate import Chunk
from pimloom.energy.duplex import BankCounts

XPU, LOGIC, BANK_GROUP, BANK = "xpu", "logic", "bank_group", "bank"  # paths of `energy.duplex`
MAPPING = "row,column,bank,bank_group,rank,pseudo_channel"  # [secondary S] neighbours lie in other banks
CONTROLLER = "ramulator2"  # [secondary S] its simulator is built on Ramulator 2
LEAST_COLUMNS = 4096  # that are simulated at once
PHASES = 4  # [design] distances from a refresh at which a short transfer starts
LONG = 8  # [design] a transfer of so many tREFI meets as many refreshes wherever it starts, about


class Move(NamedTuple):
    """Time of one transfer [s], and what it does in all banks of the device."""

    time_s: float
    counts: BankCounts


class Transfers(Protocol):
    """Moves bytes over one of the paths, from the start of a quiet memory."""

    def move(self, path: str, n_bytes: int, *, write: bool = False) -> Move:
        """Read or write so many bytes that are spread over all pseudo channels."""
        ...

    def least_s(self, path: str, n_bytes: int) -> float:
        """Time that a move does not fall below."""
        ...


class IdealDram:
    """Every path at its full bandwidth; each row is opened once."""

    def __init__(self, device: Duplex) -> None:
        self._device = device
        self._rate = {path: times * device.xpu_bytes_s for path, times in _times(device).items()}

    def move(self, path: str, n_bytes: int, *, write: bool = False) -> Move:
        """See `Transfers`."""
        org = self._device.part.organization
        columns = n_bytes * BITS_PER_BYTE / org.access_bits
        return Move(self.least_s(path, n_bytes), BankCounts(columns, columns / org.columns))

    def least_s(self, path: str, n_bytes: int) -> float:
        """See `Transfers`."""
        return n_bytes / self._rate[path]


class SimulatedDram:
    """Command by command: the pins behind a memory controller, bundles as a stream of ALL_RD, both with refresh.

    Of equal channels one is simulated, and each shape once; a short transfer at several distances from the next
    refresh, of which it takes the mean.
    """

    def __init__(self, device: Duplex, controller: str = CONTROLLER) -> None:
        part = device.part
        self._device, self._engine = device, engine_of(compile_table(part))
        self._pins = part_memory("duplex", part, load_policy(controller).value, mapping=MAPPING)
        self._banks = {path: round(times * _gap_ratio(part)) for path, times in _times(device).items()}
        self._known: dict[tuple[bool, bool, int], tuple[float, float]] = {}
        self._streams: dict[tuple[bool, int], Prefixes] = {}  # over the pins: write, start
        self._ends: dict[int, np.ndarray] = {}  # of a bundle: clock at which each column has come, by start

    def move(self, path: str, n_bytes: int, *, write: bool = False) -> Move:
        """See `Transfers`; what is left of a column counts as a whole one."""
        if write and path != XPU:
            raise ValueError(f"nothing is written on path {path}")
        if not n_bytes:
            return Move(0.0, BankCounts(0, 0))
        part = self._device.part
        banks = self._device.pseudo_channels * (1 if path == XPU else self._banks[path])
        each = ceil_div(n_bytes * BITS_PER_BYTE, part.organization.access_bits * banks)
        clocks, rows = self._simulated(path == XPU, write, each)
        return Move(clocks * part.tCK_ps * S_PER_PS, BankCounts(each * banks, rows * banks))

    def least_s(self, path: str, n_bytes: int) -> float:
        """See `Transfers`: nothing is faster than the pins' rate, or a bundle's without rows to open."""
        times = 1 if path == XPU else self._banks[path] / _gap_ratio(self._device.part)
        return n_bytes / (times * self._device.stack_gb_s * self._device.spec.stacks * BYTES_PER_GB)

    def _simulated(self, pins: bool, write: bool, each: int) -> tuple[float, float]:
        """Mean clocks until `each` columns of a pseudo channel are moved, and rows that are opened for them."""
        key = pins, write, each
        if key not in self._known:
            refi = self._device.part.cycles("tREFI")
            found = [self._once(pins, write, each, 0)]
            if found[0][0] < LONG * refi:
                found += [self._once(pins, write, each, i * refi // PHASES) for i in range(1, PHASES)]
            clocks, rows = zip(*found, strict=True)
            self._known[key] = mean(clocks), mean(rows)
        return self._known[key]

    def _once(self, pins: bool, write: bool, each: int, start: int) -> tuple[float, float]:
        """The same of a transfer that starts so many clocks after the last refresh was due."""
        return self._pins_ck(each, write, start) if pins else self._bundle_ck(each, start)

    def _pins_ck(self, each: int, write: bool, start: int) -> tuple[float, float]:
        """Behind a controller, in the order of addresses, on all pseudo channels of a channel."""
        n = self._device.part.organization.pseudo_channels
        if (write, start) not in self._streams:
            self._streams[write, start] = Prefixes(self._pins, partial(self._neighbours, write, start))
        tally = self._streams[write, start].tally(each * n)
        return tally.cycles - start, tally.commands["ACT"] / n

    def _neighbours(self, write: bool, start: int, begin: int, end: int) -> Chunk:
        """Requests of one address after another, all of them at `start`."""
        address = np.arange(begin, end, dtype=np.int64) * self._pins.access_bytes
        return Chunk(address, np.full(end - begin, int(write)), np.full(end - begin, start))

    def _bundle_ck(self, each: int, start: int) -> tuple[float, float]:
        """A bundle, row after row: what follows a column does not change when it comes."""
        ends = self._ends.get(start)
        if ends is None or len(ends) < each:
            stream = bundle_stream(self._device.part, max(2 * each, LEAST_COLUMNS), by_column=True)
            stream["release"][0] = start
            reads = stream["cmd"] == self._engine.table.cmd("ALL_RD")
            ends = self._ends[start] = self._engine.issue([stream]).end_ck[0][reads]
        return int(ends[each - 1]) - start, ceil_div(each, self._device.part.organization.columns)


def _times(device: Duplex) -> dict[str, float]:
    """Bandwidth of each path in that of the pins."""
    dram = {BANK: device.spec.bank_pim, BANK_GROUP: device.spec.bank_group_pim}
    return {XPU: 1.0, LOGIC: device.logic_times} | {path: float(it.times_bandwidth) for path, it in dram.items()}


def _gap_ratio(part: Part) -> float:
    """Banks that read at once, each in tCCD_L, where the pins read one in tCCD_S, for the same bandwidth."""
    return part.cycles("tCCD_L") / part.cycles("tCCD_S")


def bundle_stream(part: Part, columns: int, *, by_column: bool = False) -> np.ndarray:
    """ALL_ACT, ALL_RD and ALL_PRE of each row of one bundle, as STREAM; the last row may be read in part. by_column: an
    ALL_RD for each column."""
    table, width = compile_table(part), part.organization.columns
    rows = ceil_div(columns, width)
    stream = np.zeros(3 * rows, STREAM)
    stream["cmd"] = np.tile([table.cmd(name) for name in ("ALL_ACT", "ALL_RD", "ALL_PRE")], rows)
    stream["row"] = np.arange(3 * rows) // 3 % part.organization.rows
    stream["count"] = 1
    stream["count"][1::3] = np.minimum(width, columns - width * np.arange(rows))
    if by_column:
        stream = np.repeat(stream, stream["count"])
        stream["count"] = 1
    return stream
