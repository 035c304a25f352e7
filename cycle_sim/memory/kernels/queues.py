"""The command queues of a channel: which command may issue next, and when."""

import numpy as np

from pimloom.cycle_sim.memory.kernels import queued_fields as f
from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.memory.kernels.device import ACT, FAR, PRE, RD, SRX, WRA
from pimloom.cycle_sim.memory.kernels.record import SLEEPS

LATER = np.int64(1) << 40  # sorts queues without a ready row hit behind the others


@bare
def is_column(c):
    """Whether a command reads or writes."""
    return RD <= c <= WRA


@bare
def choose(ch, q):
    """Find out anew what queue q may issue."""
    n, banks = 0, ch.bank.shape[0]
    for i in range(ch.line[q, f.N_ENTRIES]):
        slot = ch.queue[q, i]
        b, write = ch.pool[slot, f.BANK], ch.pool[slot, f.WRITE]
        place = b
        if ch.bank[b, f.OPENED] >= 0:
            c = RD + write + ch.policy[f.AUTO] if ch.bank[b, f.OPENED] == ch.pool[slot, f.ROW] else PRE
        elif ch.rank[ch.bank[b, f.RANK], SLEEPS]:
            c, place = SRX, ch.low[2, b]
        else:
            c = ACT
        place, known = place + c * banks, False
        for k in range(n):
            known = known or ch.choice[q, k, f.FREE] == place
        if known or (c == PRE and not _may_close(ch, q, i, b)) or (is_column(c) and write and not _in_order(ch, q, i)):
            continue
        ch.choice[q, n, f.FREE], ch.choice[q, n, f.ENTRY], ch.choice[q, n, f.COMMAND] = place, i, c
        n += 1
    ch.line[q, f.N_CHOICES] = n


@bare
def _may_close(ch, q, i, b):
    """Whether entry i may close the row of bank b: no older entry wants the bank, and none wants its row any more."""
    for j in range(i):
        if ch.pool[ch.queue[q, j], f.BANK] == b:
            return False
    if ch.bank[b, f.HITS] >= ch.policy[f.CAP]:
        return True
    for j in range(i, ch.line[q, f.N_ENTRIES]):
        slot = ch.queue[q, j]
        if ch.pool[slot, f.BANK] == b and ch.pool[slot, f.ROW] == ch.bank[b, f.OPENED]:
            return False
    return True


@bare
def _in_order(ch, q, i):
    """Whether no older read of queue q wants what write i writes."""
    pool, slot = ch.pool, ch.queue[q, i]
    for j in range(i):
        o = ch.queue[q, j]
        same = pool[o, f.COLUMN] == pool[slot, f.COLUMN] and pool[o, f.ROW] == pool[slot, f.ROW]
        if same and not pool[o, f.WRITE] and pool[o, f.BANK] == pool[slot, f.BANK]:
            return False
    return True


@bare
def _soonest(ch, q, not_before, bus):
    """First clock from `not_before` on in which queue q may issue a command on `bus` (-1: any)."""
    t = FAR
    for k in range(ch.line[q, f.N_CHOICES]):
        if bus < 0 or ch.policy[f.BUS + ch.choice[q, k, f.COMMAND]] == bus:
            t = min(t, ch.free[ch.choice[q, k, f.FREE]])
    return max(t, not_before)


@bare
def ready_choice(ch, q, at, bus):
    """Which choice of queue q issues at clock `at`: the oldest that is ready, row hits first if the policy says so."""
    found = -1
    for k in range(ch.line[q, f.N_CHOICES]):
        c = ch.choice[q, k, f.COMMAND]
        if (bus < 0 or ch.policy[f.BUS + c] == bus) and ch.free[ch.choice[q, k, f.FREE]] <= at:
            if not ch.policy[f.HITS_FIRST] or is_column(c):
                return k
            if found < 0:
                found = k
    return found


@bare
def _turn(ch, q, at, bus):
    """Sorts queues that are ready in the same clock: the least comes first."""
    turn = q - ch.state[f.POINTER] - 1
    if turn < 0:
        turn += ch.line.shape[0]
    if ch.policy[f.OLDEST] or ch.policy[f.HITS_FIRST]:
        k = ready_choice(ch, q, at, bus)
        if ch.policy[f.OLDEST]:
            turn = ch.pool[ch.queue[q, ch.choice[q, k, f.ENTRY]], f.INDEX]
        if ch.policy[f.HITS_FIRST] and not is_column(ch.choice[q, k, f.COMMAND]):
            turn += LATER
    return turn


@bare
def look(ch, not_before, bus):
    """Find the queue whose command comes next, not before `not_before`, on `bus` (-1: any)."""
    at, by, best = FAR, np.int64(-1), FAR
    for a in range(ch.state[f.N_ACTIVE]):
        q = ch.line[a, f.ACTIVE]
        if ch.line[q, f.BLOCKED]:
            continue
        t = _soonest(ch, q, not_before, bus)
        if t > at or t == FAR:
            continue
        turn = _turn(ch, q, t, bus)
        if t < at or turn < best:
            at, by, best = t, q, turn
    ch.state[f.AT], ch.state[f.BY], ch.state[f.STALE] = at, by, 0


@bare
def compare(ch, q, not_before):
    """Queue q has got an entry: see whether its command comes before what comes next."""
    g = ch.state
    if g[f.BY] == q:
        g[f.STALE] = 1
    if g[f.STALE] or ch.line[q, f.BLOCKED]:
        return
    t = _soonest(ch, q, not_before, -1)
    if t < g[f.AT]:
        g[f.AT], g[f.BY] = t, q
    elif t < FAR and t == g[f.AT] and _turn(ch, q, t, -1) < _turn(ch, g[f.BY], t, -1):
        g[f.BY] = q


@bare
def append(ch, q, slot):
    """Put a request at the end of queue q."""
    n = ch.line[q, f.N_ENTRIES]
    if n == 0:
        last = ch.state[f.N_ACTIVE]
        ch.line[last, f.ACTIVE], ch.line[q, f.PLACE] = q, last
        ch.state[f.N_ACTIVE] += 1
    ch.queue[q, n] = slot
    ch.line[q, f.N_ENTRIES] = n + 1
    ch.bank[ch.pool[slot, f.BANK], f.WANTED] += 1
    choose(ch, q)


@bare
def take(ch, q, i):
    """Take entry i out of queue q; `choose` is the caller's."""
    ch.bank[ch.pool[ch.queue[q, i], f.BANK], f.WANTED] -= 1
    n = ch.line[q, f.N_ENTRIES] - 1
    for j in range(i, n):
        ch.queue[q, j] = ch.queue[q, j + 1]
    ch.line[q, f.N_ENTRIES] = n
    if n == 0:
        last = ch.state[f.N_ACTIVE] - 1
        moved = ch.line[last, f.ACTIVE]
        ch.line[ch.line[q, f.PLACE], f.ACTIVE], ch.line[moved, f.PLACE] = moved, ch.line[q, f.PLACE]
        ch.state[f.N_ACTIVE] = last
