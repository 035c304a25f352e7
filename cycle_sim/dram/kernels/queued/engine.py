"""A controller with transaction queues before command queues (DRAMsim3's structure), from event to event.

In each clock, in this order: a refresh falls due; the refresh engine or else the command queues issue (a second command
where row and column commands have their own bus); a row that nobody uses closes; an idle rank falls asleep; requests
move to their command queues; requests are accepted. Clocks in which nothing of that can happen are jumped over.
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry
from pimloom.cycle_sim.dram.kernels.device import FAR, PRE, SRX, arm
from pimloom.cycle_sim.dram.kernels.front_end import front_end
from pimloom.cycle_sim.dram.kernels.pending import find, insert, remove
from pimloom.cycle_sim.dram.kernels.queued import fields as f
from pimloom.cycle_sim.dram.kernels.queued.queues import append, choose, command_of, is_column, next_issue, pick, take
from pimloom.cycle_sim.dram.kernels.queued.upkeep import (
    change_row,
    close_rows,
    engine_at,
    force_at,
    idle_row,
    refresh,
    refresh_due,
    sleep,
    sleep_at,
    wake,
)  # fmt: skip
from pimloom.cycle_sim.dram.kernels.queued.waiting import enter, first_to_move, first_unread, leave
from pimloom.cycle_sim.dram.kernels.record import (
    CLOSED_FOR_MISS,
    FORWARDED,
    HERE,
    LAST_DONE,
    LOGGING,
    MERGED,
    N_COMMANDS,
    N_REQUESTS,
    PAIRS,
    READ_HITS,
    TOUCHED,
    close_accounts,
    note_command,
    note_request,
)  # fmt: skip
from pimloom.cycle_sim.dram.kernels.tree import climb, note


def _run(ch, address, write, when, bank, row, column, number, begin, end, final, clocks):
    """Serve requests begin … end - 1 of the arrays; request i has number[i] and comes at clock when[i] or later.

    Returns (code, next request to accept). MORE: all are accepted, call again with more; FLUSH: empty the logs; GROW:
    waiting or refreshes is too short; PAUSE: `clocks` clocks in which something happened are over; DONE (only if
    final): all are done, and clock STOP has come; STARVED: requests wait, and none has been accepted or served for so
    long that none ever will be; others: a fault of DRAMsim3's.
    """
    g, tally, policy = ch.state, ch.log.tally, ch.policy
    i = begin
    while True:
        while i < end and g[f.TAKEN] < policy[f.PER_CK] and when[i] < g[f.NOW] and _room(ch, write[i]):
            if g[f.FREE_WAIT] < 0:
                return f.GROW, i
            _accept(ch, g[f.NOW] - 1, address[i], write[i], bank[i], row[i], column[i], number[i])
            g[f.TAKEN] += 1
            i += 1
        if i == end:
            if not final:
                return f.MORE, i
            if g[f.STOP] == FAR and g[f.OUTSTANDING] == 0:
                g[f.STOP] = max(tally[LAST_DONE] + 1, g[f.NOW])
        if tally[LOGGING]:
            most = tally[N_REQUESTS] + g[f.OUTSTANDING] + policy[f.PER_CK] + 2
            if tally[N_COMMANDS] + 4 > ch.log.command.shape[0] or most > ch.log.request.shape[0]:
                return f.FLUSH, i
        if clocks <= 0:
            return f.PAUSE, i
        if g[f.FREE_WAIT] < 0 or g[f.REF_TAIL] - g[f.REF_HEAD] + ch.log.rank.shape[0] >= ch.refreshes.shape[0]:
            return f.GROW, i
        t = event = _next_event(ch)
        if i < end and _room(ch, write[i]):
            t = min(t, max(when[i], g[f.NOW]))
        if t - g[f.PROGRESS] > policy[f.PATIENCE] and (g[f.OUTSTANDING] > 0 or (i < end and when[i] < t)):
            return f.STARVED, i
        if t >= g[f.STOP]:
            close_accounts(ch.log, g[f.STOP])
            g[f.NOW] = g[f.STOP]
            return f.DONE, i
        code = _tick(ch, t) if t == event else f.DONE  # before the event, a request comes and nothing else happens
        g[f.NOW], g[f.TAKEN], clocks = t + 1, 0, clocks - 1
        if code != f.DONE:
            return code, i


run = entry(_run, f"{__name__}:run")
run_together = entry(front_end(_run, f.one, f.NOW, ahead=1), f"{__name__}:run_together")


@bare
def _next_event(ch):
    """First clock from NOW on in which anything but an acceptance may happen."""
    g = ch.state
    if g[f.MOVE] and _moves(ch):
        return g[f.NOW]
    t = min(next_issue(ch), g[f.NEXT_REFRESH])
    if g[f.REF_HEAD] != g[f.REF_TAIL]:
        t = min(t, force_at(ch), g[f.REF_AT] if g[f.ARMED] else g[f.NOW])
    if ch.policy[f.ADAPTIVE]:
        t = min(t, idle_row(ch)[0])
    if ch.policy[f.SLEEP_AFTER] > 0:
        for r in range(ch.log.rank.shape[0]):
            t = min(t, sleep_at(ch, r))
    return max(t, g[f.NOW])


@bare
def _room(ch, write):
    k = write if not ch.policy[f.UNIFIED] else 0
    return ch.state[f.N_READ + k] < ch.policy[f.READ_ENTRIES + k]


@bare
def _tick(ch, t):
    g, policy = ch.state, ch.policy
    if t == g[f.NEXT_REFRESH]:
        refresh_due(ch)
    issued, code = np.int64(-1), f.DONE
    if g[f.REF_HEAD] != g[f.REF_TAIL]:
        issued = refresh(ch, t)
        if issued == -2:
            return f.ASLEEP
    for second in range(2):  # the other bus may issue in the same clock
        if second != (issued >= 0) or (second and not policy[f.DUAL]):
            continue
        bus = 1 - policy[f.BUS + issued] if second and not policy[f.DRAMSIM3] else -1
        slot, lane = pick(ch, t, bus)
        if lane < 0:
            continue
        if second and policy[f.DRAMSIM3]:
            # it finds a second command of any kind, and drops it unless one of the two is a column command
            g[f.POINTER] = ch.pool[slot, f.BANK]  # its turn has come in any case
            c = command_of(ch, lane)
            if is_column(c) == is_column(issued):
                if is_column(c):
                    return f.LOST
                ch.log.tally[CLOSED_FOR_MISS] += c == PRE
                continue
        issued = _issue(ch, t, slot, lane)
        ch.log.tally[PAIRS] += second
    if issued < 0 and policy[f.ADAPTIVE]:
        at, b = idle_row(ch)
        if at <= t:
            issued = close_rows(ch, PRE, b, b + 1, t)
    if issued >= 0:
        if g[f.REF_HEAD] != g[f.REF_TAIL] and g[f.ARMED]:
            g[f.REF_AT] = engine_at(ch)
    elif policy[f.SLEEP_AFTER] > 0:
        code = sleep(ch, t)
    for _ in range(policy[f.PER_CK]):
        if g[f.MOVE] and code == f.DONE:
            code = _move(ch)
    return code


@bare
def _issue(ch, t, slot, lane):
    """Issue the command of a lane for a request; returns it."""
    g, pool = ch.state, ch.pool
    c, b, row = command_of(ch, lane), pool[slot, f.BANK], pool[slot, f.ROW]
    g[f.POINTER] = b
    note_command(ch.log, t, c, b, row, pool[slot, f.COLUMN], 0)
    arm(ch.tree, c, b, t)
    if c == SRX:
        wake(ch, ch.bank[b, f.RANK], t)
        return c
    if is_column(c):
        ch.log.tally[READ_HITS + pool[slot, f.WRITE]] += ch.bank[b, f.HITS] != 0
        take(ch, slot)
        g[f.QUEUED] -= 1
        g[f.MOVE] = 1
        _finish(ch, slot, t)
    elif c == PRE:
        ch.log.tally[CLOSED_FOR_MISS] += 1
    change_row(ch, c, b, row, t)
    note(ch.tree, b, choose(ch, b))
    climb(ch.tree, b)
    return c


@bare
def _finish(ch, slot, t):
    """The request's column command issued: it and those that wait for it are done when its data is."""
    g, pool, write = ch.state, ch.pool, ch.pool[slot, f.WRITE]
    g[f.PROGRESS] = t
    remove(ch.seen, write, pool[slot, f.ADDRESS])
    ch.log.rank[ch.bank[pool[slot, f.BANK], f.RANK], HERE] -= 1
    if not (write and ch.policy[f.DRAMSIM3]):
        done = t + ch.policy[f.READ_CK + write]
        index, accepted, w = pool[slot, f.INDEX], pool[slot, f.ACCEPTED], pool[slot, f.WAITING]
        while True:
            note_request(ch.log, index, write, accepted, done)
            g[f.OUTSTANDING] -= 1
            if w < 0:
                break
            index, accepted, following = ch.waiting[w, f.NUMBER], ch.waiting[w, f.WHEN], ch.waiting[w, f.NEXT]
            ch.waiting[w, f.NEXT], g[f.FREE_WAIT] = g[f.FREE_WAIT], w
            w = following
    ch.spare[g[f.N_FREE]] = slot
    g[f.N_FREE] += 1


