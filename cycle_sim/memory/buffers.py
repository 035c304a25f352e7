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
# choice[q]: the oldest row hit and the oldest other request of a queue: place of its command in device.free (-1: there is
# none), arrival, entry; the queue's bank
HIT, HIT_ARRIVE, HIT_ENTRY, OTHER, OTHER_ARRIVE, OTHER_ENTRY, OF_BANK = range(7)
AT, KIND, WHERE = range(3)  # pick[slot]: clock of the next command, who: place in `held`, or queue and HIT or OTHER
HELD, PRIORITY, QUEUE_HIT, QUEUE_OTHER = range(4)
(
    NOW, WRITING, N_HELD, HEAD, TAIL, N_FREE, N_READ, N_WRITE, NEXT_REFRESH, OUTSTANDING, LAST_TICK, STOP, CHECK, UPKEEP,
    UPKEEP_DONE, READ_LENGTH, WRITE_LENGTH, PRIORITY_LENGTH, HITS, MISSES, CONFLICTS, PROGRESS, STALE,
) = range(23)  # fmt: skip
N_STATE = 23  # STALE: the picks must be looked for anew
(
    READS, WRITES, HIGH, LOW, CAP, CLOSING_CAP, SPARE_HITS, INTERVAL, SCOPE, READ_CK, PRIORITIES, DUAL, PATIENCE,
) = range(13)  # fmt: skip
N_POLICY = 13

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
    c, banks, hit, other = s.choice, s.row.shape[0], -1, -1
    b, k = c[q, OF_BANK], np.int64(q >= banks)
    for i in range(s.length[q]):
        if s.row[b] >= 0 and s.pool[s.queue[q, i], ROW] == s.row[b]:
            if hit < 0:
                hit = i
        elif other < 0:
            other = i
    if hit >= 0:
        c[q, HIT], c[q, HIT_ARRIVE], c[q, HIT_ENTRY] = (RD + k) * banks + b, s.pool[s.queue[q, hit], ARRIVE], hit
    else:
        c[q, HIT] = -1
    if other >= 0 and not (s.policy[SPARE_HITS] and s.row[b] >= 0 and 0 <= hit < other):
        command = ACT if s.row[b] < 0 else PRE
        c[q, OTHER], c[q, OTHER_ARRIVE], c[q, OTHER_ENTRY] = (
            command * banks + b,
            s.pool[s.queue[q, other], ARRIVE],
            other,
        )
    else:
        c[q, OTHER] = -1


@bare
def _would_close(s, low, high):
    if s.state[N_HELD] > 0:
        for b in range(low, high):
            if s.holds[b] > 0:
                return True
    return False


@bare
def offer(s, q, not_before):
    """Queue q has got a request, the youngest of all: it comes next where its command is the first to be legal."""
    c, b = s.choice, s.choice[q, OF_BANK]
    if c[q, HIT] >= 0:
        at = max(s.device.free[c[q, HIT]], not_before)
        if at < s.pick[0, AT]:
            s.pick[0, AT], s.pick[0, KIND], s.pick[0, WHERE] = at, QUEUE_HIT, q
    if c[q, OTHER] >= 0 and (s.row[b] < 0 or not _would_close(s, b, b + 1)):
        at, lane = max(s.device.free[c[q, OTHER]], not_before), s.policy[DUAL]
        if at < s.pick[lane, AT]:
            s.pick[lane, AT], s.pick[lane, KIND], s.pick[lane, WHERE] = at, QUEUE_OTHER, q


@bare
def look(s, not_before):
    """Find who issues next, not before `not_before`: in lane 0; with two buses, columns there and rows in lane 1."""
    g, p, banks, dual, free = s.state, s.pick, s.row.shape[0], s.policy[DUAL], s.device.free
    p[0, AT] = p[1, AT] = FAR
    best = FAR
    for i in range(g[N_HELD]):
        c = needs(s, s.held[i])
        if not dual or is_column(c):
            at, arrive = max(free[c * banks + s.pool[s.held[i], BANK]], not_before), s.pool[s.held[i], ARRIVE]
            if at < p[0, AT] or (at == p[0, AT] and arrive < best):
                p[0, AT], p[0, KIND], p[0, WHERE], best = at, HELD, i, arrive
    if g[HEAD] != g[TAIL]:
        c, low, high = front(s)
        if c == REFAB or not _would_close(s, low, high):
            at = max(free_from(s.device, c, low), not_before)
            if at < p[dual, AT]:
                p[dual, AT], p[dual, KIND] = at, PRIORITY
        return
    hit_at, hit_arrive, hit_q, other_at, other_arrive, other_q = FAR, FAR, np.int64(-1), FAR, FAR, np.int64(-1)
    k, guarded = g[WRITING], g[N_HELD] > 0
    for a in range(s.n_active[k]):
        q = s.active[k, a]
        if s.choice[q, HIT] >= 0:
            at = max(free[s.choice[q, HIT]], not_before)
            if at < hit_at or (at == hit_at and s.choice[q, HIT_ARRIVE] < hit_arrive):
                hit_at, hit_arrive, hit_q = at, s.choice[q, HIT_ARRIVE], q
        if s.choice[q, OTHER] >= 0:
            at = max(free[s.choice[q, OTHER]], not_before)
            if at < other_at or (at == other_at and s.choice[q, OTHER_ARRIVE] < other_arrive):
                b = s.choice[q, OF_BANK]
                if not (guarded and s.row[b] >= 0 and s.holds[b] > 0):
                    other_at, other_arrive, other_q = at, s.choice[q, OTHER_ARRIVE], q
    if hit_at < p[0, AT] and (dual or hit_at < other_at or (hit_at == other_at and hit_arrive < other_arrive)):
        p[0, AT], p[0, KIND], p[0, WHERE] = hit_at, QUEUE_HIT, hit_q
    elif other_at < p[dual, AT]:
        p[dual, AT], p[dual, KIND], p[dual, WHERE] = other_at, QUEUE_OTHER, other_q
    if dual and other_at < p[1, AT]:
        p[1, AT], p[1, KIND], p[1, WHERE] = other_at, QUEUE_OTHER, other_q


@bare
def put(s, q, slot):
    """Put a request at the end of queue q."""
    n, k = s.length[q], np.int64(q >= s.row.shape[0])
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
    n, k = s.length[q] - 1, np.int64(q >= s.row.shape[0])
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
