"""The command queues of a channel: which command may issue next, and when.

A queue serves one bank, the banks of a rank, or all; its entries are linked bank by bank. A bank offers in each lane
the first of its entries that needs that command.
"""

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.dram.kernels.device import ACT, PRE, RD, SRX, WR, WRA, free_from
from pimloom.cycle_sim.dram.kernels.ladder import place
from pimloom.cycle_sim.dram.kernels.links import (
    AGE,
    BEFORE,
    FIRST,
    LAST,
    OLDER,
    ROW_OF_BANK,
    SAME,
    first_hit,
    join,
    next_hit,
    part,
    place_of,
    row_of_bank,
)  # fmt: skip
from pimloom.cycle_sim.dram.kernels.queued import fields as f
from pimloom.cycle_sim.dram.kernels.queued.waiting import room_changed
from pimloom.cycle_sim.dram.kernels.record import SLEEPS
from pimloom.cycle_sim.dram.kernels.tree import (
    ALL,
    LANES,
    NONE,
    climb,
    climb_all,
    key_of,
    next_clock,
    next_in_turn,
    note,
    oldest,
    passing,
    slot_of,
)

SLEEPING = LANES  # lanes: ACT, PRE, RD (or RDA), WR (or WRA); beside the tree SRX, of ranks that sleep
COLUMNS = 1 << RD | 1 << WR


@bare
def is_column(c):
    """Whether a command reads or writes."""
    return RD <= c <= WRA


@bare
def command_of(ch, lane):
    """The command that a lane stands for."""
    return SRX if lane == SLEEPING else lane + ch.policy[f.AUTO] * (lane >= RD)


@bare
def next_issue(ch):
    """First clock in which a command queue may issue."""
    return ch.state[f.NOW] if ch.state[f.CALLS] > 0 else next_clock(ch.tree)


@bare
def _lanes_of(ch, bus):
    """The lanes whose commands go over a bus (-1: any), a bit each."""
    if bus < 0:
        return ALL
    lanes = 0
    for lane in range(LANES):
        lanes |= (ch.policy[f.BUS + command_of(ch, lane)] == bus) << lane
    return lanes


@bare
def choose(ch, b):
    """Find out anew what bank b offers; returns whether it offers anything."""
    if ch.policy[f.ADAPTIVE]:
        idle = ch.bank[b, f.OPENED] >= 0 and ch.bank[b, f.WANTED] == 0
        place(ch.ladder, f.IDLE, b, ch.bank[b, f.USED] + ch.policy[f.TIMEOUT] if idle else NONE)
    bank, pool, offer, n = ch.bank, ch.pool, ch.tree.offer, ch.bank[b, f.WANTED]
    for lane in range(LANES):
        offer[b * LANES + lane] = NONE
    if n == 0 or ch.line[bank[b, f.HOME], f.BLOCKED] or ch.log.rank[bank[b, f.RANK], SLEEPS]:
        return False
    first, opened = ch.age[b, FIRST], bank[b, f.OPENED]
    if opened < 0:
        offer[b * LANES + ACT] = key_of(pool[first, f.TURN], first)
        return True
    key = row_of_bank(opened, b)
    read, write = first_hit(ch.same, ch.link, key, 0), first_hit(ch.same, ch.link, key, 1)
    wanted = read >= 0 or write >= 0
    while write >= 0 and not _in_order(ch, read, write):
        write = next_hit(ch.link, write)
    if read >= 0:
        offer[b * LANES + RD] = key_of(pool[read, f.TURN], read)
    if write >= 0:
        offer[b * LANES + WR] = key_of(pool[write, f.TURN], write)
    if pool[first, f.ROW] != opened and (not wanted or bank[b, f.HITS] >= ch.policy[f.CAP]):
        offer[b * LANES + PRE] = key_of(pool[first, f.TURN], first)
    return True


@bare
def _in_order(ch, read, write):
    """Whether none of the reads before a write wants its column; read: the first one of its row, or -1."""
    pool = ch.pool
    while read >= 0 and pool[read, f.TURN] < pool[write, f.TURN]:
        if pool[read, f.COLUMN] == pool[write, f.COLUMN]:
            return False
        read = next_hit(ch.link, read)
    return True


