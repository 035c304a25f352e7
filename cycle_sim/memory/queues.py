"""The command queues of one channel: which command may issue next, and when."""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.memory.compiled import bare
from pimloom.cycle_sim.memory.device import ACT, FAR, PRE, RD, SRX, WRA, Device

# pool[slot]: a request that waits. WAITING: first of the later requests that end with it, or -1
ADDRESS, WRITE, BANK, ROW, COLUMN, ACCEPTED, INDEX, WAITING = range(8)
PLACE, ENTRY, COMMAND = range(3)  # choice[q, k]
AT, BY, POINTER, N_ACTIVE, STALE = range(5)  # pick: clock and queue (-1: none) of the next command; STALE: look anew
(
    AUTO, ADAPTIVE, TIMEOUT, CAP, HITS_FIRST, OLDEST, READS, WRITES, UNIFIED, DEPTH, DRAIN_HIGH, DRAIN_LOW, DRAIN_IDLE,
    REFRESH, INTERVAL, SLEEP_AFTER, DUAL, DRAMSIM3, READ_CK, WRITE_CK, PER_CK, CLOSE_ALL, PATIENCE,
) = range(23)  # fmt: skip
N_POLICY = 23
LATER = np.int64(1) << 40  # sorts queues without a ready row hit behind the others


class Queues(NamedTuple):
    """Command queues and banks of one channel; all int64.

    pool: see above. queue[q, i]: slots, oldest first; length[q]. choice[q, k], choices[q]: what queue q may issue, oldest
    first; PLACE: in device.free. active: queues that are not empty; place[q]: where in it. row[bank]: open row, -1 closed;
    hits[bank]: accesses since it opened; used[bank]: clock of the last command; wanted[bank]: entries for it;
    rank[bank]; asleep[rank]; blocked[q]; home[bank]: its queue; bus[command].
    """

    device: Device
    policy: np.ndarray
    bus: np.ndarray
    pool: np.ndarray
    queue: np.ndarray
    length: np.ndarray
    choice: np.ndarray
    choices: np.ndarray
    active: np.ndarray
    place: np.ndarray
    row: np.ndarray
    hits: np.ndarray
    used: np.ndarray
    wanted: np.ndarray
    rank: np.ndarray
    asleep: np.ndarray
    blocked: np.ndarray
    home: np.ndarray
    pick: np.ndarray


@bare
def choose(s, q):
    """Find out anew what queue q may issue."""
    n, banks = 0, s.row.shape[0]
    for i in range(s.length[q]):
        slot = s.queue[q, i]
        b, write = s.pool[slot, BANK], s.pool[slot, WRITE]
        if s.row[b] >= 0:
            c = RD + write + s.policy[AUTO] if s.row[b] == s.pool[slot, ROW] else PRE
        else:
            c = SRX if s.asleep[s.rank[b]] else ACT
        place, known = c * banks + (s.device.low[2, b] if c == SRX else b), False
        for k in range(n):
            known = known or s.choice[q, k, PLACE] == place
        if known or (c == PRE and not _may_close(s, q, i, b)) or (RD <= c <= WRA and write and not _in_order(s, q, i)):
            continue
        s.choice[q, n, PLACE], s.choice[q, n, ENTRY], s.choice[q, n, COMMAND] = place, i, c
        n += 1
    s.choices[q] = n


@bare
def _may_close(s, q, i, b):
    """Whether entry i may close the row of bank b: no older entry wants the bank, and none wants its row any more."""
    for j in range(i):
        if s.pool[s.queue[q, j], BANK] == b:
            return False
    if s.hits[b] >= s.policy[CAP]:
        return True
    for j in range(i, s.length[q]):
        slot = s.queue[q, j]
        if s.pool[slot, BANK] == b and s.pool[slot, ROW] == s.row[b]:
            return False
    return True


