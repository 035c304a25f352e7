"""The buffers of a channel (Ramulator's structure): who may issue next, and when.

Precedence in a clock: requests in the active buffer, whose row was opened for them; then the front of the priority
buffer (refreshes, precharges); then, if that is empty, the read or the write buffer. Among those that are ready the
oldest is first.
"""

import numpy as np

from pimloom.cycle_sim.memory.kernels import buffered_fields as f
from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.memory.kernels.device import ACT, FAR, PRE, PREAB, RD, REFAB, WRA, free_from


@bare
def needs(ch, slot):
    """The command that brings a request on."""
    opened = ch.bank[ch.pool[slot, f.BANK], f.OPENED]
    if opened < 0:
        return ACT
    return RD + ch.pool[slot, f.WRITE] if opened == ch.pool[slot, f.ROW] else PRE


@bare
def front(ch):
    """(command, first bank, end of the banks) that brings the front of the priority buffer on."""
    place = ch.state[f.HEAD] % ch.priority.shape[0]
    c, low = ch.priority[place, 0], ch.priority[place, 1]
    if c == PRE:
        return PRE, low, low + 1
    high = low + ch.policy[f.SCOPE]
    for b in range(low, high):
        if ch.bank[b, f.OPENED] >= 0:
            return PREAB, low, high
    return REFAB, low, high


@bare
def choose(ch, q):
    """Find out anew whom queue q would send."""
    line, banks, hit, other = ch.line, ch.bank.shape[0], -1, -1
    b = line[q, f.OF_BANK]
    opened = ch.bank[b, f.OPENED]
    for i in range(line[q, f.LENGTH]):
        if opened >= 0 and ch.pool[ch.queue[q, i], f.ROW] == opened:
            if hit < 0:
                hit = i
        elif other < 0:
            other = i
    line[q, f.HIT] = line[q, f.OTHER] = -1
    if hit >= 0:
        line[q, f.HIT], line[q, f.HIT_ENTRY] = (RD + np.int64(q >= banks)) * banks + b, hit
        line[q, f.HIT_ARRIVE] = ch.pool[ch.queue[q, hit], f.ARRIVE]
    if other >= 0 and not (ch.policy[f.SPARE_HITS] and opened >= 0 and 0 <= hit < other):
        line[q, f.OTHER], line[q, f.OTHER_ENTRY] = (ACT if opened < 0 else PRE) * banks + b, other
        line[q, f.OTHER_ARRIVE] = ch.pool[ch.queue[q, other], f.ARRIVE]


@bare
def _would_close(ch, low, high):
    """Whether a bank of low … high - 1 has a request in the active buffer."""
    if ch.state[f.N_HELD] > 0:
        for b in range(low, high):
            if ch.bank[b, f.HOLDS] > 0:
                return True
    return False


@bare
def _pick(ch, lane, at, kind, where):
    ch.pick[lane, f.AT], ch.pick[lane, f.KIND], ch.pick[lane, f.WHERE] = at, kind, where


@bare
def offer(ch, q, not_before):
    """Queue q has got a request, the youngest of all: it comes next where its command is the first to be legal."""
    line, b = ch.line, ch.line[q, f.OF_BANK]
    if line[q, f.HIT] >= 0:
        at = max(ch.free[line[q, f.HIT]], not_before)
        if at < ch.pick[0, f.AT]:
            _pick(ch, 0, at, f.QUEUE_HIT, q)
    if line[q, f.OTHER] >= 0 and (ch.bank[b, f.OPENED] < 0 or not _would_close(ch, b, b + 1)):
        at, lane = max(ch.free[line[q, f.OTHER]], not_before), ch.policy[f.DUAL]
        if at < ch.pick[lane, f.AT]:
            _pick(ch, lane, at, f.QUEUE_OTHER, q)


@bare
def look(ch, not_before):
    """Find who issues next, not before `not_before`: in lane 0; with two buses, columns there and rows in lane 1."""
    g, dual = ch.state, ch.policy[f.DUAL]
    _look_at_held(ch, not_before)
    ch.pick[1, f.AT] = FAR
    if g[f.HEAD] == g[f.TAIL]:
        _look_at_queues(ch, not_before)
        return
    c, low, high = front(ch)
    if c == REFAB or not _would_close(ch, low, high):
        at = max(free_from(ch, c, low), not_before)
        if at < ch.pick[dual, f.AT]:
            _pick(ch, dual, at, f.PRIORITY, 0)


