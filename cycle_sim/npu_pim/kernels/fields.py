"""The state of a PIM channel: which array holds what."""

from typing import NamedTuple

import numpy as np

COMMANDS = (
    "ACT", "PRE", "RD", "WR", "REFab", "GWRITE", "G_ACT", "PIM_HEADER", "COMP", "READRES", "COMP_FIRST",
    "PIM_GEMV", "PIM_PRECHARGE", "GEMV_END",
)  # fmt: skip
(
    ACT, PRE, RD, WR, REFAB, GWRITE, G_ACT, HEADER, COMP, READRES, COMP_FIRST, GEMV, PIM_PRE, GEMV_END,
) = range(len(COMMANDS))  # fmt: skip

# request[i]: opcode, bank of the channel, row, column, COMPs of a GEMV, all COMPs and results that a header announces,
# whether the tile ends, first clock, group that is counted down when it is done
KIND, BANK, ROW, COLUMN, COUNT, COMPS, RESULTS, LAST, WHEN, GROUP, N_REQUEST = range(11)
# link[i]: next and previous one in the same command queue; next one that ends with the same access; turn in the queue
NEXT, BEFORE, TWIN, TURN, N_LINK = range(5)
# bank[b]: open row of the MEM and of the PIM row buffer (-1: closed), accesses since it opened; first and last request
# of its command queue, first read and first write to the open row (-1: none), entries
MEM, PIM, SERVED, FIRST, FINAL, READ_HIT, WRITE_HIT, ENTRIES, N_BANK = range(9)
READS, WRITES, PIMS = range(3)  # list[…]: requests that the controller holds before their command queue
QUICK, LATE, COPY, GEMVS, LINES = range(5)  # line[…]: responses that follow each other in order of their clocks
# state[…]. NOW: the next clock in which anything can happen; READING, WRITING, OPENING, MISSING: masks of banks, see
# `banks`; HELD: requests accepted, not yet collected
(
    NOW, POINTER, DRAIN, LOCK, HELD, QUEUED, DOTS_FIRST, DOTS_END, NEXT_REFRESH, NEXT_RANK, DUE, IN_REFRESH, SKIP,
    REMAIN, RESERVED, COPYING, COPY_BANK, BLOCKED, FILL, TURNS, HANDED, READING, WRITING, OPENING, MISSING, ACTED,
    N_COMMANDS, N_SPARE, N_STATE,
) = range(29)  # fmt: skip
# policy[…]. SPLIT: transactions of PIM have their own list (dual row buffers); SINGLE: one row buffer, blocked
(
    DUAL, SINGLE, ENTRIES_MAX, QUEUE_MAX, DOTS_MAX, WINDOW, CAP, DRAIN_IDLE, REFI, RANKS, READ_CK, COPY_CK, COMP_CK,
    GEMV_CK, PRE_CK, ACT_CK, CLOSE_CK, FAW_CK, FLOOR, OFFERS, EXACT_GROUP, LATE_GEMV, DISTINCT, LOGGING, N_POLICY,
) = range(25)  # fmt: skip


class Device(NamedTuple):
    """What `cycle_sim.memory.kernels.device` builds: rules between commands, bound by bound."""

    path: np.ndarray
    bound: np.ndarray
    aside: np.ndarray
    beside: np.ndarray
    rule: np.ndarray
    first_rule: np.ndarray
    ring: np.ndarray


class Channel(NamedTuple):
    """One channel and its controller.

    request: those that have no command yet, at places that `spare` lists when they are free. order[p, k]: ring of the
    requests that enter by port p, from port[p, 0] to port[p, 1]. list[l, k]: requests; length[l]. dots: ring of the PIM
    command queue. line[l, k]: ring of (clock, group), from head[l] to tail[l]. left[g]: requests of a group that are
    not collected yet; done[g]: clock in which the last one was; ended: how many groups became complete, and which;
    open[owner[g]]: requests of the owner of a group. command[k]: log of (clock, opcode, bank, row). tally[c]: commands
    issued; rank[buffer * ranks + r]: open banks, clock since which, clocks with a row open.
    """

    device: Device
    policy: np.ndarray
    request: np.ndarray
    spare: np.ndarray
    link: np.ndarray
    bank: np.ndarray
    list: np.ndarray
    length: np.ndarray
    dots: np.ndarray
    line: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    order: np.ndarray
    port: np.ndarray
    left: np.ndarray
    done: np.ndarray
    ended: np.ndarray
    owner: np.ndarray
    open: np.ndarray
    seen: np.ndarray
    command: np.ndarray
    tally: np.ndarray
    rank: np.ndarray
    state: np.ndarray
