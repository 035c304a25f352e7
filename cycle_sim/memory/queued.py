"""A controller with transaction queues before command queues (DRAMsim3's structure), from event to event.

In each clock, in this order: a refresh falls due; the refresh engine or else the command queues issue (a second command
where row and column commands have their own bus); an idle rank falls asleep; one request moves to its command queue; one
request is accepted. Clocks in which nothing of that can happen are jumped over.
"""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.memory.compiled import bare
from pimloom.cycle_sim.memory.device import ACT, FAR, PRE, PREAB, RD, REFAB, REFPB, SRE, SRX, WRA, arm, free_from
from pimloom.cycle_sim.memory.pending import find, insert, remove
from pimloom.cycle_sim.memory.queues import (
    ACCEPTED,
    ADAPTIVE,
    ADDRESS,
    AT,
    BANK,
    BY,
    COLUMN,
    COMMAND,
    DEPTH,
    DRAIN_HIGH,
    DRAIN_IDLE,
    DRAIN_LOW,
    DRAMSIM3,
    DUAL,
    ENTRY,
    INDEX,
    CLOSE_ALL,
    INTERVAL,
    PATIENCE,
    PER_CK,
    POINTER,
    READ_CK,
    READS,
    REFRESH,
    ROW,
    SLEEP_AFTER,
    STALE,
    TIMEOUT,
    UNIFIED,
    WAITING,
    WRITE,
    Queues,
    append,
    choose,
    compare,
    look,
    ready_choice,
    take,
)  # fmt: skip
from pimloom.cycle_sim.memory.record import (
    CLOSED_FOR_MISS,
    FORWARDED,
    HERE,
    IDLE_CK,
    IDLE_FROM,
    LAST_DONE,
    LOGGING,
    MERGED,
    N_COMMANDS,
    N_REQUESTS,
    OPEN_BANKS,
    PAIRS,
    READ_HITS,
    SINCE,
    SLEEP_CK,
    TOUCHED,
    Record,
    close_accounts,
    note_command,
    note_request,
    row_closed,
    row_opened,
)  # fmt: skip

DONE, MORE, FLUSH, GROW, LIVELOCK, ASLEEP, STARVED, LOST = range(8)  # what `run` returns
(
    NOW, MOVE, DRAIN, QUEUED, N_READ, N_WRITE, OUTSTANDING, N_FREE, FREE_WAIT, NEXT_REFRESH, REF_HEAD, REF_TAIL, ARMED,
    REF_AT, STOP, TURN_RANK, TURN_GROUP, TURN_BANK, TAKEN, PROGRESS,
) = range(20)  # fmt: skip
N_STATE = 20
NONE, ALL_BANK, STAGGERED, PER_BANK = range(4)  # refresh policies


class Channel(NamedTuple):
    """One channel and its controller; all int64.

    order[0], order[1]: slots in the read and in the write queue, oldest first. spare: free slots. reads, writes: hash
    tables of the addresses that wait. waiting[w]: number, acceptance, write, next of a request that ends with another.
    refreshes: ring of (command, bank). rank: see `record`. state: scalars.
    """

    queues: Queues
    order: np.ndarray
    spare: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    waiting: np.ndarray
    refreshes: np.ndarray
    rank: np.ndarray
    state: np.ndarray
    record: Record


@bare
def run(ch, address, write, when, bank, row, column, number, begin, end, final, extra):
    """Serve requests begin … end - 1 of the arrays; request i has number[i] and comes at clock when[i] or later.

    Returns (code, next request to accept). MORE: all are accepted, call again with more; FLUSH: empty the logs; GROW: the
    rings are too short; DONE (only if final): all are done, and `extra` clocks more have passed; STARVED: requests wait,
    and none has been accepted or served for so long that none ever will be.
    """
    g, s, out = ch.state, ch.queues, ch.record
    i = begin
    while True:
        while (
            i < end and g[TAKEN] < s.policy[PER_CK] and when[i] < g[NOW] and g[FREE_WAIT] >= 0 and _room(ch, write[i])
        ):
            _accept(ch, g[NOW] - 1, address[i], write[i], bank[i], row[i], column[i], number[i])
            g[TAKEN] += 1
            i += 1
        if i == end:
            if not final:
                return MORE, i
            if g[STOP] == FAR and g[OUTSTANDING] == 0:
                g[STOP] = max(out.tally[LAST_DONE] + 1, g[NOW]) + extra
        if out.tally[LOGGING]:
            if out.tally[N_COMMANDS] + 4 > out.command.shape[0]:
                return FLUSH, i
            if out.tally[N_REQUESTS] + g[OUTSTANDING] + s.policy[PER_CK] + 2 > out.request.shape[0]:
                return FLUSH, i
        if g[FREE_WAIT] < 0 or g[REF_TAIL] - g[REF_HEAD] + s.asleep.shape[0] >= ch.refreshes.shape[0]:
            return GROW, i
        t = _next_event(ch)
        if i < end and _room(ch, write[i]):
            t = min(t, max(when[i], g[NOW]))
        if t - g[PROGRESS] > s.policy[PATIENCE] and (g[OUTSTANDING] > 0 or (i < end and when[i] < t)):
            return STARVED, i
        if t >= g[STOP]:
            close_accounts(ch.rank, s.asleep, g[STOP])
            g[NOW] = g[STOP]
            return DONE, i
        code = _tick(ch, t)
        g[NOW], g[TAKEN] = t + 1, 0
        if code != DONE:
            return code, i


