"""A channel of an AttAcc stack at work on its requests."""

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import REFRESH_SOONER, Level
from pimloom.arch.error import UserError
from pimloom.arch.table import Table
from pimloom.cycle_sim.attacc import kernels as k
from pimloom.cycle_sim.dram.kernels.device import FAR, Device, device

# By placement: MAC, ACT, PRE
PLACEMENTS = {
    "bank": ("MACAB", "ACTAB", "PREA"),
    "bg": ("MACSB", "ACTSB", "PRESB"),
    "buffer": ("MACPB", "ACTPB", "PREPB"),
}
ISSUED = tuple(name for name in k.COMMANDS if name != "BARRIER")
COMMANDS_OF_EACH = 8  # far more than ACT, MAC, PRE and the refreshes that fall into them
ROW_COMMANDS = frozenset({"ACTAB", "PREA", "REFab", "ACTSB", "PRESB", "ACTPB", "PREPB"})


class Issue(IntEnum):
    """Row and column commands in one clock. ALWAYS is what the published simulator was compiled to: a column command
    issues also beside a refresh that waits. It reads its first choice where there may be none; BESIDE is what it does
    with that guarded."""

    ONE = k.SINGLE
    BESIDE = k.GUARDED
    ALWAYS = k.DUAL_ISSUE


class Found(NamedTuple):
    """cycles: until the last command has issued [CK]. log: int64[commands, N_LOG], empty unless asked for."""

    cycles: int
    counts: dict[str, int]
    log: np.ndarray


def simulate(
    table: Table, placement: str, requests: np.ndarray, *, issue: Issue = Issue.ALWAYS, refresh: bool = True,
    due_ck: int | None = None, logged: bool = False,
) -> Found:  # fmt: skip
    """Run the requests of a channel, integers[n, 3 or more] of kind (place in `kernels.COMMANDS`), bank and row.

    due_ck: clock in which the first refresh falls due, tREFI unless given. Raises UserError if the part that the table
    is of lacks commands of AttAcc, or leaves no time between refreshes; ValueError for what is no request.
    """
    if lacking := sorted(set(ISSUED) - set(table.names)):
        raise UserError(f"expected a part with AttAcc's commands, as hbm3_attacc_5200; it lacks {', '.join(lacking)}")
    ordered, size = np.ascontiguousarray(requests, np.int32), table.rules.size.tolist()
    banks, refi = size[Level.BANK], table.rules.refi
    _check(ordered, banks)
    state = np.zeros(k.N_STATE, np.int64)
    state[[k.DUE, k.REFI, k.DUAL]] = (refi if due_ck is None else due_ck) if refresh else FAR, refi, issue
    state[[k.MAC_OP, k.ACT_OP, k.PRE_OP]] = [k.COMMANDS.index(name) for name in PLACEMENTS[placement]]
    channel = k.Channel(
        _device(table), ordered, np.zeros(k.ENTRIES + 1, np.int64),
        np.full(banks, -1), np.zeros(banks, np.int64),
        np.array([k.ROW_KIND if name in ROW_COMMANDS else k.COLUMN_KIND for name in k.COMMANDS]),
        np.array([name in ("ACTAB", "PREA") for name in k.COMMANDS], np.int64),
        np.arange(0, banks, banks // size[Level.RANK]), np.zeros((len(k.COMMANDS), banks), np.int64),
        np.zeros(len(k.COMMANDS), np.int64), state,
    )  # fmt: skip
    log = np.zeros((COMMANDS_OF_EACH * (len(ordered) + banks) if logged else 0, k.N_LOG), np.int64)
    if (cycles := int(k.run(channel, log))) == k.STUCK:
        said = f"no request since clock {state[k.SERVED]}: refresh comes too often"
        raise UserError(f"expected time to open a row between refreshes, got {said}; {REFRESH_SOONER}")
    counts = {name: n for name, n in zip(k.COMMANDS, channel.counts.tolist(), strict=True) if n}
    return Found(cycles, counts, log[: state[k.LOGGED]])


def _device(table: Table) -> Device:
    """Of a channel that is idle and closed."""
    arrays = _arrays(table)
    return Device(**arrays | {name: arrays[name].copy() for name in ("bound", "beside", "ring")})


@lru_cache(maxsize=16)
def _arrays(table: Table) -> dict[str, np.ndarray]:
    return device(table, frozenset(ISSUED), {}, k.COMMANDS)


def _check(requests: np.ndarray, banks: int) -> None:
    """The kernel reads and writes where a request says."""
    for name, column, limit in (("kind", k.OP, k.BARRIER + 1), ("bank", k.BANK, banks), ("row", k.ROW, np.inf)):
        values = requests[:, column]
        if len(wrong := values[(values < 0) | (values >= limit)]):
            raise ValueError(f"{name} of a request: expected 0 or more, below {limit}, got {wrong[0]}")