@bare
def _accept(ch, t, address, write, bank, row, column, index):
    """Take a request in; it may wait with another one to its address, or be answered from the write queue."""
    g, pool, dramsim3 = ch.state, ch.pool, ch.policy[f.DRAMSIM3]
    slot, g[f.PROGRESS] = find(ch.seen, f.WRITES, address), t
    forwarded = not write and slot >= 0
    if forwarded or (write and dramsim3):
        note_request(ch.log, index, write, t, t + (2 if dramsim3 else 1))
        ch.log.tally[FORWARDED] += forwarded
        if forwarded:
            return
    else:
        g[f.OUTSTANDING] += 1
    if not write:
        slot = find(ch.seen, f.READS, address)
    if slot >= 0:
        ch.log.tally[MERGED] += 1
        if not (write and dramsim3):
            w = g[f.FREE_WAIT]
            g[f.FREE_WAIT] = ch.waiting[w, f.NEXT]
            ch.waiting[w, f.NUMBER], ch.waiting[w, f.WHEN], ch.waiting[w, f.NEXT] = index, t, pool[slot, f.WAITING]
            pool[slot, f.WAITING] = w
        return
    g[f.N_FREE] -= 1
    slot = ch.spare[g[f.N_FREE]]
    pool[slot, f.ADDRESS], pool[slot, f.WRITE], pool[slot, f.BANK], pool[slot, f.ROW] = address, write, bank, row
    pool[slot, f.COLUMN], pool[slot, f.ACCEPTED], pool[slot, f.INDEX], pool[slot, f.WAITING] = column, t, index, -1
    insert(ch.seen, write, address, slot)
    k = write if not ch.policy[f.UNIFIED] else 0
    enter(ch, k, slot)
    g[f.MOVE] = 1
    ch.log.rank[ch.bank[bank, f.RANK], HERE] += 1


