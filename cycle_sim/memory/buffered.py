"""A controller that schedules straight from a read and a write buffer (Ramulator's structure), from event to event.

In each clock t, in this order: one request that comes at t - 1 is taken in; a refresh falls due; rows at their cap are
to be closed; one command issues (one column and one row command where they have their own bus).
"""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.memory.buffers import (
    ADDRESS,
    ARRIVE,
    AT,
    BANK,
    CAP,
    CHECK,
    CLOSING_CAP,
    COLUMN,
    CONFLICTS,
    COUNTED,
    DUAL,
    HEAD,
    HELD,
    HIGH,
    HIT_ENTRY,
    HITS,
    OTHER_ENTRY,
    INDEX,
    INTERVAL,
    KIND,
    LAST_TICK,
    LOW,
    MISSES,
    N_FREE,
    N_HELD,
    N_READ,
    N_WRITE,
    NEXT_REFRESH,
    NOW,
    OUTSTANDING,
    PATIENCE,
    PRIORITIES,
    PRIORITY,
    PRIORITY_LENGTH,
    PROGRESS,
    QUEUE_HIT,
    READ_CK,
    READ_LENGTH,
    READS,
    ROW,
    SCOPE,
    STALE,
    STOP,
    TAIL,
    UPKEEP,
    UPKEEP_DONE,
    WHERE,
    WRITE,
    WRITE_LENGTH,
    WRITING,
    Buffers,
    choose,
    drop_held,
    front,
    look,
    needs,
    offer,
    put,
    take,
)  # fmt: skip
from pimloom.cycle_sim.memory.compiled import bare
from pimloom.cycle_sim.memory.device import ACT, FAR, PRE, RD, RDA, REFAB, WR, WRA, arm
from pimloom.cycle_sim.memory.pending import find, insert, remove
from pimloom.cycle_sim.memory.queued import DONE, FLUSH, MORE, STARVED
from pimloom.cycle_sim.memory.record import (
    FORWARDED,
    LOGGING,
    MERGED,
    N_COMMANDS,
    N_REQUESTS,
    PAIRS,
    READ_HITS,
    Record,
    close_accounts,
    note_command,
    note_request,
    row_closed,
    row_opened,
)  # fmt: skip


class Controller(NamedTuple):
    """One channel: its buffers, free slots, hash table of the addresses in the write buffer, ranks, record."""

    buffers: Buffers
    spare: np.ndarray
    written: np.ndarray
    rank_of: np.ndarray
    rank: np.ndarray
    asleep: np.ndarray
    record: Record


@bare
def run(ch, address, write, when, bank, row, column, number, begin, end, final, extra):
    """Serve requests begin … end - 1 of the arrays, as `queued.run` does; returns (code, next request to take in)."""
    s, out = ch.buffers, ch.record
    g, i = s.state, begin
    while True:
        if i == end:
            if not final:
                return MORE, i
            if g[STOP] == FAR and g[OUTSTANDING] == 0:
                g[STOP] = max(g[LAST_TICK], g[NOW] - 1) + extra
        if out.tally[LOGGING]:
            if out.tally[N_COMMANDS] + 4 > out.command.shape[0] or out.tally[N_REQUESTS] + 4 > out.request.shape[0]:
                return FLUSH, i
        t = _next_event(s)
        if i < end and when[i] + 1 < t and _takes(ch, address[i], write[i]):
            t = max(when[i] + 1, g[NOW])
        if t - g[PROGRESS] > s.policy[PATIENCE] and (g[OUTSTANDING] > 0 or (i < end and when[i] + 1 < t)):
            return STARVED, i
        if t > g[STOP]:
            _count_lengths(g, g[STOP] - g[NOW] + 1)
            close_accounts(ch.rank, ch.asleep, g[STOP] + 1)
            g[NOW] = g[STOP] + 1
            return DONE, i
        _count_lengths(g, t - g[NOW])
        if i < end and when[i] < t and _takes(ch, address[i], write[i]):
            _send(ch, t, address[i], write[i], bank[i], row[i], column[i], number[i])
            i += 1
        _count_lengths(g, 1)
        _tick(ch, t)
        g[NOW] = t + 1


