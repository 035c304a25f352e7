"""A channel of AiM: which request goes on at a clock, and what its command changes."""

import numpy as np

from pimloom.arch.aim import OP, SYNC
from pimloom.cycle_sim.aim.kernels.queue import equal, gone, take, taken
from pimloom.cycle_sim.aim.kernels.state import (
    ACT,
    ACT16,
    ACTIVE,
    ANSWER,
    ANSWERED,
    AT,
    BEHIND,
    BEHIND_ANSWER,
    BLOCKED,
    BLOCKS,
    CLOCK,
    DRAIN,
    DRAINED,
    DUE,
    FIRST,
    LATENCY,
    LEFT,
    LOG_BANK,
    LOG_CHANNEL,
    LOG_OP,
    LOG_ROW,
    LOGGED,
    MODE,
    N_REQUEST,
    NEEDS,
    OF_AIM,
    OF_ALL,
    OF_BANK,
    OF_READS,
    OF_WRITES,
    OPEN,
    OPEN_CK,
    OPENED_AT,
    PRE,
    PREAB,
    Q_AT,
    Q_BANK,
    Q_OP,
    Q_ROW,
    Q_TIMES,
    RD,
    READS,
    REFAB,
    REFI,
    REGISTERS,
    SAME,
    STARVED,
    STEADY,
    SYNCING,
    TMOD,
    UNANSWERED,
    VAIN,
    WAKE,
    WR,
    WRA16,
    WRITING,
    WRITTEN,
)  # fmt: skip
from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.dram.kernels.device import FAR, Device, arm, free_from


@bare
def answer(ch, end):
    """Note that data which are there at clock `end` leave the channel; returns when, where that is known."""
    if ch[SYNCING] >= 0:
        ch[BEHIND] += 1
        ch[BEHIND_ANSWER] = max(ch[BEHIND_ANSWER] + 1, end)
        return end
    ch[ANSWER] = max(end, ch[ANSWER] + 1)
    return ch[ANSWER]


@bare
def step(w, c, program, now, log):
    """What channel c does at clock `now`: a command, if one can issue. Leaves in WAKE when to look again."""
    ch, size = w.channel[c], w.size[c]
    wake = FAR
    if ch[SYNCING] >= 0:
        at = max(ch[SYNCING], ch[WRITTEN] + 1)
        if at <= now:
            _synchronised(w, ch, at)
        else:
            wake = at
    q, i, soon = -1, 0, FAR
    if size[ACTIVE]:
        i, soon = _best(w, c, ACTIVE, now)
        if soon <= now:
            q = ACTIVE
        wake = min(wake, soon)
    if q < 0 and ch[DUE] <= now:
        ch[WAKE] = wake if size[ACTIVE] else min(wake, _refresh(w, c, now, log))
        return
    if q < 0 and size[OF_AIM]:
        i = ch[FIRST]
        if w.queue[c, OF_AIM, i, Q_OP] == SYNC:
            gone(w, c, now, 0, 1)
            ch[SYNCING] = max(now, ch[ANSWER]) + 1
            ch[WAKE] = now + 1
            return
        soon = _ready(w, c, OF_AIM, i)
        q = OF_AIM if soon <= now else -1
        wake = min(wake, soon)
    elif q < 0:
        _turn(w.host, ch, size)
        waiting = OF_WRITES if ch[WRITING] else OF_READS
        if size[waiting]:
            i, soon = _best(w, c, waiting, now)
            q = waiting if soon <= now else -1
            wake = min(wake, soon)
    if q == OF_AIM and log.shape[0] == 0 and size[ACTIVE] == 0 and ch[SYNCING] < 0:
        ch[WAKE] = _go_on(w, c, program, now, log) + 1
        return
    if q >= 0:
        _issue(w, c, q, i, now, log)
        wake = now + 1
    ch[WAKE] = min(wake, max(ch[DUE], now + 1))


