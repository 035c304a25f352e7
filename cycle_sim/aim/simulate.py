"""An AiM device at work on a program of host instructions."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, NoReturn

import numpy as np

from pimloom.arch.aim import COMMANDS, INSTRUCTIONS, MASK
from pimloom.arch.command import REFRESH_SOONER
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.standard import clocks
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.aim.kernels import state as k
from pimloom.cycle_sim.aim.kernels.host import run as run_kernel
from pimloom.cycle_sim.dram.kernels.device import COUNTS, FAR, FIELDS, KIND, Device, device

LOG = 1 << 16  # commands that the kernel notes before it hands them over
ROWS = {
    **dict.fromkeys(("RD", "WR", "MAC", "RDCP", "WRCP"), k.OF_BANK),
    **dict.fromkeys(("MAC16", "EWMUL16", "AF16", "WRA16"), k.OF_ALL),
}
STEADY = ("MAC", "RDCP", "WRCP", "MAC16", "EWMUL16", "AF16", "WRGB", "WRMAC16")  # neither answered, nor move rows
READS = ("RD", "RDMAC16", "RDAF16")
UNDER_WAY = {  # [secondary AIM] until when a command is under way, CK after its issue; others: 1
    "WR": "nCWL + nBL",
    "WRGB": "nCWLGB + nBL",
    "WRMAC16": "nCWLREG + nBL",
    "WRA16": "nCWL + nBL + tRP",
    "RDMAC16": "nCLREG + nBL",
    "RDAF16": "nCLAF + nBL",
    "RD": "nCL + nBL",
}


class Queues(NamedTuple):
    """What stands before the channels: see `arch.aim.AimDevice`."""

    entries: int
    drain_from: int
    drain_below: int
    refresh: bool = False


class Found(NamedTuple):
    """cycles: until the last instruction is answered [CK]. counts[c]: commands of channel c by name; open_ck[c]: clocks
    in which it has an open row; left[c]: its reads and writes whose row was opened and which were not carried out."""

    cycles: int
    counts: tuple[dict[str, int], ...]
    open_ck: np.ndarray
    left: np.ndarray


Watch = Callable[[np.ndarray], None]  # rows of N_LOG columns, one a command, in the order of their clocks


def simulate(
    part: Part, channels: int, queues: Queues, program: np.ndarray, watch: Watch | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Found:  # fmt: skip
    """Run a program, int64[n, N_INSTRUCTION] of which the last is SYNC. progress is told the instructions done.

    Channels that stand in the same masks do the same in each clock; unless somebody watches, one of them is simulated.
    Raises UserError if the part lacks commands of AiM.
    """
    each = np.arange(channels)
    first, alike, program = (each, each, program) if watch else _alike(program, channels)
    w = _state(part, len(first), queues)
    log = np.zeros((LOG if watch else 0, k.N_LOG), np.int64)
    for end in range(PIECE, len(program) + PIECE, PIECE):
        piece = program[: min(end, len(program))]
        while (code := run_kernel(w, piece, log)) == k.LOG_FULL:
            _hand_over(w, log, watch)
        if code == k.STUCK:
            _hand_over(w, log, watch)
            _complain(w, first)
        progress(len(piece))
    _hand_over(w, log, watch)
    cycles = int(w.host[k.DONE])
    still = np.where(w.channel[:, k.OPEN] > 0, cycles + 1 - w.channel[:, k.OPENED_AT], 0)
    counts = [{name: n for name, n in zip(COMMANDS, row, strict=True) if n} for row in w.counts.tolist()]
    open_ck, left = (w.channel[:, k.OPEN_CK] + still)[alike], w.size[alike, k.ACTIVE]
    return Found(cycles, tuple(counts[c].copy() for c in alike), open_ck, left)


def _alike(program: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first channel of each kind, in order; the kind of each channel; the program with a channel for each kind."""
    masks, which = np.unique(program[:, MASK], return_inverse=True)
    member = masks[:, None] >> np.arange(channels - 1, -1, -1) & 1
    _, found, kind = np.unique(member, axis=1, return_index=True, return_inverse=True)
    first, less = np.sort(found), program.copy()
    less[:, MASK] = (member[:, first] << np.arange(len(first) - 1, -1, -1)).sum(axis=1)[which]
    return first, np.searchsorted(first, found[kind.ravel()]), less


PIECE = 1 << 14  # instructions between two reports of progress


