"""The state of a channel with command queues: which array holds what."""

from typing import NamedTuple

import numpy as np

# pool[slot]: a request that waits. WAITING: first of the later requests that end with it, or -1
ADDRESS, WRITE, BANK, ROW, COLUMN, ACCEPTED, INDEX, WAITING = range(8)
# bank[b]: open row (-1: closed), accesses since it opened, clock of the last command, entries that want it, its rank,
# its command queue
OPENED, HITS, USED, WANTED, RANK, HOME = range(6)
# line[q]: entries, choices, place in ACTIVE, whether it is blocked; line[n, ACTIVE]: the n-th queue that is not empty
N_ENTRIES, N_CHOICES, PLACE, BLOCKED, ACTIVE = range(5)
# choice[q, k]: what queue q may issue, oldest first: place in `free`, entry, command
FREE, ENTRY, COMMAND = range(3)
READS, WRITES = range(2)  # rows of order, tables of seen
SPARE = 2  # row of order
NUMBER, WHEN, NEXT = range(3)  # waiting[w]
# state[…]. AT, BY: clock and queue (-1: none) of the next command; POINTER: queue that issued last; STALE: look anew
(
    AT, BY, POINTER, N_ACTIVE, STALE, NOW, MOVE, DRAIN, QUEUED, N_READ, N_WRITE, OUTSTANDING, N_FREE, FREE_WAIT,
    NEXT_REFRESH, REF_HEAD, REF_TAIL, ARMED, REF_AT, STOP, TURN_RANK, TURN_GROUP, TURN_BANK, TAKEN, PROGRESS, N_STATE,
) = range(26)  # fmt: skip
# policy[…]; BUS: of each command, one after the other
(
    AUTO, ADAPTIVE, TIMEOUT, CAP, HITS_FIRST, OLDEST, READ_ENTRIES, WRITE_ENTRIES, UNIFIED, DEPTH, DRAIN_HIGH,
    DRAIN_LOW, DRAIN_IDLE, REFRESH, INTERVAL, SLEEP_AFTER, DUAL, DRAMSIM3, READ_CK, WRITE_CK, PER_CK, CLOSE_ALL,
    PATIENCE, BUS,
) = range(24)  # fmt: skip
NONE, ALL_BANK, STAGGERED, PER_BANK = range(4)  # REFRESH
DONE, MORE, FLUSH, GROW, PAUSE, LIVELOCK, ASLEEP, STARVED, LOST = range(9)  # what `run` returns


class Channel(NamedTuple):
    """One channel and its controller. free … ring: see `device`; command … rank: see `record`.

    queue[q, i]: slots, oldest first. order[READS], order[WRITES]: slots in the read and in the write queue, oldest
    first; order[SPARE]: free slots. seen: addresses that wait to be read, to be written. waiting[w]: a request that
    ends with another one. refreshes: ring of (command, bank).
    """

    free: np.ndarray
    rule: np.ndarray
    low: np.ndarray
    ring: np.ndarray
    command: np.ndarray
    request: np.ndarray
    tally: np.ndarray
    latency: np.ndarray
    rank: np.ndarray
    policy: np.ndarray
    pool: np.ndarray
    queue: np.ndarray
    choice: np.ndarray
    line: np.ndarray
    bank: np.ndarray
    order: np.ndarray
    seen: np.ndarray
    waiting: np.ndarray
    refreshes: np.ndarray
    state: np.ndarray
