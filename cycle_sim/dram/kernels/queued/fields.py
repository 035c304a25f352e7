"""The state of a channel with command queues: which array holds what."""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.record import Record, record_of
from pimloom.cycle_sim.dram.kernels.tree import Tree, tree_of

# pool[slot]: a request that waits. WAITING: first of the later requests that end with it, or -1; TURN: the least goes
# first; BEHIND: the next one in the read or the write queue that goes to the same command queue, or -1
ADDRESS, WRITE, BANK, ROW, COLUMN, ACCEPTED, INDEX, WAITING, TURN, BEHIND = range(10)
# bank[b]: open row (-1: closed), accesses since it opened, clock of the last command, entries that want it, its rank,
# its command queue
OPENED, HITS, USED, WANTED, RANK, HOME = range(6)
# line[q]: entries, whether it is blocked; first and last request for it in the read and in the write queue (-1: none)
N_ENTRIES, BLOCKED, FIRST, FIRST_WRITE, LAST, LAST_WRITE = range(6)
READS, WRITES, IDLE = range(3)  # ladders; tables of seen
NUMBER, WHEN, NEXT = range(3)  # waiting[w]
# state[…]. POINTER: a bank of the queue that issued last; APPENDED: requests moved to command queues so far, ENTERED:
# requests that entered the read or the write queue; CALLS: entries of command queues that wait for sleeping ranks
(
    POINTER, APPENDED, ENTERED, NOW, MOVE, DRAIN, QUEUED, N_READ, N_WRITE, OUTSTANDING, N_FREE, FREE_WAIT,
    NEXT_REFRESH, REF_HEAD, REF_TAIL, ARMED, REF_AT, STOP, TURN_RANK, TURN_GROUP, TURN_BANK, TAKEN, PROGRESS,
    CALLS, N_STATE,
) = range(25)  # fmt: skip
# policy[…]. QUEUE_DEPTH: of the nodes that a queue serves; OF_REFRESH: banks of a REFab; FORCE: clocks after which
# a refresh that is due stops all command queues; BUS: of each command, one
# after the other
(
    AUTO, ADAPTIVE, TIMEOUT, CAP, HITS_FIRST, OLDEST, READ_ENTRIES, WRITE_ENTRIES, UNIFIED, DEPTH, DRAIN_HIGH,
    DRAIN_LOW, DRAIN_IDLE, REFRESH, INTERVAL, SLEEP_AFTER, DUAL, DRAMSIM3, READ_CK, WRITE_CK, PER_CK, CLOSE_ALL,
    PATIENCE, QUEUE_DEPTH, OF_QUEUE, OF_RANK, OF_GROUP, OF_REFRESH, FORCE, BUS,
) = range(30)  # fmt: skip
NONE, ALL_BANK, STAGGERED, PER_BANK = range(4)  # REFRESH
FREE, HELD, FORCED = range(3)  # ARMED: what the first refresh stops: nothing yet, its banks' queues, all queues
DONE, MORE, FLUSH, GROW, PAUSE, LIVELOCK, ASLEEP, STARVED, LOST, REST = range(10)  # what kernels return


class Channel(NamedTuple):
    """One channel and its controller.

    age, link, same: see `links`; age[b] of the requests in a command queue that want bank b, in turn. spare: free
    slots. seen: addresses that wait to be read, to be written. waiting[w]: a request that ends with another one.
    refreshes: ring of (command, bank, clock in which it fell due). ladder: see `waiting`, and rows that nobody uses.
    """

    tree: Tree
    log: Record
    policy: np.ndarray
    pool: np.ndarray
    age: np.ndarray
    link: np.ndarray
    same: np.ndarray
    line: np.ndarray
    bank: np.ndarray
    spare: np.ndarray
    ladder: np.ndarray
    seen: np.ndarray
    waiting: np.ndarray
    refreshes: np.ndarray
    state: np.ndarray


@bare
def one(chs, c):
    """Channel c of a stack; what no channel changes is there once."""
    return Channel(
        tree_of(chs.tree, c), record_of(chs.log, c),
        chs.policy, chs.pool[c], chs.age[c], chs.link[c], chs.same[c], chs.line[c], chs.bank[c], chs.spare[c],
        chs.ladder[c], chs.seen[c], chs.waiting[c], chs.refreshes[c], chs.state[c],
    )  # fmt: skip