def _hand_over(w: k.Aim, log: np.ndarray, watch: Watch | None) -> None:
    if watch:
        watch(log[: w.host[k.LOGGED]].copy())
        w.host[k.LOGGED] = 0


def _complain(w: k.Aim, channels: np.ndarray) -> NoReturn:
    place = f"instruction {w.host[k.DECODED] + 1}"
    if max(refreshes := w.channel[:, k.STARVED].tolist()) > k.MOST_STARVED:
        said = f"expected time to serve a request between refreshes of channel {channels[np.argmax(refreshes)]}"
        raise UserError(f"{place}: {said}; {REFRESH_SOONER}")
    if max(commands := w.channel[:, k.VAIN].tolist()) > k.MOST_VAIN:
        raise UserError(
            f"{place}: channel {channels[np.argmax(commands)]} stands still: a row is opened "
            "for one request and closed for another before the first can issue, over and over; put SYNC between "
            "instructions of AiM and reads and writes, or let tRAS be no shorter than tRCDRD and tRCDWR"
        )
    c = int(np.argmax(w.channel[:, k.BLOCKED]))
    since = int(w.host[k.DONE] - w.channel[c, k.BLOCKED])
    raise UserError(
        f"{place}: channel {channels[c]} stands still from clock {since:,} on: a read or write "
        "waits for a row of its bank, and may not close the row of another that waits there; put SYNC between "
        "instructions of AiM and reads and writes"
    )


def _state(part: Part, channels: int, queues: Queues) -> k.Aim:
    table = compile_table(part)
    if lacking := sorted(set(COMMANDS) - set(table.names)):
        raise UserError(f"expected a part with all commands of AiM, as gddr6_aim_isr; it lacks {', '.join(lacking)}")
    made = _device(table)
    banks = int(table.rules.size[-1])
    slots = max(queues.entries, banks) + 2

    def of_each(array: np.ndarray) -> np.ndarray:
        return np.repeat(array[None], channels, axis=0)

    channel = np.zeros((channels, k.N_CHANNEL), np.int64)
    channel[:, [k.WAKE, k.FREE]] = 1
    channel[:, [k.SYNCING, k.SAME]] = -1
    channel[:, k.BEHIND_ANSWER] = -FAR
    host = np.zeros(k.N_HOST, np.int64)
    host[[k.NEXT, k.ANSWERED, k.ENTRIES]] = 1, -1, queues.entries
    host[[k.DRAIN, k.DRAINED]] = queues.drain_from, queues.drain_below
    host[k.REFI] = channel[:, k.DUE] = table.rules.refi if queues.refresh else FAR
    return k.Aim(
        Device(**made), of_each(made["bound"]), of_each(made["beside"]), of_each(made["ring"]), _ops(part, made),
        channel, np.zeros((channels, k.N_QUEUES, slots, k.N_REQUEST), np.int64),
        np.zeros((channels, k.N_QUEUES), np.int64), np.zeros((channels, queues.entries + 1), np.int64),
        np.full((channels, banks), -1), np.zeros((channels, len(COMMANDS)), np.int64), host,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _device(table: Table) -> Mapping[str, np.ndarray]:
    """The arrays of a channel, of which a run copies those that it changes."""
    return device(table, frozenset(COMMANDS), {}, COMMANDS)


def _ops(part: Part, made: Mapping[str, np.ndarray]) -> np.ndarray:
    """int64[commands, N_OPS]. made: the arrays of a channel's device."""
    ck = {name: part.cycles(name) for name in part.timing}
    ops = np.zeros((len(COMMANDS), k.N_OPS), np.int64)
    first, rule = made["first_rule"], made["rule"].reshape(-1, FIELDS)
    by_command = {found.command: found for found in INSTRUCTIONS.values()}
    for op, name in enumerate(COMMANDS):
        of = by_command.get(name)
        latency = max(clocks(UNDER_WAY.get(name, "1"), ck), 1)
        counted = bool((rule[first[op] : first[op + 1], KIND] & COUNTS).any())
        steady = name in STEADY and not counted
        is_read, registers, blocks = name in READS, bool(of and of.registers), bool(of and of.blocks)
        ops[op] = ROWS.get(name, k.NO_ROW), registers, is_read, blocks, latency, steady
    return ops


def instruction(command: str, times: int, mask: int, bank: int = -1, row: int = -1) -> Sequence[int]:
    """A row of a program: `times` requests of a command to each channel of the mask."""
    return COMMANDS.index(command), times, mask, bank, row