@bare
def _count_lengths(g, clocks):
    g[READ_LENGTH] += clocks * g[N_READ]
    g[WRITE_LENGTH] += clocks * g[N_WRITE]
    g[PRIORITY_LENGTH] += clocks * (g[TAIL] - g[HEAD])


@bare
def _next_event(s):
    """First clock from NOW on in which anything but a send may happen."""
    g = s.state
    if g[CHECK]:
        return g[NOW]
    t = min(s.pick[0, AT], s.pick[1, AT], g[NEXT_REFRESH])
    if s.policy[CLOSING_CAP]:
        for b in range(s.row.shape[0]):
            if s.accesses[b] >= s.policy[CAP] and not s.closing[b]:
                t = min(t, s.device.free[PRE * s.row.shape[0] + b])
    return max(t, g[NOW])


@bare
def _takes(ch, address, write):
    """Whether a request can be sent: there is room, or a buffered write to its address answers or absorbs it."""
    s = ch.buffers
    return s.state[N_READ + write] < s.policy[READS + write] or find(ch.written, address) >= 0


@bare
def _send(ch, t, address, write, bank, row, column, index):
    s, out = ch.buffers, ch.record
    g, sent = s.state, t - 1
    g[PROGRESS] = t
    if find(ch.written, address) >= 0:
        out.tally[MERGED if write else FORWARDED] += 1
        note_request(out, index, write, sent, sent if write else t)
        g[LAST_TICK] = max(g[LAST_TICK], t)
        return
    g[OUTSTANDING] += 1
    g[N_FREE] -= 1
    slot = ch.spare[g[N_FREE]]
    p = s.pool
    p[slot, ADDRESS], p[slot, WRITE], p[slot, BANK], p[slot, ROW] = address, write, bank, row
    p[slot, COLUMN], p[slot, ARRIVE], p[slot, INDEX], p[slot, COUNTED] = column, sent, index, 0
    if write:
        insert(ch.written, address, slot)
    q = write * s.row.shape[0] + bank
    put(s, q, slot)
    if write == g[WRITING] and g[HEAD] == g[TAIL]:
        offer(s, q, t)
    g[CHECK] = 1


@bare
def _tick(ch, t):
    s = ch.buffers
    g, dual = s.state, s.policy[DUAL]
    if t == g[NEXT_REFRESH]:
        g[NEXT_REFRESH] += s.policy[INTERVAL]
        for low in range(0, s.row.shape[0], s.policy[SCOPE]):
            _demand(ch, REFAB, low, t)
    if s.policy[CLOSING_CAP]:
        for b in range(s.row.shape[0]):
            if s.accesses[b] >= s.policy[CAP] and not s.closing[b]:
                if s.device.free[PRE * s.row.shape[0] + b] <= t:
                    s.closing[b] = 1
                    _demand(ch, PRE, b, t)
    issued = np.int64(0)
    for lane in range(1 + dual):
        for _ in range(2):
            if g[STALE]:
                look(s, t)
                g[STALE] = 0
            if g[HEAD] == g[TAIL] and (s.pick[lane, AT] > t or s.pick[lane, KIND] >= QUEUE_HIT):
                mode = _write_mode(s)
                if mode != g[WRITING]:
                    g[WRITING], g[STALE] = mode, 1
        if s.pick[lane, AT] <= t:
            if s.pick[lane, KIND] == PRIORITY:
                _upkeep(ch, t)
            else:
                _serve(ch, lane, t)
            g[STALE] = 1
            issued += 1
    ch.record.tally[PAIRS] += issued == 2
    if g[STALE] or min(s.pick[0, AT], s.pick[1, AT]) <= t:
        look(s, t + 1)
        g[STALE] = 0
    g[CHECK] = g[HEAD] == g[TAIL] and _write_mode(s) != g[WRITING]


