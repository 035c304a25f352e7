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

# request[i], dot[i]: opcode, bank of the channel, row, column, COMPs of a GEMV, all COMPs and results that a header
# announces, whether the tile ends, group that is counted down when it is done
KIND, BANK, ROW, COLUMN, COUNT, COMPS, RESULTS, LAST, GROUP = range(9)
SEEN, ALIKE = COUNT, COMPS  # request[i], of a read or write instead: its places in `seen` and `queued`
CHANNEL, N_DOT = 9, 10  # dot[i]: its channel, too
# request[i]: next and previous one in its command queue; next one that ends with the same access, and the last of
# these; turn in the queue; next and previous one in its chain, see `queued`
# (of the first one this is not kept)
NEXT, BEFORE, TWIN, LAST_TWIN, TURN, NEXT_ALIKE, BEFORE_ALIKE = range(9, 16)
N_REQUEST = 16  # 64 bytes
NODE_PLACES = 16  # bound: of a node, one for each command; a power of two
PATH_PLACES = 8  # path[b]: of the nodes that hold a bank, those of no depth left at 0
# order[p, k]: a read or write (see `word_of`) or, negative, -1 - its place in dot; first clock, or with PATH first step
# of the interconnect; group; as many more reads or writes follow, of the next columns
WORD, WHEN, OF, MORE, N_ORDER = range(5)
BEYOND = 7  # 1, and places that `order` has more than a power of two: all channels would share lines of the caches
# port[p], of order[p]: the first that has not entered, the end, the first that has not passed the core's buffer, the
# step in which the one before it came there
OFFERED, LAST_ONE, PASSED, CAME, N_PORT = range(5)
# bank[b]: open row of the MEM and of the PIM row buffer (-1: closed), accesses since it opened; first and last
# request of its command queue, first read and first write to the open row (-1: none), entries, reads and writes that
# the controller still holds; row of the first request; a request for it with none for another row before it;
# clock in which a bank that sleeps wakes
MEM, PIM, SERVED, FIRST, FINAL, READ_HIT, WRITE_HIT, ENTRIES, LISTED, FIRST_ROW, RUN, WAKE, N_BANK = range(13)
MIXED = -2
BANK_BITS, COLUMN_BITS = 5, 20  # of a key
MOST_BANKS = 1 << BANK_BITS  # of a channel: a mask has a bit for each
# list[…]: ring of the requests that the controller holds before their command queue
READS, WRITES, PIMS, LISTS = range(4)
SLOT, KEY, TO, N_LIST = range(4)  # list[l, k]: request, key, bank
# line[…]: responses that follow each other in order of their clocks; of those due in one clock the oldest comes first
COPY, GEMVS, LATE, QUICK, LINES = range(5)
DUE_AT, ANSWERS, N_LINE = range(3)  # line[l, k]: clock, group
N_QUEUED = 3  # queued[…]: see Channel
# answer[k]: group, its responses, clock in which the core sees the last of them, channel and number of that one
WHOSE, MANY, LAST_AT, LAST_TURN, N_ANSWER = range(5)
# state[…]. NOW: the next clock in which anything can happen; READING, WRITING, OPENING, MISSING: masks of banks, see
# `banks`; FULL: mask of the banks with a full queue; HELD: requests accepted, not yet collected; SOONEST: no response
# is due before; STILL, BLOCKED_TO: list whose requests before that place cannot move (-1: none known); DOTS_SENT: PIM
# commands that the core has sent; NUMBER: of the channel; ANSWERED: responses so far; MEM_ROWS, PIM_ROWS: masks of
# the banks with an open row in that buffer; PIM_ROW: the row of all of the latter, or MIXED; TILES: last commands of a
# tile in the PIM command queue; AGED: clock in which REMAIN held; ASLEEP: mask of the closed banks that sleep;
# ALARM: none of them wakes before; BUFFER: step of the interconnect in which a request last left the core's buffer;
# RETURN: first in which a response may leave the controller; BACK: clock in which the core sees the last one that did;
# N_ANSWERS: entries of `answer`; OFFER_AT: no request enters before; PORTS: mask of the ports that may have a request;
# ANSWERING: mask of the lines of responses that are not empty; LEAVING: whether responses may still leave the
# controller; SETTLED: no request moves to a command queue before something else changes; DRIFTS, AHEAD_BY, STEADY:
# entries of `drift` that were looked at, steps more than should be, clock before which it stays so
(
    NOW, POINTER, DRAIN, LOCK, HELD, QUEUED, DOTS_FIRST, DOTS_END, NEXT_REFRESH, NEXT_RANK, DUE, IN_REFRESH, SKIP,
    REMAIN, RESERVED, COPYING, COPY_BANK, BLOCKED, FILL, TURNS, HANDED, READING, WRITING, OPENING, MISSING, ACTED,
    N_COMMANDS, SPARES, FULL, SOONEST, STILL, BLOCKED_TO, DOTS_SENT, NUMBER,
    ANSWERED, MEM_ROWS, PIM_ROWS, PIM_ROW, TILES, AGED, ASLEEP, ALARM, BUFFER, RETURN, BACK, N_ANSWERS, OFFER_AT,
    PORTS, ANSWERING, LEAVING, SETTLED, DRIFTS, AHEAD_BY, STEADY, N_STATE,
) = range(55)  # fmt: skip
# policy[…], behind the state in its row, so that both have one address. DUAL: PIM has a row buffer and a list of its
# own; SINGLE: one row buffer, blocked; CLOSED: banks that a PIM_PRECHARGE closes; PER_GROUP: banks of a bank group;
# WHOLE: a header waits for its tile; EXACT_SLACK: slack is exact, REMAIN ages; PATH: steps of the interconnect in a
# clock, 0: requests and responses take a clock each; COLUMNS: of a row, one for each access; BANKS; PER_RANK: banks of
# a rank; GROUPS: bank groups; REFRESH_CK: between refreshes of one rank and the next; LEAST_COMPS: that take as long
# as the least GEMV; DEPTHS: of the nodes of rules, at most PATH_PLACES
(
    DUAL, SINGLE, ENTRIES_MAX, QUEUE_MAX, DOTS_MAX, WINDOW, CAP, DRAIN_IDLE, REFI, RANKS, READ_CK, COPY_CK, COMP_CK,
    GEMV_CK, TREE_CK, PRE_CK, ACT_CK, CLOSE_CK, FAW_CK, FLOOR, OFFERS, EXACT_GROUP, LATE_GEMV, LOGGING,
    CLOSED, PER_GROUP, WHOLE, EXACT_SLACK, PATH, COLUMNS, BANKS,
    PER_RANK, GROUPS, REFRESH_CK, LEAST_COMPS, DEPTHS, END_OF_POLICY,
) = range(N_STATE, N_STATE + 37)  # fmt: skip
# the rest of the row: `first`, `length`, `head`, `tail`, `bank`
FIRST_AT = END_OF_POLICY
LENGTH_AT = FIRST_AT + LISTS
HEAD_AT = LENGTH_AT + LISTS
TAIL_AT = HEAD_AT + LINES
BANK_AT = -(-(TAIL_AT + LINES) // 8) * 8  # where a line of the caches begins
N_ROW = (-(-(BANK_AT + MOST_BANKS * N_BANK) // 8) | 1) * 8  # an odd number of lines: channels do not share sets


class Device(NamedTuple):
    """Rules between commands: rule and ring as in `cycle_sim.dram.kernels.device`, so bound with NODE_PLACES a node;
    first_rule as in `rules`.
    path[b, depth]: where the node that holds bank b begins in `bound`; place[i, b]: place there that rule i binds when
    its command issues to bank b."""

    path: np.ndarray
    bound: np.ndarray
    place: np.ndarray
    rule: np.ndarray
    first_rule: np.ndarray
    ring: np.ndarray


class Channel(NamedTuple):
    """One channel and its controller. state: `state`, then `policy` and the rest of the row, see `opened`.

    order[p, k]: ring of the requests that are to enter by port p; dot: all PIM
    commands. request: those that the controller has taken, at free places: SPARES of them are in `spare`.
    dots: ring of the PIM command queue. line[l, k]: ring of (clock, group), from head[l] to tail[l]. answer[k]:
    responses that the core has not counted, in runs of one group. left[g]:
    requests of a group that are not collected yet; done[g]: clock in which the last one was; turn[g]: its channel
    and its number there; ended: how many groups became complete, and which; open[owner[g]]: requests of the owner of
    a group. command[k]: log of (clock, opcode, bank, row). tally[c]: commands issued; seen, alike: how many reads wait
    whose keys share a place, how many writes and, behind them, GWRITEs. queued: first and last request of a chain
    through the command queues, and its tag if all are of one.
    rank[buffer * ranks + r]: open banks, clock since which, clocks with a row open. drift: see `clocks`.
    """

    device: Device
    request: np.ndarray
    spare: np.ndarray
    list: np.ndarray
    dots: np.ndarray
    line: np.ndarray
    order: np.ndarray
    dot: np.ndarray
    port: np.ndarray
    left: np.ndarray
    done: np.ndarray
    turn: np.ndarray
    ended: np.ndarray
    owner: np.ndarray
    open: np.ndarray
    answer: np.ndarray
    seen: np.ndarray
    alike: np.ndarray
    queued: np.ndarray
    command: np.ndarray
    tally: np.ndarray
    rank: np.ndarray
    drift: np.ndarray
    state: np.ndarray


class Open(NamedTuple):
    """A channel as its kernels see it: with what lies in the row of its state. first[l], length[l]: of the ring of
    list l; head[l], tail[l]: of the line l of responses."""

    policy: np.ndarray
    bank: np.ndarray
    first: np.ndarray
    length: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    device: Device
    request: np.ndarray
    spare: np.ndarray
    list: np.ndarray
    dots: np.ndarray
    line: np.ndarray
    order: np.ndarray
    dot: np.ndarray
    port: np.ndarray
    left: np.ndarray
    done: np.ndarray
    turn: np.ndarray
    ended: np.ndarray
    owner: np.ndarray
    open: np.ndarray
    answer: np.ndarray
    seen: np.ndarray
    alike: np.ndarray
    queued: np.ndarray
    command: np.ndarray
    tally: np.ndarray
    rank: np.ndarray
    drift: np.ndarray
    state: np.ndarray