@bare
def _in_order(s, q, i):
    """Whether no older read of queue q wants what write i writes."""
    slot = s.queue[q, i]
    for j in range(i):
        o = s.queue[q, j]
        if not s.pool[o, WRITE] and s.pool[o, COLUMN] == s.pool[slot, COLUMN] and s.pool[o, ROW] == s.pool[slot, ROW]:
            if s.pool[o, BANK] == s.pool[slot, BANK]:
                return False
    return True


@bare
def _soonest(s, q, not_before, bus):
    """First clock from `not_before` on in which queue q may issue a command on `bus` (-1: any)."""
    t = FAR
    for k in range(s.choices[q]):
        if bus < 0 or s.bus[s.choice[q, k, COMMAND]] == bus:
            t = min(t, s.device.free[s.choice[q, k, PLACE]])
    return max(t, not_before)


@bare
def ready_choice(s, q, at, bus):
    """Which choice of queue q issues at clock `at`: the oldest that is ready, row hits first if the policy says so."""
    found = -1
    for k in range(s.choices[q]):
        c = s.choice[q, k, COMMAND]
        if (bus < 0 or s.bus[c] == bus) and s.device.free[s.choice[q, k, PLACE]] <= at:
            if not s.policy[HITS_FIRST] or RD <= c <= WRA:
                return k
            if found < 0:
                found = k
    return found


@bare
def _turn(s, q, at, bus):
    """Sorts queues that are ready in the same clock: the least comes first."""
    n = s.length.shape[0]
    turn = q - s.pick[POINTER] - 1
    if turn < 0:
        turn += n
    if s.policy[OLDEST] or s.policy[HITS_FIRST]:
        k = ready_choice(s, q, at, bus)
        if s.policy[OLDEST]:
            turn = s.pool[s.queue[q, s.choice[q, k, ENTRY]], INDEX]
        if s.policy[HITS_FIRST] and not RD <= s.choice[q, k, COMMAND] <= WRA:
            turn += LATER
    return turn


@bare
def look(s, not_before, bus):
    """Find the queue whose command comes next, not before `not_before`, on `bus` (-1: any)."""
    at, by, best = FAR, np.int64(-1), FAR
    for a in range(s.pick[N_ACTIVE]):
        q = s.active[a]
        if s.blocked[q]:
            continue
        t = _soonest(s, q, not_before, bus)
        if t > at or t == FAR:
            continue
        turn = _turn(s, q, t, bus)
        if t < at or turn < best:
            at, by, best = t, q, turn
    s.pick[AT], s.pick[BY], s.pick[STALE] = at, by, 0


@bare
def compare(s, q, not_before):
    """Queue q has got an entry: see whether its command comes before what comes next."""
    if s.pick[BY] == q:
        s.pick[STALE] = 1
    if s.pick[STALE] or s.blocked[q]:
        return
    t = _soonest(s, q, not_before, -1)
    if t < s.pick[AT]:
        s.pick[AT], s.pick[BY] = t, q
    elif t < FAR and t == s.pick[AT] and _turn(s, q, t, -1) < _turn(s, s.pick[BY], t, -1):
        s.pick[BY] = q


@bare
def append(s, q, slot):
    """Put a request at the end of queue q."""
    n = s.length[q]
    if n == 0:
        s.active[s.pick[N_ACTIVE]], s.place[q] = q, s.pick[N_ACTIVE]
        s.pick[N_ACTIVE] += 1
    s.queue[q, n] = slot
    s.length[q] = n + 1
    s.wanted[s.pool[slot, BANK]] += 1
    choose(s, q)


@bare
def take(s, q, i):
    """Take entry i out of queue q; `choose` is the caller's."""
    s.wanted[s.pool[s.queue[q, i], BANK]] -= 1
    n = s.length[q] - 1
    for j in range(i, n):
        s.queue[q, j] = s.queue[q, j + 1]
    s.length[q] = n
    if n == 0:
        last = s.pick[N_ACTIVE] - 1
        moved = s.active[last]
        s.active[s.place[q]], s.place[moved] = moved, s.place[q]
        s.pick[N_ACTIVE] = last