@bare
def _next_event(ch):
    """First clock from NOW on in which anything but an acceptance may happen."""
    g, s = ch.state, ch.queues
    if g[MOVE] and g[N_READ] + g[N_WRITE] > 0:
        return g[NOW]
    t = min(s.pick[AT], g[NEXT_REFRESH])
    if g[REF_HEAD] != g[REF_TAIL]:
        t = min(t, g[REF_AT] if g[ARMED] else g[NOW])
    if s.policy[ADAPTIVE]:
        t = min(t, _idle_row(s)[0])
    if s.policy[SLEEP_AFTER] > 0:
        for r in range(ch.rank.shape[0]):
            t = min(t, _sleep_at(ch, r))
    return max(t, g[NOW])


@bare
def _room(ch, write):
    k = write if not ch.queues.policy[UNIFIED] else 0
    return ch.state[N_READ + k] < ch.queues.policy[READS + k]


@bare
def _tick(ch, t):
    g, s, out = ch.state, ch.queues, ch.record
    if t == g[NEXT_REFRESH]:
        _refresh_due(ch)
    issued, code = np.int64(-1), DONE
    if g[REF_HEAD] != g[REF_TAIL]:
        issued = _refresh(ch, t)
        if issued == -2:
            return ASLEEP
    for second in range(2):  # the other bus may issue in the same clock
        if second != (issued >= 0) or (second and not s.policy[DUAL]):
            continue
        bus = 1 - s.bus[issued] if second and not s.policy[DRAMSIM3] else -1
        if s.pick[STALE] or second:
            look(s, t, bus)
            s.pick[STALE] = second
        if s.pick[AT] <= t:
            if second and s.policy[DRAMSIM3]:
                c = _second(ch, t)
                if (RD <= c <= WRA) == (RD <= issued <= WRA):
                    if RD <= c <= WRA:
                        return LOST
                    out.tally[CLOSED_FOR_MISS] += c == PRE
                    continue
            issued = _issue(ch, t, bus)
            out.tally[PAIRS] += second
    if issued < 0 and s.policy[ADAPTIVE]:
        at, b = _idle_row(s)
        if at <= t:
            issued = _close(ch, b, t)
    if issued >= 0:
        s.pick[STALE] = 1
        if g[REF_HEAD] != g[REF_TAIL] and g[ARMED]:
            g[REF_AT] = _engine_at(ch)
    elif s.policy[SLEEP_AFTER] > 0:
        code = _sleep(ch, t)
    for _ in range(s.policy[PER_CK]):
        if g[MOVE] and code == DONE:
            code = _move(ch, t)
    if s.pick[STALE]:
        look(s, t + 1, -1)
    return code


@bare
def _second(ch, t):
    """The second command that DRAMsim3 finds in a clock, of any kind; it drops it unless just one is a column command."""
    s = ch.queues
    q = s.pick[BY]
    s.pick[POINTER] = q  # its turn has come in any case
    return s.choice[q, ready_choice(s, q, t, -1), COMMAND]


