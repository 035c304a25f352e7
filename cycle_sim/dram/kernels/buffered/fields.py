"""The state of a channel that is scheduled straight from its buffers: which array holds what."""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.record import Record, record_of
from pimloom.cycle_sim.dram.kernels.tree import Tree, tree_of

# pool[slot]: a request. ARRIVE: clock at which it was sent; COUNTED: whether its first command has been seen; BESIDE:
# the next one in the active buffer that wants the bank, or -1; SEAT: place in `held`
ADDRESS, WRITE, BANK, ROW, COLUMN, ARRIVE, INDEX, COUNTED, BESIDE, SEAT = range(10)
# bank[b]: open row (-1: closed), accesses since it opened, whether a precharge is on its way, its first request in the
# active buffer (-1: none), rank, requests in the read and in the write buffer; GUARDS: requests in the active buffer as
# the tool counts them: one is counted again when its row was closed under it and is opened again; SEAT…: in `busy`;
# OTHER…: while a row is open, the oldest request in the read and in the write buffer that wants another (-1: none), or
# UNKNOWN
OPENED, ACCESSES, CLOSING, HOLDS, RANK, READS, WRITES, GUARDS, SEAT_READS, SEAT_WRITES, OTHER, OTHER_WRITE = range(12)
UNKNOWN = -2
# state[…]. MISCOUNTED: whether GUARDS was ever wrong; CHECK: the write mode changes in the next clock that asks for it
(
    NOW, WRITING, N_HELD, HEAD, TAIL, N_FREE, N_READ, N_WRITE, NEXT_REFRESH, OUTSTANDING,
    LAST_TICK, STOP, CHECK, UPKEEP, UPKEEP_DONE, READ_LENGTH, WRITE_LENGTH, PRIORITY_LENGTH, HITS, MISSES, CONFLICTS,
    PROGRESS, MISCOUNTED, N_BUSY, N_BUSY_WRITES, N_STATE,
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
    """One channel and its controller.

    age, link, same: see `links`; age[write * banks + b] of the requests in a buffer that want bank b. busy[write]:
    banks that have any there. held: the active buffer. priority: ring of (command, first bank, clock). spare: free
    slots. seen: addresses in the write buffer. ladder: banks at their cap.
    """

    tree: Tree
    log: Record
    policy: np.ndarray
    pool: np.ndarray
    age: np.ndarray
    link: np.ndarray
    same: np.ndarray
    busy: np.ndarray
    held: np.ndarray
    bank: np.ndarray
    priority: np.ndarray
    spare: np.ndarray
    seen: np.ndarray
    ladder: np.ndarray
    state: np.ndarray


@bare
def one(chs, c):
    """Channel c of a stack; what no channel changes is there once."""
    return Channel(
        tree_of(chs.tree, c), record_of(chs.log, c),
        chs.policy, chs.pool[c], chs.age[c], chs.link[c], chs.same[c], chs.busy[c], chs.held[c], chs.bank[c],
        chs.priority[c], chs.spare[c], chs.seen[c], chs.ladder[c], chs.state[c],
    )  # fmt: skip
