"""The state of a channel that is scheduled straight from its buffers: which array holds what."""

from typing import NamedTuple

import numpy as np

# pool[slot]: a request. ARRIVE: clock at which it was sent; COUNTED: whether its first command has been seen
ADDRESS, WRITE, BANK, ROW, COLUMN, ARRIVE, INDEX, COUNTED = range(8)
# bank[b]: open row (-1: closed), accesses since it opened, whether a precharge is on its way, requests in `held`, rank
OPENED, ACCESSES, CLOSING, HOLDS, RANK = range(5)
# line[q], q = write * banks + bank: requests, place in `active`, bank; of the oldest row hit and of the oldest other
# request: place of its command in `free` (-1: there is none), arrival, entry
LENGTH, PLACE, OF_BANK, HIT, HIT_ARRIVE, HIT_ENTRY, OTHER, OTHER_ARRIVE, OTHER_ENTRY = range(9)
# pick[lane]: clock of the next command; who: KIND and place in `held`, or queue
AT, KIND, WHERE = range(3)
HELD, PRIORITY, QUEUE_HIT, QUEUE_OTHER = range(4)
# state[…]. STALE: the picks must be looked for anew; CHECK: the write mode changes in the next clock that asks for it
(
    NOW, WRITING, N_HELD, HEAD, TAIL, N_FREE, N_READ, N_WRITE, N_ACTIVE, N_ACTIVE_WRITES, NEXT_REFRESH, OUTSTANDING,
    LAST_TICK, STOP, CHECK, UPKEEP, UPKEEP_DONE, READ_LENGTH, WRITE_LENGTH, PRIORITY_LENGTH, HITS, MISSES, CONFLICTS,
    PROGRESS, STALE, N_STATE,
) = range(26)  # fmt: skip
(
    READ_ENTRIES, WRITE_ENTRIES, HIGH, LOW, CAP, CLOSING_CAP, SPARE_HITS, INTERVAL, SCOPE, READ_CK, PRIORITIES, DUAL,
    PATIENCE, N_POLICY,
) = range(14)  # fmt: skip
COUNTERS = {
    "row_hits": HITS,
    "row_misses": MISSES,
    "row_conflicts": CONFLICTS,
    "upkeep_requests": UPKEEP,
    "upkeep_served": UPKEEP_DONE,
    "read_queue_length_sum": READ_LENGTH,
    "write_queue_length_sum": WRITE_LENGTH,
    "priority_queue_length_sum": PRIORITY_LENGTH,
}


class Channel(NamedTuple):
    """One channel and its controller. free … ring: see `device`; command … rank: see `record`.

    queue[q, i]: slots, oldest first. active[write]: queues that are not empty. held: the active buffer. priority: ring
    of (command, first bank). spare: free slots. seen: addresses in the write buffer.
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
    line: np.ndarray
    active: np.ndarray
    held: np.ndarray
    bank: np.ndarray
    priority: np.ndarray
    pick: np.ndarray
    spare: np.ndarray
    seen: np.ndarray
    state: np.ndarray