@bare
def _issue(ch, t, bus):
    """Issue what the queue that comes next has ready; returns the command."""
    g, s, out = ch.state, ch.queues, ch.record
    q = s.pick[BY]
    k = ready_choice(s, q, t, bus)
    c, i = s.choice[q, k, COMMAND], s.choice[q, k, ENTRY]
    slot = s.queue[q, i]
    b, row = s.pool[slot, BANK], s.pool[slot, ROW]
    s.pick[POINTER] = q
    note_command(out, t, c, b, row, s.pool[slot, COLUMN], 0)
    if RD <= c <= WRA:
        out.tally[READ_HITS + s.pool[slot, WRITE]] += s.hits[b] != 0
        take(s, q, i)
        g[QUEUED] -= 1
        g[MOVE] = 1
        _finish(ch, slot, t)
    elif c == PRE:
        out.tally[CLOSED_FOR_MISS] += 1
    if c == SRX:
        _wake(ch, s.rank[b], t)
    else:
        _change_row(ch, c, b, row, t)
        choose(s, q)
    arm(s.device, c, b, t)
    return c


@bare
def _change_row(ch, c, b, row, t):
    """What a command of one bank leaves behind."""
    s = ch.queues
    s.used[b] = t
    if c == ACT:
        s.row[b], s.hits[b] = row, 0
        row_opened(ch.rank, s.rank[b], t)
    elif c == RD or c == RD + 1:
        s.hits[b] += 1
    elif s.row[b] >= 0:
        s.row[b], s.hits[b] = -1, 0
        row_closed(ch.rank, s.rank[b], t)


@bare
def _close(ch, b, t):
    """Close the row of bank b for nobody's request."""
    s = ch.queues
    note_command(ch.record, t, PRE, b, -1, -1, 1)
    _change_row(ch, PRE, b, -1, t)
    choose(s, s.home[b])
    arm(s.device, PRE, b, t)
    return PRE


@bare
def _close_all(ch, low, high, t):
    """Close all rows of a rank with one command."""
    s = ch.queues
    note_command(ch.record, t, PREAB, low, -1, -1, 1)
    for b in range(low, high):
        _change_row(ch, PREAB, b, -1, t)
        choose(s, s.home[b])
    arm(s.device, PREAB, low, t)
    return PREAB


@bare
def _idle_row(s):
    """(clock, bank) of the next row that an adaptive policy closes because nobody has used it."""
    at, bank = FAR, -1
    for b in range(s.row.shape[0]):
        if s.row[b] >= 0 and s.wanted[b] == 0:
            t = max(s.used[b] + s.policy[TIMEOUT], s.device.free[PRE * s.row.shape[0] + b])
            if t < at:
                at, bank = t, b
    return at, bank


@bare
def _finish(ch, slot, t):
    """The request's column command issued: it and those that wait for it are done when its data is."""
    g, s, out = ch.state, ch.queues, ch.record
    p, write = s.pool[slot], s.pool[slot, WRITE]
    g[PROGRESS] = t
    remove(ch.writes if write else ch.reads, p[ADDRESS])
    ch.rank[s.rank[p[BANK]], HERE] -= 1
    if not (write and s.policy[DRAMSIM3]):
        done = t + s.policy[READ_CK + write]
        note_request(out, p[INDEX], write, p[ACCEPTED], done)
        g[OUTSTANDING] -= 1
        w = p[WAITING]
        while w >= 0:
            note_request(out, ch.waiting[w, 0], write, ch.waiting[w, 1], done)
            g[OUTSTANDING] -= 1
            following = ch.waiting[w, 2]
            ch.waiting[w, 2], g[FREE_WAIT] = g[FREE_WAIT], w
            w = following
    ch.spare[g[N_FREE]] = slot
    g[N_FREE] += 1


@bare
def _accept(ch, t, address, write, bank, row, column, index):
    """Take a request in; it may wait with another one to its address, or be answered from the write queue."""
    g, s, out = ch.state, ch.queues, ch.record
    at_once = t + (2 if s.policy[DRAMSIM3] else 1)
    slot, g[PROGRESS] = find(ch.writes, address), t
    if write and s.policy[DRAMSIM3]:
        note_request(out, index, write, t, at_once)
    elif not write and slot >= 0:
        note_request(out, index, write, t, at_once)
        out.tally[FORWARDED] += 1
        return
    else:
        g[OUTSTANDING] += 1
    if not write:
        slot = find(ch.reads, address)
    if slot >= 0:
        out.tally[MERGED] += 1
        if not (write and s.policy[DRAMSIM3]):
            w = g[FREE_WAIT]
            g[FREE_WAIT] = ch.waiting[w, 2]
            ch.waiting[w, 0], ch.waiting[w, 1], ch.waiting[w, 2] = index, t, s.pool[slot, WAITING]
            s.pool[slot, WAITING] = w
        return
    g[N_FREE] -= 1
    slot = ch.spare[g[N_FREE]]
    p = s.pool[slot]
    p[ADDRESS], p[WRITE], p[BANK], p[ROW], p[COLUMN] = address, write, bank, row, column
    p[ACCEPTED], p[INDEX], p[WAITING] = t, index, -1
    insert(ch.writes if write else ch.reads, address, slot)
    k = write if not s.policy[UNIFIED] else 0
    ch.order[k, g[N_READ + k]] = slot
    g[N_READ + k] += 1
    g[MOVE] = 1
    ch.rank[s.rank[bank], HERE] += 1