@bare
def _look_at_held(ch, not_before):
    """The active buffer; with two buses only its column commands."""
    dual, banks, best, arrived, place = ch.policy[f.DUAL], ch.bank.shape[0], FAR, FAR, 0
    for i in range(ch.state[f.N_HELD]):
        slot = ch.held[i]
        c = needs(ch, slot)
        if not dual or RD <= c <= WRA:
            at = max(ch.free[c * banks + ch.pool[slot, f.BANK]], not_before)
            if at < best or (at == best and ch.pool[slot, f.ARRIVE] < arrived):
                best, arrived, place = at, ch.pool[slot, f.ARRIVE], i
    _pick(ch, 0, best, f.HELD, place)


@bare
def _look_at_queues(ch, not_before):
    """The read or the write buffer, as the mode is."""
    g, line, dual = ch.state, ch.line, ch.policy[f.DUAL]
    hit_at, hit_arrive, hit_q, other_at, other_arrive, other_q = FAR, FAR, np.int64(-1), FAR, FAR, np.int64(-1)
    k, guarded = g[f.WRITING], g[f.N_HELD] > 0
    for a in range(g[f.N_ACTIVE + k]):
        q = ch.active[k, a]
        if line[q, f.HIT] >= 0:
            at = max(ch.free[line[q, f.HIT]], not_before)
            if at < hit_at or (at == hit_at and line[q, f.HIT_ARRIVE] < hit_arrive):
                hit_at, hit_arrive, hit_q = at, line[q, f.HIT_ARRIVE], q
        if line[q, f.OTHER] >= 0:
            at = max(ch.free[line[q, f.OTHER]], not_before)
            if at < other_at or (at == other_at and line[q, f.OTHER_ARRIVE] < other_arrive):
                b = line[q, f.OF_BANK]
                if not (guarded and ch.bank[b, f.OPENED] >= 0 and ch.bank[b, f.HOLDS] > 0):
                    other_at, other_arrive, other_q = at, line[q, f.OTHER_ARRIVE], q
    first = dual or hit_at < other_at or (hit_at == other_at and hit_arrive < other_arrive)
    if first and hit_at < ch.pick[0, f.AT]:
        _pick(ch, 0, hit_at, f.QUEUE_HIT, hit_q)
    if (dual or not first) and other_at < ch.pick[dual, f.AT]:
        _pick(ch, dual, other_at, f.QUEUE_OTHER, other_q)


@bare
def put(ch, q, slot):
    """Put a request at the end of queue q."""
    g, line = ch.state, ch.line
    n, k = line[q, f.LENGTH], np.int64(q >= ch.bank.shape[0])
    if n == 0:
        line[q, f.PLACE] = g[f.N_ACTIVE + k]
        ch.active[k, g[f.N_ACTIVE + k]] = q
        g[f.N_ACTIVE + k] += 1
    ch.queue[q, n] = slot
    line[q, f.LENGTH] = n + 1
    g[f.N_READ + k] += 1
    choose(ch, q)


@bare
def take(ch, q, i):
    """Take entry i out of queue q; `choose` is the caller's."""
    g, line = ch.state, ch.line
    n, k = line[q, f.LENGTH] - 1, np.int64(q >= ch.bank.shape[0])
    for j in range(i, n):
        ch.queue[q, j] = ch.queue[q, j + 1]
    line[q, f.LENGTH] = n
    g[f.N_READ + k] -= 1
    if n == 0:
        last = g[f.N_ACTIVE + k] - 1
        moved = ch.active[k, last]
        ch.active[k, line[q, f.PLACE]], line[moved, f.PLACE] = moved, line[q, f.PLACE]
        g[f.N_ACTIVE + k] = last


@bare
def drop_held(ch, i):
    """Take the request at place i out of the active buffer."""
    n = ch.state[f.N_HELD] - 1
    for j in range(i, n):
        ch.held[j] = ch.held[j + 1]
    ch.state[f.N_HELD] = n
