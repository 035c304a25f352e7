"""A controller that schedules straight from a read and a write buffer (Ramulator's structure), from event to event.

In each clock t, in this order: one request that comes at t - 1 is taken in; a refresh falls due; rows at their cap are
to be closed; one command issues (one column and one row command where they have their own bus).
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry, rare
from pimloom.cycle_sim.dram.kernels.buffered import fields as f
from pimloom.cycle_sim.dram.kernels.buffered.buffers import (
    COLUMNS,
    ROWS,
    YOUNG,
    drop,
    front,
    front_clock,
    held_clock,
    hold,
    needs,
    next_issue,
    put,
    renew,
    renew_all,
    renew_busy,
    take,
)  # fmt: skip
from pimloom.cycle_sim.dram.kernels.device import ACT, FAR, PRE, RD, RDA, REFAB, WR, WRA, arm, free_from
from pimloom.cycle_sim.dram.kernels.front_end import front_end
from pimloom.cycle_sim.dram.kernels.ladder import earliest, place
from pimloom.cycle_sim.dram.kernels.pending import find, insert, remove
from pimloom.cycle_sim.dram.kernels.queued.fields import DONE, FLUSH, MORE, PAUSE, STARVED
from pimloom.cycle_sim.dram.kernels.record import (
    FORWARDED,
    LOGGING,
    MERGED,
    N_COMMANDS,
    N_REQUESTS,
    PAIRS,
    READ_HITS,
    REFRESH_LAG,
    REFRESHES_DUE,
    close_accounts,
    note_command,
    note_request,
    row_closed,
    row_opened,
)  # fmt: skip
from pimloom.cycle_sim.dram.kernels.tree import ALL, NONE, climb, oldest, passing, slot_of


def _run(ch, address, write, when, bank, row, column, number, begin, end, final, clocks):
    """Serve requests begin … end - 1 of the arrays, as `queued.run` does; returns (code, next request to take in)."""
    g, tally, i = ch.state, ch.log.tally, begin
    while True:
        if i == end:
            if not final:
                return MORE, i
            if g[f.STOP] == FAR and g[f.OUTSTANDING] == 0:
                g[f.STOP] = max(g[f.LAST_TICK], g[f.NOW] - 1)
        most = max(tally[N_COMMANDS] - ch.log.command.shape[0], tally[N_REQUESTS] - ch.log.request.shape[0])
        if tally[LOGGING] and most > -4:
            return FLUSH, i
        if clocks <= 0:
            return PAUSE, i
        t = _next_event(ch)
        if i < end and when[i] + 1 < t and _takes(ch, address[i], write[i]):
            t = max(when[i] + 1, g[f.NOW])
        late = t - g[f.PROGRESS] > ch.policy[f.PATIENCE]
        if late and (g[f.OUTSTANDING] > 0 or (i < end and when[i] + 1 < t)):
            return STARVED, i
        if t > g[f.STOP]:
            _count_lengths(g, g[f.STOP] - g[f.NOW] + 1)
            close_accounts(ch.log, g[f.STOP] + 1)
            g[f.NOW] = g[f.STOP] + 1
            return DONE, i
        _count_lengths(g, t - g[f.NOW])
        if i < end and when[i] < t and _takes(ch, address[i], write[i]):
            _send(ch, t, address[i], write[i], bank[i], row[i], column[i], number[i])
            i += 1
        _count_lengths(g, 1)
        _tick(ch, t)
        g[f.NOW], clocks = t + 1, clocks - 1


run = entry(_run, f"{__name__}:run")
run_together = entry(front_end(_run, f.one, f.NOW, ahead=2), f"{__name__}:run_together")


@bare
def _count_lengths(g, clocks):
    g[f.READ_LENGTH] += clocks * g[f.N_READ]
    g[f.WRITE_LENGTH] += clocks * g[f.N_WRITE]
    g[f.PRIORITY_LENGTH] += clocks * (g[f.TAIL] - g[f.HEAD])


@bare
def _next_event(ch):
    """First clock from NOW on in which anything but a send may happen."""
    g = ch.state
    if g[f.CHECK]:
        return g[f.NOW]
    t = min(next_issue(ch), g[f.NEXT_REFRESH])
    if ch.policy[f.CLOSING_CAP]:
        t = min(t, earliest(ch.tree, ch.ladder, 0, g[f.NOW])[0])
    return max(t, g[f.NOW])


@bare
def _takes(ch, address, write):
    """Whether a request can be sent: there is room, or a buffered write to its address answers or absorbs it."""
    return ch.state[f.N_READ + write] < ch.policy[f.READ_ENTRIES + write] or find(ch.seen, 0, address) >= 0


@bare
def _send(ch, t, address, write, bank, row, column, index):
    g, pool, sent = ch.state, ch.pool, t - 1
    g[f.PROGRESS] = t
    if find(ch.seen, 0, address) >= 0:
        ch.log.tally[MERGED if write else FORWARDED] += 1
        note_request(ch.log, index, write, sent, sent if write else t)
        g[f.LAST_TICK] = max(g[f.LAST_TICK], t)
        return
    g[f.OUTSTANDING] += 1
    g[f.N_FREE] -= 1
    slot = ch.spare[g[f.N_FREE]]
    pool[slot, f.ADDRESS], pool[slot, f.WRITE], pool[slot, f.BANK], pool[slot, f.ROW] = address, write, bank, row
    pool[slot, f.COLUMN], pool[slot, f.ARRIVE], pool[slot, f.INDEX], pool[slot, f.COUNTED] = column, sent, index, 0
    if write:
        insert(ch.seen, 0, address, slot)
    put(ch, slot)
    if write == g[f.WRITING] and renew(ch, bank):
        climb(ch.tree, bank)
    g[f.CHECK] = 1


@bare
def _tick(ch, t):
    g, dual = ch.state, ch.policy[f.DUAL]
    _demand_upkeep(ch, t)
    issued = np.int64(0)
    for lane in range(1 + dual):
        slot, held = -1, True
        if g[f.HEAD] == g[f.TAIL]:
            key = _least(ch, lane, t)
            slot, held = slot_of(key) if key < NONE else -1, key < YOUNG
        elif lane == 0:
            at, slot = held_clock(ch, t)
            slot = slot if at <= t else -1
        if slot >= 0:
            _serve(ch, slot, held, t)
            issued += 1
        elif g[f.HEAD] != g[f.TAIL] and lane == dual and front_clock(ch) <= t:
            _upkeep(ch, t)
            issued += 1
    ch.log.tally[PAIRS] += issued == 2
    g[f.CHECK] = g[f.HEAD] == g[f.TAIL] and _write_mode(ch) != g[f.WRITING]


@bare
def _least(ch, lane, t):
    """The key of what issues at clock `t`; before it is the turn of the read or write buffer, the mode may change."""
    lanes = ALL if not ch.policy[f.DUAL] else (ROWS if lane else COLUMNS)
    for again in range(2):
        key, _ = oldest(ch.tree, 0, passing(ch.tree, 0, lanes, t), t)
        if again or key < YOUNG or _write_mode(ch) == ch.state[f.WRITING]:
            break
        ch.state[f.WRITING] = 1 - ch.state[f.WRITING]
        renew_busy(ch)
    return key


@bare
def _demand_upkeep(ch, t):
    """Put what falls due into the priority buffer: refreshes, and precharges of rows at their cap."""
    g, banks = ch.state, ch.bank.shape[0]
    if t == g[f.NEXT_REFRESH]:
        g[f.NEXT_REFRESH] += ch.policy[f.INTERVAL]
        for low in range(0, banks, ch.policy[f.SCOPE]):
            _demand(ch, REFAB, low, t)
            ch.log.tally[REFRESHES_DUE] += 1
    if ch.policy[f.CLOSING_CAP]:
        at, b = earliest(ch.tree, ch.ladder, 0, t)
        while at <= t:
            ch.bank[b, f.CLOSING] = 1
            place(ch.ladder, 0, b, NONE)
            _demand(ch, PRE, b, t)
            at, b = earliest(ch.tree, ch.ladder, 0, t)


@bare
def _demand(ch, c, low, t):
    g = ch.state
    if g[f.TAIL] - g[f.HEAD] < ch.policy[f.PRIORITIES]:
        last = g[f.TAIL] % ch.priority.shape[0]
        ch.priority[last, 0], ch.priority[last, 1], ch.priority[last, 2] = c, low, t
        g[f.TAIL] += 1
        g[f.UPKEEP] += 1


@bare
def _write_mode(ch):
    """1 while writes are served: from above the high mark, or without reads, until below the low mark with reads."""
    g = ch.state
    if g[f.N_READ] == 0:
        return np.int64(1)
    if g[f.WRITING]:
        return np.int64(g[f.N_WRITE] >= ch.policy[f.LOW])
    return np.int64(g[f.N_WRITE] > ch.policy[f.HIGH])


@rare
def _upkeep(ch, t):
    """Issue what the front of the priority buffer needs."""
    g = ch.state
    c, low, high = front(ch)
    note_command(ch.log, t, c, low, -1, -1, 1)
    final = ch.priority[g[f.HEAD] % ch.priority.shape[0], 0]
    arm(ch.tree, c, low, t)
    if c != REFAB:
        for b in range(low, high):
            _change_row(ch, c, b, -1, t)
    renew_all(ch)
    if c == final:
        if c == REFAB:
            due = ch.priority[g[f.HEAD] % ch.priority.shape[0], 2]
            ch.log.tally[REFRESH_LAG] = max(ch.log.tally[REFRESH_LAG], t - due)
        g[f.HEAD] += 1
        g[f.UPKEEP_DONE] += 1


@bare
def _serve(ch, slot, held, t):
    """Issue the next command of a request, which is in the active buffer if `held`."""
    g, pool = ch.state, ch.pool
    c, b, write = needs(ch, slot), pool[slot, f.BANK], pool[slot, f.WRITE]
    final = RD <= c <= WRA
    capped = final and ch.policy[f.CLOSING_CAP] and ch.bank[b, f.ACCESSES] >= ch.policy[f.CAP]
    if capped and free_from(ch.tree, c + RDA - RD, b) <= t:
        c += RDA - RD
    if not pool[slot, f.COUNTED]:
        pool[slot, f.COUNTED] = 1
        g[f.HITS if final else (f.MISSES if c == ACT else f.CONFLICTS)] += 1
        ch.log.tally[READ_HITS + write] += final
    note_command(ch.log, t, c, b, pool[slot, f.ROW], pool[slot, f.COLUMN], 0)
    arm(ch.tree, c, b, t)
    promoted, before = c == ACT and g[f.N_HELD] < ch.held.shape[0], g[f.N_HELD]
    if promoted or final:
        if held:
            drop(ch, slot)
        else:
            take(ch, slot)
            if write:
                remove(ch.seen, 0, pool[slot, f.ADDRESS])
    if promoted:
        hold(ch, slot)
        g[f.MISCOUNTED] = g[f.MISCOUNTED] or held
    ch.bank[b, f.GUARDS] += np.int64(promoted) - np.int64(final and held)
    _change_row(ch, c, b, pool[slot, f.ROW], t)
    if g[f.MISCOUNTED] and (before > 0) != (g[f.N_HELD] > 0):  # no bank is guarded while the active buffer is empty
        renew_all(ch)
    else:
        renew(ch, b)
        climb(ch.tree, b)
    if final:
        _finish(ch, slot, t)


@bare
def _finish(ch, slot, t):
    """A column command of the request issued."""
    g, pool, write = ch.state, ch.pool, ch.pool[slot, f.WRITE]
    g[f.PROGRESS] = t
    done = t - 1 if write else t + ch.policy[f.READ_CK]
    g[f.LAST_TICK] = max(g[f.LAST_TICK], t if write else done)
    note_request(ch.log, pool[slot, f.INDEX], write, pool[slot, f.ARRIVE], done)
    g[f.OUTSTANDING] -= 1
    ch.spare[g[f.N_FREE]] = slot
    g[f.N_FREE] += 1


@bare
def _change_row(ch, c, b, row, t):
    """What a command leaves behind in a bank."""
    bank = ch.bank
    if c == ACT:
        bank[b, f.OPENED], bank[b, f.OTHER], bank[b, f.OTHER_WRITE] = row, f.UNKNOWN, f.UNKNOWN
        row_opened(ch.log, bank[b, f.RANK], t)
    elif c in (RD, WR):
        bank[b, f.ACCESSES] += 1
    else:
        if bank[b, f.OPENED] >= 0:
            bank[b, f.OPENED] = -1
            row_closed(ch.log, bank[b, f.RANK], t)
        bank[b, f.ACCESSES], bank[b, f.CLOSING] = 0, 0