@bare
def _move(ch, t):
    """Move one request to its command queue: of the write queue while it drains, else of the read queue."""
    g, s = ch.state, ch.queues
    unified, before, k = s.policy[UNIFIED], g[DRAIN], 0
    g[MOVE] = 0
    if not unified:
        if g[DRAIN] == 0:
            if g[N_WRITE] >= s.policy[DRAIN_HIGH] or (g[N_WRITE] > s.policy[DRAIN_IDLE] and _quiet(ch)):
                g[DRAIN] = max(1, g[N_WRITE] - s.policy[DRAIN_LOW])
        k = np.int64(g[DRAIN] > 0)
    for i in range(g[N_READ + k]):
        slot = ch.order[k, i]
        q = s.home[s.pool[slot, BANK]]
        if s.length[q] >= s.policy[DEPTH]:
            continue
        if k and find(ch.reads, s.pool[slot, ADDRESS]) >= 0:
            if not s.policy[DRAMSIM3]:
                continue
            g[DRAIN] = 0
            g[MOVE] = before > 0
            return LIVELOCK if before == 0 and g[QUEUED] == 0 else DONE
        _move_entry(ch, k, i, q, t)
        if k and (s.policy[DRAMSIM3] or g[DRAIN] > 1 or g[N_READ] > 0 or g[N_WRITE] <= s.policy[DRAIN_IDLE]):
            g[DRAIN] -= 1  # else the drain goes on: no read waits
        return DONE
    if k and not s.policy[DRAMSIM3]:  # the writes wait for reads: let those go first
        for i in range(g[N_READ]):
            q = s.home[s.pool[ch.order[0, i], BANK]]
            if s.length[q] < s.policy[DEPTH]:
                _move_entry(ch, 0, i, q, t)
                return DONE
    return DONE


@bare
def _quiet(ch):
    """Whether writes may go because nothing else does."""
    return ch.state[QUEUED] == 0 and (ch.queues.policy[DRAMSIM3] or ch.state[N_READ] == 0)


@bare
def _move_entry(ch, k, i, q, t):
    g, s = ch.state, ch.queues
    slot = ch.order[k, i]
    n = g[N_READ + k] - 1
    for j in range(i, n):
        ch.order[k, j] = ch.order[k, j + 1]
    g[N_READ + k] = n
    ch.rank[s.rank[s.pool[slot, BANK]], TOUCHED] = 1
    g[QUEUED] += 1
    g[MOVE] = 1
    append(s, q, slot)
    compare(s, q, t + 1)