@bare
def _go_on(w, c, program, now, log):
    """Requests of AiM as far as they come one after the other, the first one at clock `now`, while nothing else can
    happen here: the host has nothing else for the channel before they are gone. Returns the last clock."""
    ch, free = w.channel[c], now
    while w.size[c, OF_AIM]:
        i = ch[FIRST]
        request = w.queue[c, OF_AIM, i]
        if request[Q_OP] == SYNC:
            break
        op, bank = _next(w, c, request), max(request[Q_BANK], 0)
        at = max(free_from(_device(w, c), op, bank), free)
        if at >= ch[DUE]:
            break
        if op == request[Q_OP] and w.ops[op, STEADY] and w.ops[op, MODE] == ch[REGISTERS]:
            at = _repeat(w, c, program, op, bank, at)
        else:
            _issue(w, c, OF_AIM, i, at, log)
        if ch[LEFT] > 0 and program[w.host[AT], OP] not in (RD, WR):
            take(w, c, program, now)
        free = at + 1
    return free - 1


@bare
def _repeat(w, c, program, op, bank, at):
    """The requests that are equal to the first one, those among them that the DMA has left; returns the last clock.

    Whatever came before no longer binds the second of them: it comes as long after the first as the rules of the
    command say, and so do the others.
    """
    ch, host, request = w.channel[c], w.host, w.queue[c, OF_AIM, w.channel[c, FIRST]]
    n = request[Q_TIMES]
    if w.size[c, OF_AIM] == 1 and ch[LEFT] > 0 and equal(request, program[host[AT]]):
        n += ch[LEFT]
    arm(_device(w, c), op, bank, at)
    every = max(free_from(_device(w, c), op, bank) - at, 1)
    n = min(n, 1 + (ch[DUE] - 1 - at) // every)
    last = at + (n - 1) * every
    if n > 1:
        arm(_device(w, c), op, bank, last)
    w.counts[c, op] += n
    ch[STARVED], ch[VAIN], ch[WRITTEN] = 0, 0, max(ch[WRITTEN], last + w.ops[op, LATENCY])
    more = max(n - request[Q_TIMES], 0)
    request[Q_TIMES] += more
    gone(w, c, at, every, n)
    if more:
        taken(w, c, at, more)
    return last


@bare
def _turn(host, ch, size):
    """Whether writes are served, or reads."""
    if ch[WRITING]:
        if size[OF_WRITES] < host[DRAINED] and size[OF_READS]:
            ch[WRITING] = 0
    elif size[OF_WRITES] >= host[DRAIN] or size[OF_READS] == 0:
        ch[WRITING] = 1


@bare
def _best(w, c, q, now):
    """Of a queue the first that is ready, of those the first that came; and when that, or any, is ready."""
    best, ready, came = -1, FAR, FAR
    for i in range(w.size[c, q]):
        at = _ready(w, c, q, i)
        if at <= now:
            if w.queue[c, q, i, Q_AT] < came:
                best, came = i, w.queue[c, q, i, Q_AT]
        elif best < 0:
            ready = min(ready, at)
    return best, (now if best >= 0 else ready)


@bare
def _ready(w, c, q, i):
    """When the next command of a request can issue."""
    request = w.queue[c, q, i]
    op = _next(w, c, request)
    return free_from(_device(w, c), op, max(request[Q_BANK], 0))


@bare
def _device(w, c):
    d = w.device
    return Device(d.path, w.bound[c], d.aside, w.beside[c], d.first_rule, d.rule, w.ring[c])


@bare
def _next(w, c, request):
    """The command that a request needs next."""
    op, row, open_row = request[Q_OP], request[Q_ROW], w.open_row[c]
    if w.ops[op, NEEDS] == OF_BANK:
        there = open_row[request[Q_BANK]]
        return ACT if there < 0 else op if there == row else PRE
    if w.ops[op, NEEDS] == OF_ALL and w.channel[c, SAME] != row:
        closed = False
        for b in range(open_row.shape[0]):
            if open_row[b] < 0:
                closed = True
            elif open_row[b] != row:
                return np.int64(PREAB)
        return np.int64(ACT16) if closed else op
    return op


@bare
def _issue(w, c, q, i, now, log):
    """The next command of a request, or TMOD in its place; nothing if it closed a row of one that is active."""
    ch, request = w.channel[c], w.queue[c, q, i]
    op, wanted, bank, row = _next(w, c, request), request[Q_OP], request[Q_BANK], request[Q_ROW]
    if op in (PRE, PREAB):
        for k in range(w.size[c, ACTIVE]):
            if w.queue[c, ACTIVE, k, Q_BANK] == bank:
                ch[BLOCKED] += 1
                return
    ch[BLOCKED] = 0
    if w.ops[wanted, MODE] != ch[REGISTERS]:
        ch[REGISTERS] = w.ops[wanted, MODE]
        op = np.int64(TMOD)
    _send(w, c, op, bank, row, now, log)
    ch[VAIN] += ch[DUE] == FAR  # a refresh would let those that are active go on
    if op in (ACT, PRE, ACT16, PREAB, WRA16):
        _move_rows(w, c, op, bank, row, now)
    if op == wanted:
        ch[STARVED], ch[VAIN] = 0, 0
        end = now + w.ops[op, LATENCY]
        if w.ops[op, READS]:
            at = answer(ch, end)
            if w.ops[op, BLOCKS]:
                w.host[UNANSWERED] -= 1
                w.host[ANSWERED] = max(w.host[ANSWERED], at)
        else:
            ch[WRITTEN] = max(ch[WRITTEN], end)
        if q == OF_AIM:
            gone(w, c, now, 0, 1)
        else:
            _leave(w, c, q, i)
    elif op == ACT and wanted in (RD, WR):
        active = w.queue[c, ACTIVE, w.size[c, ACTIVE]]
        for k in range(N_REQUEST):
            active[k] = request[k]
        w.size[c, ACTIVE] += 1
        _leave(w, c, q, i)


@bare
def _send(w, c, op, bank, row, now, log):
    """A command to the banks."""
    arm(_device(w, c), op, max(bank, 0), now)
    w.counts[c, op] += 1
    if log.shape[0]:
        note = log[w.host[LOGGED]]
        note[CLOCK], note[LOG_CHANNEL], note[LOG_OP], note[LOG_BANK], note[LOG_ROW] = now, c, op, bank, row
        w.host[LOGGED] += 1


@rare
def _refresh(w, c, now, log):
    """What an owed refresh needs next, if it can issue at clock `now`; returns when to look again."""
    ch, size = w.channel[c], w.size[c]
    op = np.int64(PREAB) if ch[OPEN] else np.int64(REFAB)
    soon = free_from(_device(w, c), op, np.int64(0))
    if soon > now:
        return soon
    if ch[REGISTERS]:
        ch[REGISTERS] = 0
        op = np.int64(TMOD)
    _send(w, c, op, np.int64(-1), np.int64(-1), now, log)
    if op == PREAB:
        _move_rows(w, c, op, np.int64(-1), np.int64(-1), now)
    elif op == REFAB:
        ch[DUE] += w.host[REFI]
        ch[WRITTEN] = max(ch[WRITTEN], now + 1)
        if size[OF_AIM] + size[OF_READS] + size[OF_WRITES]:
            ch[STARVED] += 1
    return now + 1


@rare
def _move_rows(w, c, op, bank, row, now):
    ch, open_row = w.channel[c], w.open_row[c]
    was = ch[OPEN]
    if op in (ACT, PRE):
        open_row[bank] = row if op == ACT else -1
        ch[SAME] = -1
        ch[OPEN] += 1 if op == ACT else -1
    else:
        ch[SAME] = row if op == ACT16 else -1
        ch[OPEN] = open_row.shape[0] if op == ACT16 else 0
        for b in range(open_row.shape[0]):
            open_row[b] = ch[SAME]
    if was == 0 and ch[OPEN]:
        ch[OPENED_AT] = now
    elif was and ch[OPEN] == 0:
        ch[OPEN_CK] += now - ch[OPENED_AT]


@bare
def _leave(w, c, q, i):
    """Take a read or write out of its queue."""
    w.size[c, q] -= 1
    for k in range(i, w.size[c, q]):
        for field in range(N_REQUEST):
            w.queue[c, q, k, field] = w.queue[c, q, k + 1, field]


@rare
def _synchronised(w, ch, at):
    """SYNC of a channel is answered at clock `at`, and then what waited behind it."""
    ch[ANSWER] = max(at + ch[BEHIND], ch[BEHIND_ANSWER])
    ch[SYNCING], ch[BEHIND], ch[BEHIND_ANSWER] = -1, 0, -1
    w.host[UNANSWERED] -= 1
    w.host[ANSWERED] = max(w.host[ANSWERED], at)