@bare
def _demand(ch, c, low, t):
    """Put upkeep into the priority buffer, if it has room."""
    s = ch.buffers
    g = s.state
    if g[TAIL] - g[HEAD] < s.policy[PRIORITIES]:
        place = g[TAIL] % s.priority.shape[0]
        s.priority[place, 0], s.priority[place, 1] = c, low
        g[TAIL] += 1
        g[UPKEEP] += 1
        g[STALE] = 1


@bare
def _write_mode(s):
    """1 while writes are served: from above the high mark, or without reads, until below the low mark with reads."""
    g = s.state
    if g[N_READ] == 0:
        return np.int64(1)
    return np.int64(g[N_WRITE] >= s.policy[LOW] if g[WRITING] else g[N_WRITE] > s.policy[HIGH])


@bare
def _upkeep(ch, t):
    """Issue what the front of the priority buffer needs."""
    s, out = ch.buffers, ch.record
    c, low, high = front(s)
    note_command(out, t, c, low, -1, -1, 1)
    final = s.priority[s.state[HEAD] % s.priority.shape[0], 0]
    arm(s.device, c, low, t)
    if c != REFAB:
        for b in range(low, high):
            _change_row(ch, c, b, -1, t)
    if c == final:
        s.state[HEAD] += 1
        s.state[UPKEEP_DONE] += 1


@bare
def _serve(ch, lane, t):
    """Issue the next command of the request that was picked."""
    s, out = ch.buffers, ch.record
    g, p, kind, where = s.state, s.pool, s.pick[lane, KIND], s.pick[lane, WHERE]
    entry = -1
    if kind == HELD:
        slot = s.held[where]
    else:
        entry = s.choice[where, HIT_ENTRY if kind == QUEUE_HIT else OTHER_ENTRY]
        slot = s.queue[where, entry]
    c, b, write = needs(s, slot), p[slot, BANK], p[slot, WRITE]
    final = RD <= c <= WRA
    if final and s.policy[CLOSING_CAP] and s.accesses[b] >= s.policy[CAP]:
        if s.device.free[(c + RDA - RD) * s.row.shape[0] + b] <= t:
            c += RDA - RD
    if not p[slot, COUNTED]:
        p[slot, COUNTED] = 1
        met = HITS if final else (MISSES if c == ACT else CONFLICTS)
        g[met] += 1
        out.tally[READ_HITS + write] += final
    note_command(out, t, c, b, p[slot, ROW], p[slot, COLUMN], 0)
    arm(s.device, c, b, t)
    promoted = c == ACT and g[N_HELD] < s.held.shape[0]
    if promoted or final:
        if kind == HELD:
            drop_held(s, where)
        else:
            take(s, where, entry)
            if write:
                remove(ch.written, p[slot, ADDRESS])
    if promoted:
        s.held[g[N_HELD]] = slot
        g[N_HELD] += 1
        s.holds[b] += 1
    _change_row(ch, c, b, p[slot, ROW], t)
    if final:
        g[PROGRESS] = t
        s.holds[b] -= kind == HELD
        done = t - 1 if write else t + s.policy[READ_CK]
        g[LAST_TICK] = max(g[LAST_TICK], t if write else done)
        note_request(out, p[slot, INDEX], write, p[slot, ARRIVE], done)
        g[OUTSTANDING] -= 1
        ch.spare[g[N_FREE]] = slot
        g[N_FREE] += 1


@bare
def _change_row(ch, c, b, row, t):
    """What a command leaves behind in a bank."""
    s = ch.buffers
    if c == ACT:
        s.row[b] = row
        row_opened(ch.rank, ch.rank_of[b], t)
    elif c == RD or c == WR:
        s.accesses[b] += 1
    else:
        if s.row[b] >= 0:
            s.row[b] = -1
            row_closed(ch.rank, ch.rank_of[b], t)
        s.accesses[b], s.closing[b] = 0, 0
    for k in range(2):
        choose(s, k * s.row.shape[0] + b)
