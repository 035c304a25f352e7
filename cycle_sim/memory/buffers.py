"""The buffers of one channel (Ramulator's structure): who may issue next, and when.

Precedence in a clock: requests in the active buffer, whose row was opened for them; then the front of the priority
buffer (refreshes, precharges); then, if that is empty, the read or the write buffer. Among those that are ready the
oldest is first.
"""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.memory.compiled import bare
from pimloom.cycle_sim.memory.device import ACT, FAR, PRE, PREAB, RD, REFAB, WRA, Device, free_from

# pool[slot]: a request. ARRIVE: clock at which it was sent; COUNTED: whether its first command has been seen
ADDRESS, WRITE, BANK, ROW, COLUMN, ARRIVE, INDEX, COUNTED = range(8)
HIT, OTHER = range(2)  # choice[q]: entry of the oldest row hit, of the oldest other request; -1: none
AT, KIND, WHERE = range(3)  # pick[slot]: clock of the next command, who: place in `held`, or queue and HIT or OTHER
HELD, PRIORITY, QUEUE_HIT, QUEUE_OTHER = range(4)
ALL, COLUMNS, ROWS = range(3)  # which commands a slot issues
(
    NOW, WRITING, N_HELD, HEAD, TAIL, N_FREE, N_READ, N_WRITE, NEXT_REFRESH, OUTSTANDING, LAST_TICK, STOP, CHECK, UPKEEP,
    UPKEEP_DONE, READ_LENGTH, WRITE_LENGTH, PRIORITY_LENGTH, HITS, MISSES, CONFLICTS, STALE,
) = range(22)  # fmt: skip
N_STATE = 23  # STALE: one of each lane, whether its pick must be looked for anew
(READS, WRITES, HIGH, LOW, CAP, CLOSING_CAP, SPARE_HITS, INTERVAL, SCOPE, READ_CK, PRIORITIES, DUAL) = range(12)
N_POLICY = 12

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


class Buffers(NamedTuple):
    """Buffers and banks of one channel; all int64.

    queue[k * banks + b, i]: slots of the reads (k = 0) and writes (1) for bank b, oldest first; length, choice: of each.
    active[k], n_active[k], place[q]: queues that are not empty. held: the active buffer; holds[b]: its count for bank b.
    priority: ring of (command, first bank). row[b], accesses[b] since it opened, closing[b]: a precharge is on its way.
    state, policy: scalars, see above.
    """

    device: Device
    policy: np.ndarray
    pool: np.ndarray
    queue: np.ndarray
    length: np.ndarray
    choice: np.ndarray
    active: np.ndarray
    n_active: np.ndarray
    place: np.ndarray
    held: np.ndarray
    holds: np.ndarray
    priority: np.ndarray
    row: np.ndarray
    accesses: np.ndarray
    closing: np.ndarray
    pick: np.ndarray
    state: np.ndarray


@bare
def needs(s, slot):
    """The command that brings a request on."""
    b = s.pool[slot, BANK]
    if s.row[b] < 0:
        return ACT
    return RD + s.pool[slot, WRITE] if s.row[b] == s.pool[slot, ROW] else PRE


@bare
def front(s):
    """(command, first bank, end of the banks) that brings the front of the priority buffer on."""
    place = s.state[HEAD] % s.priority.shape[0]
    c, low = s.priority[place, 0], s.priority[place, 1]
    if c == PRE:
        return PRE, low, low + 1
    high = low + s.policy[SCOPE]
    for b in range(low, high):
        if s.row[b] >= 0:
            return PREAB, low, high
    return REFAB, low, high


@bare
def is_column(c):
    return RD <= c <= WRA


@bare
def choose(s, q):
    """Find out anew whom queue q would send."""
    hit, other, b = -1, -1, q % s.row.shape[0]
    for i in range(s.length[q]):
        if s.row[b] >= 0 and s.pool[s.queue[q, i], ROW] == s.row[b]:
            if hit < 0:
                hit = i
        elif other < 0:
            other = i
    s.choice[q, HIT], s.choice[q, OTHER] = hit, other


