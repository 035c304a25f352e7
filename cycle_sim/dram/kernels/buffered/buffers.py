"""The buffers of a channel (Ramulator's structure): who may issue next, and when.

Precedence in a clock: requests in the active buffer, whose row was opened for them; then the front of the priority
buffer (refreshes, precharges); then, if that is empty, the read or the write buffer. Among those that are ready the
oldest is first. A bank offers what the buffer that is served has for it and what the active buffer has, with lesser
keys.
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.dram.kernels.buffered import fields as f
from pimloom.cycle_sim.dram.kernels.device import ACT, FAR, PRE, PREAB, RD, REFAB, free_from
from pimloom.cycle_sim.dram.kernels.ladder import place
from pimloom.cycle_sim.dram.kernels.tree import LANES, NONE, climb, climb_all, key_of, next_clock, note

YOUNG = np.int64(1) << 59  # added to the keys of those that are not in the active buffer
ROWS, COLUMNS = 1 << ACT | 1 << PRE, 3 << RD


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
    first = ch.state[f.HEAD] % ch.priority.shape[0]
    c, low = ch.priority[first, 0], ch.priority[first, 1]
    if c == PRE:
        return PRE, low, low + 1
    high = low + ch.policy[f.SCOPE]
    for b in range(low, high):
        if ch.bank[b, f.OPENED] >= 0:
            return PREAB, low, high
    return REFAB, low, high


@rare
def front_clock(ch):
    """First clock in which the front of the priority buffer may issue; it closes no row of the active buffer."""
    c, low, high = front(ch)
    if c != REFAB and ch.state[f.N_HELD] > 0:
        for b in range(low, high):
            if ch.bank[b, f.GUARDS] > 0:
                return FAR
    return free_from(ch.tree, c, low)


@rare
def held_clock(ch, not_before):
    """First clock from `not_before` on in which one of the active buffer may issue, and which: the oldest; or -1."""
    best, by = FAR, -1
    for i in range(ch.state[f.N_HELD]):
        slot = ch.held[i]
        c = needs(ch, slot)
        if c >= RD or not ch.policy[f.DUAL]:
            at = max(free_from(ch.tree, c, ch.pool[slot, f.BANK]), not_before)
            if at < best or (at == best and ch.pool[slot, f.INDEX] < ch.pool[by, f.INDEX]):
                best, by = at, slot
    return best, by


@bare
def next_issue(ch):
    """First clock in which anyone may issue."""
    if ch.state[f.HEAD] == ch.state[f.TAIL]:
        return next_clock(ch.tree)
    return min(held_clock(ch, 0)[0], front_clock(ch))


@bare
def renew(ch, b):
    """Something happened to bank b or to the requests that want it; returns whether its offers changed."""
    offer, bank, pool, held = ch.tree.offer, ch.bank, ch.pool, ch.bank[b, f.HOLDS]
    if ch.policy[f.CLOSING_CAP]:
        due = bank[b, f.ACCESSES] >= ch.policy[f.CAP] and not bank[b, f.CLOSING]
        place(ch.ladder, 0, b, 0 if due else NONE)
    k, first = ch.state[f.WRITING], b * LANES
    n = bank[b, f.READS + k]
    offers = n > 0 or held >= 0
    for lane in range(LANES):
        offer[first + lane] = NONE
    _offer_buffered(ch, b, k, n)
    slot = held
    while slot >= 0:
        c = needs(ch, slot)
        if c >= RD or not ch.policy[f.DUAL]:
            offer[first + c] = min(offer[first + c], key_of(pool[slot, f.INDEX], slot))
        slot = pool[slot, f.BESIDE]
    return note(ch.tree, b, offers)


@rare
def renew_all(ch):
    """Something happened to all banks."""
    for b in range(ch.bank.shape[0]):
        renew(ch, b)
    climb_all(ch.tree)


@bare
def renew_busy(ch):
    """The other buffer is served now."""
    deepest = ch.tree.path.shape[1] - 1
    few = (ch.state[f.N_BUSY] + ch.state[f.N_BUSY_WRITES]) * deepest < ch.tree.path[0, deepest]
    for k in range(2):
        for i in range(ch.state[f.N_BUSY + k]):
            b = ch.busy[k, i]
            if renew(ch, b) and few:
                climb(ch.tree, b)
    if not few:
        climb_all(ch.tree)


@bare
def _offer_buffered(ch, b, k, n):
    """Offer the oldest row hit and the oldest other of the n requests for bank b in the buffer that is served."""
    pool, opened, q, hit, other = ch.pool, ch.bank[b, f.OPENED], k * ch.bank.shape[0] + b, -1, -1
    for i in range(n):
        if opened >= 0 and pool[ch.queue[q, i], f.ROW] == opened:
            if hit < 0:
                hit = i
        elif other < 0:
            other = i
    if hit >= 0:
        slot = ch.queue[q, hit]
        ch.tree.offer[b * LANES + RD + k] = key_of(pool[slot, f.INDEX], slot) + YOUNG
    guarded = ch.state[f.N_HELD] > 0 and ch.bank[b, f.GUARDS] > 0
    spared = opened >= 0 and (guarded or (ch.policy[f.SPARE_HITS] and 0 <= hit < other))
    if other >= 0 and not spared:
        slot = ch.queue[q, other]
        ch.tree.offer[b * LANES + (ACT if opened < 0 else PRE)] = key_of(pool[slot, f.INDEX], slot) + YOUNG


@bare
def put(ch, slot):
    """Put a request at the end of its buffer."""
    b, write = ch.pool[slot, f.BANK], ch.pool[slot, f.WRITE]
    ch.queue[write * ch.bank.shape[0] + b, ch.bank[b, f.READS + write]] = slot
    if ch.bank[b, f.READS + write] == 0:
        n = ch.state[f.N_BUSY + write]
        ch.busy[write, n], ch.bank[b, f.SEAT_READS + write], ch.state[f.N_BUSY + write] = b, n, n + 1
    ch.bank[b, f.READS + write] += 1
    ch.state[f.N_READ + write] += 1


@bare
def take(ch, slot):
    """Take a request out of its buffer."""
    b, write = ch.pool[slot, f.BANK], ch.pool[slot, f.WRITE]
    q, n = write * ch.bank.shape[0] + b, ch.bank[b, f.READS + write] - 1
    i = 0
    while ch.queue[q, i] != slot:
        i += 1
    for j in range(i, n):
        ch.queue[q, j] = ch.queue[q, j + 1]
    ch.bank[b, f.READS + write] = n
    ch.state[f.N_READ + write] -= 1
    if n == 0:
        seat, end = ch.bank[b, f.SEAT_READS + write], ch.state[f.N_BUSY + write] - 1
        last = ch.busy[write, end]
        ch.busy[write, seat], ch.bank[last, f.SEAT_READS + write], ch.state[f.N_BUSY + write] = last, seat, end


@bare
def hold(ch, slot):
    """Put a request into the active buffer."""
    b = ch.pool[slot, f.BANK]
    ch.pool[slot, f.BESIDE], ch.bank[b, f.HOLDS] = ch.bank[b, f.HOLDS], slot
    n = ch.state[f.N_HELD]
    ch.held[n], ch.pool[slot, f.SEAT], ch.state[f.N_HELD] = slot, n, n + 1


@bare
def drop(ch, slot):
    """Take a request out of the active buffer."""
    b = ch.pool[slot, f.BANK]
    if ch.bank[b, f.HOLDS] == slot:
        ch.bank[b, f.HOLDS] = ch.pool[slot, f.BESIDE]
    else:
        before = ch.bank[b, f.HOLDS]
        while ch.pool[before, f.BESIDE] != slot:
            before = ch.pool[before, f.BESIDE]
        ch.pool[before, f.BESIDE] = ch.pool[slot, f.BESIDE]
    n = ch.state[f.N_HELD] - 1
    last = ch.held[n]
    ch.held[ch.pool[slot, f.SEAT]], ch.pool[last, f.SEAT], ch.state[f.N_HELD] = last, ch.pool[slot, f.SEAT], n