@bare
def pick(ch, at, bus):
    """(slot, lane) of what issues on `bus` (-1: any) at clock `at`; lane -1: nothing."""
    lanes, slot, lane = passing(ch.tree, 0, _lanes_of(ch, bus), at), 0, -1
    if lanes:
        if ch.policy[f.HITS_FIRST] and lanes & COLUMNS:
            lanes &= COLUMNS
        n = ch.tree.path[0, 0]
        if not ch.policy[f.OLDEST]:
            n, lanes = next_in_turn(ch.tree, ch.state[f.POINTER], ch.policy[f.QUEUE_DEPTH], lanes, at)
        key, lane = oldest(ch.tree, n, lanes, at)
        slot = slot_of(key)
    if ch.state[f.CALLS] > 0 and (bus < 0 or ch.policy[f.BUS + SRX] == bus):
        other = _sleeper(ch, at)
        if other >= 0 and (lane < 0 or not (ch.policy[f.HITS_FIRST] and lane >= RD) and _before(ch, other, slot)):
            slot, lane = other, SLEEPING
    return slot, lane


@rare
def _sleeper(ch, at):
    """The request for which a sleeping rank can be woken at clock `at`, or -1."""
    found = -1
    for b in range(ch.bank.shape[0]):
        r = ch.bank[b, f.RANK]
        if ch.log.rank[r, SLEEPS] and ch.bank[b, f.WANTED] > 0 and not ch.line[ch.bank[b, f.HOME], f.BLOCKED]:
            slot = ch.age[b, FIRST]
            if free_from(ch.tree, SRX, r * ch.policy[f.OF_RANK]) <= at and (found < 0 or _before(ch, slot, found)):
                found = slot
    return found


@bare
def _before(ch, slot, other):
    """Whether a request goes before another one when both may."""
    if not ch.policy[f.OLDEST]:
        q, p = ch.bank[ch.pool[slot, f.BANK], f.HOME], ch.bank[ch.pool[other, f.BANK], f.HOME]
        last = ch.bank[ch.state[f.POINTER], f.HOME]
        if p != q:  # the queue that issued last comes last
            return q < p if (q > last) == (p > last) else q > last
    return ch.pool[slot, f.TURN] < ch.pool[other, f.TURN]


@bare
def append(ch, slot):
    """Put a request into its command queue: at the end or, where the oldest goes first, by its number."""
    b, pool, link = ch.pool[slot, f.BANK], ch.pool, ch.link
    key = row_of_bank(pool[slot, f.ROW], b)
    n, link[slot, ROW_OF_BANK] = place_of(ch.same, key, pool[slot, f.WRITE]), key
    other, hit = ch.age[b, LAST], ch.same[n, LAST]
    if ch.policy[f.OLDEST]:
        pool[slot, f.TURN] = pool[slot, f.INDEX]
        while other >= 0 and pool[other, f.TURN] > pool[slot, f.TURN]:
            other = link[other, BEFORE]
        while hit >= 0 and pool[hit, f.TURN] > pool[slot, f.TURN]:
            hit = link[hit, OLDER]
    else:
        pool[slot, f.TURN] = ch.state[f.APPENDED]
        ch.state[f.APPENDED] += 1
    join(link, ch.age, AGE, b, slot, other)
    join(link, ch.same, SAME, n, slot, hit)
    ch.bank[b, f.WANTED] += 1
    q = ch.bank[b, f.HOME]
    ch.line[q, f.N_ENTRIES] += 1
    if ch.line[q, f.N_ENTRIES] == ch.policy[f.DEPTH]:
        room_changed(ch, q)
    ch.state[f.CALLS] += ch.log.rank[ch.bank[b, f.RANK], SLEEPS]
    if note(ch.tree, b, choose(ch, b)):
        climb(ch.tree, b)


@bare
def take(ch, slot):
    """Take a request out of its command queue."""
    b = ch.pool[slot, f.BANK]
    part(ch.link, ch.age, AGE, b, slot)
    n = place_of(ch.same, ch.link[slot, ROW_OF_BANK], ch.pool[slot, f.WRITE])
    part(ch.link, ch.same, SAME, n, slot)
    ch.bank[b, f.WANTED] -= 1
    q = ch.bank[b, f.HOME]
    ch.line[q, f.N_ENTRIES] -= 1
    if ch.line[q, f.N_ENTRIES] == ch.policy[f.DEPTH] - 1:
        room_changed(ch, q)


@rare
def renew(ch, low, high):
    """Something happened to the banks low … high - 1, or to what binds them."""
    for b in range(low, high):
        note(ch.tree, b, choose(ch, b))
    climb_all(ch.tree)