@bare
def _would_close(s, low, high):
    if s.state[N_HELD] > 0:
        for b in range(low, high):
            if s.holds[b] > 0:
                return True
    return False


@bare
def _offer(s, lane, at, kind, where, arrive, best):
    """Take the offer if it comes before the best so far; returns the `arrive` of the best."""
    p = s.pick
    if at < p[lane, AT] or (at == p[lane, AT] and at < FAR and kind // 2 == p[lane, KIND] // 2 and arrive < best):
        p[lane, AT], p[lane, KIND], p[lane, WHERE] = at, kind, where
        return arrive
    return best


@bare
def offer_queue(s, lane, which, q, not_before, best):
    """Let the requests of queue q be offered."""
    banks = s.row.shape[0]
    b, hit, other = q % banks, s.choice[q, HIT], s.choice[q, OTHER]
    if hit >= 0 and which != ROWS:
        slot = s.queue[q, hit]
        at = max(s.device.free[(RD + s.pool[slot, WRITE]) * banks + b], not_before)
        best = _offer(s, lane, at, QUEUE_HIT, q, s.pool[slot, ARRIVE], best)
    if other >= 0 and which != COLUMNS:
        c = ACT if s.row[b] < 0 else PRE
        spared = c == PRE and (_would_close(s, b, b + 1) or (s.policy[SPARE_HITS] and 0 <= hit < other))
        if not spared:
            slot = s.queue[q, other]
            best = _offer(
                s, lane, max(s.device.free[c * banks + b], not_before), QUEUE_OTHER, q, s.pool[slot, ARRIVE], best
            )
    return best


@bare
def look(s, lane, which, not_before):
    """Find who issues next in a lane, not before `not_before`."""
    g, banks, best = s.state, s.row.shape[0], FAR
    s.pick[lane, AT] = FAR
    if which != ROWS:
        for i in range(g[N_HELD]):
            c, b = needs(s, s.held[i]), s.pool[s.held[i], BANK]
            if which == ALL or is_column(c):
                at = max(s.device.free[c * banks + b], not_before)
                best = _offer(s, lane, at, HELD, i, s.pool[s.held[i], ARRIVE], best)
    if g[HEAD] != g[TAIL]:
        c, low, high = front(s)
        if which != COLUMNS and (c == REFAB or not _would_close(s, low, high)):
            at = max(free_from(s.device, c, low, high), not_before)
            if at < s.pick[lane, AT]:
                s.pick[lane, AT], s.pick[lane, KIND] = at, PRIORITY
    else:
        k = g[WRITING]
        for a in range(s.n_active[k]):
            best = offer_queue(s, lane, which, s.active[k, a], not_before, best)


@bare
def put(s, q, slot):
    """Put a request at the end of queue q."""
    n, k = s.length[q], q // s.row.shape[0]
    if n == 0:
        s.active[k, s.n_active[k]], s.place[q] = q, s.n_active[k]
        s.n_active[k] += 1
    s.queue[q, n] = slot
    s.length[q] = n + 1
    s.state[N_READ + k] += 1
    choose(s, q)


@bare
def take(s, q, i):
    """Take entry i out of queue q; `choose` is the caller's."""
    n, k = s.length[q] - 1, q // s.row.shape[0]
    for j in range(i, n):
        s.queue[q, j] = s.queue[q, j + 1]
    s.length[q] = n
    s.state[N_READ + k] -= 1
    if n == 0:
        last = s.n_active[k] - 1
        moved = s.active[k, last]
        s.active[k, s.place[q]], s.place[moved] = moved, s.place[q]
        s.n_active[k] = last


@bare
def drop_held(s, i):
    """Take the request at place i out of the active buffer."""
    n = s.state[N_HELD] - 1
    for j in range(i, n):
        s.held[j] = s.held[j + 1]
    s.state[N_HELD] = n
