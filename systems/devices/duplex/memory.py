"""How long it takes to move bytes between a Duplex device's memory and what computes: the ideal, and by simulation."""

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from pimloom.arch.command import STREAM
from pimloom.arch.duplex import Duplex
from pimloom.arch.part import Part
from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, S_PER_PS, ceil_div
from pimloom.cycle_sim.dram import Engine
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from pimloom.energy.duplex import Counts

XPU, LOGIC, BANK = "xpu", "logic", "bank"  # paths of `energy.duplex`
MAPPING = "row,column,bank,bank_group,rank,pseudo_channel"  # [secondary S] neighbours lie in other banks
CONTROLLER = "ramulator2"  # [secondary S] its simulator is built on Ramulator 2


class Move(NamedTuple):
    """Time of one transfer [s], and what it does in all banks of the device."""

    time_s: float
    counts: Counts


class Memory(Protocol):
    """Moves bytes over one of the paths, from the start of a quiet memory."""

    def move(self, path: str, n_bytes: int, *, write: bool = False) -> Move:
        """Read or write so many bytes that are spread over all pseudo channels."""
        ...


class Ideal:
    """Every path at its full bandwidth; each row is opened once."""

    def __init__(self, device: Duplex) -> None:
        self._device = device
        self._rate = {path: times * device.xpu_bytes_s for path, times in _times(device).items()}

    def move(self, path: str, n_bytes: int, *, write: bool = False) -> Move:
        """See `Memory`."""
        org = self._device.part.organization
        columns = n_bytes * BITS_PER_BYTE / org.access_bits
        return Move(n_bytes / self._rate[path], Counts(columns, columns / org.columns))


class Simulated:
    """Command by command: the pins behind a memory controller, bundles as a stream of ALL_RD. Refresh included, the
    first tREFI after the start. Of equal channels one is simulated, and each shape once."""

    def __init__(self, device: Duplex, controller: str = CONTROLLER) -> None:
        self._device, self._controller = device, controller
        self._banks = {path: round(t * _gap_ratio(device.part)) for path, t in _times(device).items()}

    def move(self, path: str, n_bytes: int, *, write: bool = False) -> Move:
        """See `Memory`; what is left of a column counts as a whole one."""
        if not n_bytes:
            return Move(0.0, Counts(0, 0))
        part, channels = self._device.part, self._device.pseudo_channels
        column_bytes = part.organization.access_bits // BITS_PER_BYTE
        if path == XPU:
            each = ceil_div(n_bytes, column_bytes * channels)
            clocks, rows = _pins_ck(part, self._controller, each, write)
            return Move(_seconds(part, clocks), Counts(each * channels, rows * channels))
        if write:
            raise ValueError(f"nothing is written on path {path}")
        banks = self._banks[path]
        each = ceil_div(n_bytes, column_bytes * channels * banks)
        clocks, rows = _bundle_ck(part, each)
        return Move(_seconds(part, clocks), Counts(each * channels * banks, rows * channels * banks))


def _times(device: Duplex) -> dict[str, float]:
    """Bandwidth of each path in that of the pins."""
    return {XPU: 1.0, LOGIC: device.logic_times, BANK: float(device.spec.bank_pim.times_bandwidth)}


def _gap_ratio(part: Part) -> float:
    """Banks that read at once, each in tCCD_L, where the pins read one in tCCD_S, for the same bandwidth."""
    return part.cycles("tCCD_L") / part.cycles("tCCD_S")


def _seconds(part: Part, clocks: int) -> float:
    return clocks * part.tCK_ps * S_PER_PS


@lru_cache(maxsize=4096)
def _pins_ck(part: Part, controller: str, each: int, write: bool) -> tuple[int, float]:
    """Clocks until `each` columns of every pseudo channel of a channel are read or written in the order of addresses,
    and ACTs of a pseudo channel."""
    n = part.organization.pseudo_channels
    memory = part_memory("duplex", part, load_policy(controller).value, mapping=MAPPING)
    address = np.arange(each * n, dtype=np.int64) * memory.access_bytes
    chunk = Chunk(address, np.full(each * n, int(write)), np.zeros(each * n, np.int64))
    (tally,) = simulate(memory, [chunk])
    return tally.cycles, tally.commands["ACT"] / n


@lru_cache(maxsize=4096)
def _bundle_ck(part: Part, each: int) -> tuple[int, int]:
    """Clocks until `each` columns of a bundle are read, row after row, and ALL_ACTs."""
    found = _engine(part).issue([bundle_stream(part, each)])
    return int(found.end_ck[0][1::3].max()), len(found.end_ck[0]) // 3


@lru_cache(maxsize=4)
def _engine(part: Part) -> Engine:
    return Engine(compile_table(part))


def bundle_stream(part: Part, columns: int) -> np.ndarray:
    """ALL_ACT, ALL_RD and ALL_PRE of each row of one bundle, as STREAM; the last row may be read in part."""
    table, width = compile_table(part), part.organization.columns
    rows = ceil_div(columns, width)
    stream = np.zeros(3 * rows, STREAM)
    stream["cmd"] = np.tile([table.cmd(name) for name in ("ALL_ACT", "ALL_RD", "ALL_PRE")], rows)
    stream["row"] = np.arange(3 * rows) // 3 % part.organization.rows
    stream["count"] = 1
    stream["count"][1::3] = np.minimum(width, columns - width * np.arange(rows))
    return stream
