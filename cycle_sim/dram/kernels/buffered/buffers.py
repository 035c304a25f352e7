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
from pimloom.cycle_sim.dram.kernels.links import (
    AGE,
    BEHIND,
    FIRST,
    LAST,
    ROW_OF_BANK,
    SAME,
    first_hit,
    join,
    part,
    place_of,
    row_of_bank,
)  # fmt: skip
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
    if n == 0:
        return
    pool, offer, opened, first = ch.pool, ch.tree.offer, ch.bank[b, f.OPENED], ch.age[k * ch.bank.shape[0] + b, FIRST]
    if opened < 0:
        offer[b * LANES + ACT] = key_of(pool[first, f.INDEX], first) + YOUNG
        return
    key = row_of_bank(opened, b)
    hit, other = first_hit(ch.same, ch.link, key, k), _first_other(ch, b, k, key)
    if hit >= 0:
        offer[b * LANES + RD + k] = key_of(pool[hit, f.INDEX], hit) + YOUNG
    guarded = ch.state[f.N_HELD] > 0 and ch.bank[b, f.GUARDS] > 0
    spares = ch.policy[f.SPARE_HITS] != 0 and hit >= 0
    if other >= 0 and not guarded and not (spares and pool[hit, f.INDEX] < pool[other, f.INDEX]):
        offer[b * LANES + PRE] = key_of(pool[other, f.INDEX], other) + YOUNG


@bare
def _first_other(ch, b, k, key):
    """The oldest request of a buffer that wants another row of bank b than the open one, or -1."""
    slot = ch.bank[b, f.OTHER + k]
    if slot == f.UNKNOWN:  # looked for once after a row opens; who stands before it hits the row, and goes first
        slot = ch.age[k * ch.bank.shape[0] + b, FIRST]
        while slot >= 0 and ch.link[slot, ROW_OF_BANK] == key:
            slot = ch.link[slot, BEHIND]
        ch.bank[b, f.OTHER + k] = slot
    return slot


@bare
def put(ch, slot):
    """Put a request at the end of its buffer."""
    b, row, write, link = ch.pool[slot, f.BANK], ch.pool[slot, f.ROW], ch.pool[slot, f.WRITE], ch.link
    q, key = write * ch.bank.shape[0] + b, row_of_bank(row, b)
    n, link[slot, ROW_OF_BANK] = place_of(ch.same, key, write), key
    join(link, ch.age, AGE, q, slot, ch.age[q, LAST])
    join(link, ch.same, SAME, n, slot, ch.same[n, LAST])
    if ch.bank[b, f.OTHER + write] == -1 and ch.bank[b, f.OPENED] != row:
        ch.bank[b, f.OTHER + write] = slot
    if ch.bank[b, f.READS + write] == 0:
        n = ch.state[f.N_BUSY + write]
        ch.busy[write, n], ch.bank[b, f.SEAT_READS + write], ch.state[f.N_BUSY + write] = b, n, n + 1
    ch.bank[b, f.READS + write] += 1
    ch.state[f.N_READ + write] += 1


@bare
def take(ch, slot):
    """Take a request out of its buffer."""
    b, write = ch.pool[slot, f.BANK], ch.pool[slot, f.WRITE]
    part(ch.link, ch.age, AGE, write * ch.bank.shape[0] + b, slot)
    part(ch.link, ch.same, SAME, place_of(ch.same, ch.link[slot, ROW_OF_BANK], write), slot)
    n = ch.bank[b, f.READS + write] - 1
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