@bare
def _drains_now(ch):
    """Whether a drain of the write queue begins."""
    g, policy = ch.state, ch.policy
    if g[f.DRAIN] > 0 or policy[f.UNIFIED]:
        return False
    quiet = g[f.QUEUED] == 0 and (policy[f.DRAMSIM3] or g[f.N_READ] == 0)
    return g[f.N_WRITE] >= policy[f.DRAIN_HIGH] or (g[f.N_WRITE] > policy[f.DRAIN_IDLE] and quiet)


@bare
def _moves(ch):
    """Whether `_move` does anything; where it does not, it would not either in the clocks until something else does."""
    drains = ch.state[f.DRAIN] > 0
    if first_to_move(ch, f.WRITES) >= 0 if drains else _drains_now(ch):
        return True
    return not (drains and ch.policy[f.DRAMSIM3]) and first_to_move(ch, f.READS) >= 0


@bare
def _move(ch):
    """Move one request to its command queue: of the write queue while it drains, else of the read queue."""
    g, policy = ch.state, ch.policy
    before, dramsim3 = g[f.DRAIN], policy[f.DRAMSIM3]
    g[f.MOVE] = 0
    if _drains_now(ch):
        g[f.DRAIN] = max(1, g[f.N_WRITE] - policy[f.DRAIN_LOW])
    drains = g[f.DRAIN] > 0
    for k in range(1, -1, -1):
        if k and not drains or not k and drains and dramsim3:
            continue  # where writes wait for reads, those may go; not so in DRAMsim3
        slot = first_to_move(ch, k)
        if k and slot >= 0 and find(ch.seen, f.READS, ch.pool[slot, f.ADDRESS]) >= 0:
            if dramsim3:
                g[f.DRAIN] = 0
                g[f.MOVE] = before > 0
                return f.LIVELOCK if before == 0 and g[f.QUEUED] == 0 else f.DONE
            slot = first_unread(ch)
        if slot < 0:
            continue
        ch.log.rank[ch.bank[ch.pool[slot, f.BANK], f.RANK], TOUCHED] = 1
        g[f.QUEUED] += 1
        g[f.MOVE] = 1
        append(ch, slot)
        leave(ch, k, slot)  # now: where the command queue is full, no other one stands in its place
        if k and (dramsim3 or g[f.DRAIN] > 1 or g[f.N_READ] > 0 or g[f.N_WRITE] <= policy[f.DRAIN_IDLE]):
            g[f.DRAIN] -= 1  # else the drain goes on: no read waits
        return f.DONE
    return f.DONE