@bare
def _refresh_due(ch):
    """Queue what falls due; sleeping ranks refresh themselves."""
    g, s = ch.state, ch.queues
    g[NEXT_REFRESH] += s.policy[INTERVAL]
    ranks, banks = s.asleep.shape[0], s.row.shape[0]
    if s.policy[REFRESH] == ALL_BANK:
        for r in range(ranks):
            if not s.asleep[r]:
                _queue_refresh(ch, REFAB, r * (banks // ranks))
                if s.policy[DRAMSIM3]:  # refreshes the first rank that is awake, and no other
                    break
    elif s.policy[REFRESH] == STAGGERED:
        if not s.asleep[g[TURN_RANK]]:
            _queue_refresh(ch, REFAB, g[TURN_RANK] * (banks // ranks))
        g[TURN_RANK] = (g[TURN_RANK] + 1) % ranks
    else:  # bank group fastest, then bank, then rank
        span = s.device.span
        r, group, b = g[TURN_RANK], g[TURN_GROUP], g[TURN_BANK]
        if not s.asleep[r]:
            _queue_refresh(ch, REFPB, r * span[2] + group * span[3] + b)
        g[TURN_GROUP] = group + 1
        if g[TURN_GROUP] == span[2] // span[3]:
            g[TURN_GROUP], g[TURN_BANK] = 0, b + 1
            if g[TURN_BANK] == span[3]:
                g[TURN_BANK], g[TURN_RANK] = 0, (r + 1) % ranks


@bare
def _queue_refresh(ch, c, bank):
    place = ch.state[REF_TAIL] % ch.refreshes.shape[0]
    ch.refreshes[place, 0], ch.refreshes[place, 1] = c, bank
    ch.state[REF_TAIL] += 1


@bare
def _front(ch):
    """(command, first bank, end of the banks) of the refresh that is worked on."""
    place = ch.state[REF_HEAD] % ch.refreshes.shape[0]
    c, low = ch.refreshes[place, 0], ch.refreshes[place, 1]
    return c, low, low + (ch.queues.device.span[2] if c == REFAB else 1)


@bare
def _engine_at(ch):
    """First clock in which the refresh engine may issue: a PRE of an open bank, or the refresh itself."""
    s, t = ch.queues, FAR
    c, low, high = _front(ch)
    if s.policy[CLOSE_ALL] and c == REFAB and ch.rank[s.rank[low], OPEN_BANKS] > 0:
        return free_from(s.device, PREAB, low)
    for b in range(low, high):
        if s.row[b] >= 0:
            t = min(t, s.device.free[PRE * s.row.shape[0] + b])
    return t if t < FAR else free_from(s.device, c, low)


@bare
def _refresh(ch, t):
    """Work on the first refresh; returns the command issued, -1 if none, -2 if the rank sleeps."""
    g, s = ch.state, ch.queues
    c, low, high = _front(ch)
    if s.asleep[s.rank[low]]:
        return -2
    if not g[ARMED]:
        g[ARMED] = 1
        for b in range(low, high):
            s.blocked[s.home[b]] = 1
        s.pick[STALE] = 1
        g[REF_AT] = _engine_at(ch)
    if g[REF_AT] > t:
        return -1
    if s.policy[CLOSE_ALL] and c == REFAB and ch.rank[s.rank[low], OPEN_BANKS] > 0:
        return _close_all(ch, low, high, t)
    for b in range(low, high):
        if s.row[b] >= 0 and s.device.free[PRE * s.row.shape[0] + b] <= t:
            return _close(ch, b, t)
    note_command(ch.record, t, c, low, -1, -1, 1)
    arm(s.device, c, low, t)
    for b in range(low, high):
        s.blocked[s.home[b]] = 0
    g[ARMED] = 0
    g[REF_HEAD] += 1
    return c


@bare
def _sleep_at(ch, r):
    """First clock in which rank r may enter self-refresh."""
    s, k = ch.queues, ch.rank[r]
    busy = k[TOUCHED] if s.policy[DRAMSIM3] else k[HERE]
    if s.asleep[r]:
        return ch.state[NOW] if s.policy[DRAMSIM3] and busy else FAR
    if busy or k[OPEN_BANKS] or (ch.state[REF_HEAD] != ch.state[REF_TAIL] and not s.policy[DRAMSIM3]):
        return FAR
    low = r * s.device.span[2]
    return max(k[IDLE_FROM] + s.policy[SLEEP_AFTER] - 1, free_from(s.device, SRE, low))


@bare
def _sleep(ch, t):
    """In a clock without a command: the first rank that has idled long enough enters self-refresh."""
    g, s = ch.state, ch.queues
    for r in range(ch.rank.shape[0]):
        if _sleep_at(ch, r) > t:
            continue
        if s.asleep[r]:  # the tool asks for a wake-up that it does not know
            return ASLEEP
        low, k = r * s.device.span[2], ch.rank[r]
        note_command(ch.record, t, SRE, low, -1, -1, 1)
        arm(s.device, SRE, low, t)
        s.asleep[r], s.pick[STALE] = 1, 1
        k[IDLE_CK] += t + 1 - k[SINCE]
        k[SINCE] = t + 1
        return DONE
    return DONE


@bare
def _wake(ch, r, t):
    s, k = ch.queues, ch.rank[r]
    s.asleep[r] = 0
    k[SLEEP_CK] += t - k[SINCE]
    k[SINCE], k[IDLE_FROM] = t, t
    for b in range(r * s.device.span[2], (r + 1) * s.device.span[2]):
        choose(s, s.home[b])
