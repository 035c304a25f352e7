"""AiM's DMA and the controllers of its channels, from one clock in which something can happen to the next.

The rules, as the published simulator has them:

* The DMA takes an instruction a clock and unrolls it to the channels of its mask, a request for each column. What a
  channel's queue does not take waits, and the next instruction waits with it. Instructions that read, and those that
  synchronise, hold the DMA until every request is answered.
* A channel takes requests of AiM while none of the ordinary reads and writes is queued, and the reverse.
* Requests of AiM go in order. Ordinary ones: first ready, first come; writes are served while no read waits, or from
  `DRAIN` on, until fewer than `DRAINED` are left and a read waits. One whose row was opened goes before all others,
  and its row is not closed until then. A read that comes while a write is queued is answered from the queue.
* A request of all banks needs its row open in all: another row there is closed (PREab), then all open it (ACT16).
* Some need register mode, the others array mode: TMOD changes it, in place of a command that could issue.
* Answers leave a channel one a clock, in the order of their commands; that of SYNC and EOC once no write is under way.
"""

from typing import NamedTuple

import numpy as np

from pimloom.arch.aim import BANK, COMMANDS, MASK, NOTHING, OP, ROW, SYNC, TIMES
from pimloom.cycle_sim.compiled.kernel import bare, entry, rare
from pimloom.cycle_sim.dram.kernels.device import FAR, Device, arm, free_from

(
    ACT, PRE, ACT16, PREAB, RD, WR, MAC, RDCP, WRCP, MAC16, EWMUL16, AF16, WRA16, WRGB, WRMAC16, RDMAC16, RDAF16, TMOD,
) = range(len(COMMANDS))  # fmt: skip

# columns of `ops`
NEEDS, MODE, READS, BLOCKS, LATENCY, N_OPS = range(6)
NO_ROW, OF_BANK, OF_ALL = range(3)  # NEEDS: an open row
# queues of a channel, and what is known of a request there
OF_AIM, OF_READS, OF_WRITES, ACTIVE, N_QUEUES = range(5)
Q_OP, Q_BANK, Q_ROW, Q_AT, N_REQUEST = range(5)
# a channel
(
    WAKE, LEFT, WRITING, REGISTERS, ANSWER, BEHIND, BEHIND_ANSWER, WRITTEN, SYNCING, SAME, OPEN, OPENED_AT, OPEN_CK,
    FIRST, BLOCKED, N_CHANNEL,
) = range(16)  # fmt: skip
# the host
NEXT, AT, WAITS, UNANSWERED, ANSWERED, DONE, DRAIN, DRAINED, ENTRIES, LOGGED, N_HOST = range(11)
CLOCK, LOG_CHANNEL, LOG_OP, LOG_BANK, LOG_ROW, N_LOG = range(6)
FINISHED, LOG_FULL, STUCK = range(3)
LONGEST_BLOCKED_CK = 1 << 20  # far beyond any rule: nothing will change any more


class Aim(NamedTuple):
    """channel[c]: when something can happen next (WAKE), requests that the DMA could not hand over (LEFT), whether it
    serves writes and is in register mode, the clock of its last answer, and of those behind a SYNC, until when a write
    is under way, since when SYNC waits, the row that all banks have open (-1: not the same), open banks, clocks with
    any, and clocks in which it might not close a row (BLOCKED). bound, beside, ring: of each channel, see `Device`.
    queue[c, q], size[c, q]: requests; those of AiM are a ring that begins at FIRST. open_row[c, b]: -1 if closed.
    counts[c, op]: commands.
    """

    device: Device
    bound: np.ndarray
    beside: np.ndarray
    ring: np.ndarray
    ops: np.ndarray
    channel: np.ndarray
    queue: np.ndarray
    size: np.ndarray
    open_row: np.ndarray
    counts: np.ndarray
    host: np.ndarray


@entry
def run(w, program, log):
    """Go on to the end of the program, or until the log may not hold the commands of the next clock; or to where a
    channel stands still (STUCK): a request that is active needs another row closed, which none may do.

    log: a row for each command, none if it has no rows. program: instructions, the last one SYNC.
    """
    host, channel = w.host, w.channel
    while host[AT] < program.shape[0]:
        now = host[NEXT]
        for c in range(channel.shape[0]):
            now = min(now, channel[c, WAKE])
        if log.shape[0] and log.shape[0] - host[LOGGED] < channel.shape[0]:
            return LOG_FULL
        if host[WAITS]:
            _hand_over_rest(w, program, now)
        if host[NEXT] == now:
            _decode(w, program, now)
        for c in range(channel.shape[0]):
            if channel[c, WAKE] <= now:
                _step(w, c, now, log)
                if channel[c, BLOCKED] > LONGEST_BLOCKED_CK:
                    host[DONE] = now
                    return STUCK
        if host[UNANSWERED] == 0 and host[ANSWERED] >= 0:
            host[NEXT], host[DONE] = host[ANSWERED] + 1, host[ANSWERED]
            host[ANSWERED] = -1
            host[AT] += 1
    return FINISHED


@bare
def _decode(w, program, now):
    """Hand the next instruction to its channels."""
    host, i = w.host, w.host[AT]
    op, n = program[i, OP], w.channel.shape[0]
    host[NEXT] = now + 1
    if op == NOTHING:
        host[AT] += 1
        return
    blocks = op == SYNC or w.ops[op, BLOCKS] == 1
    for c in range(n):
        if op == SYNC or (program[i, MASK] >> (n - 1 - c)) & 1:
            w.channel[c, LEFT] = program[i, TIMES]
            if blocks:
                host[UNANSWERED] += program[i, TIMES]
    if blocks:
        host[NEXT] = FAR
        host[ANSWERED] = 0
    host[WAITS] = 1
    _hand_over(w, program, now)
    if host[WAITS]:
        host[NEXT] = FAR
    elif not blocks:
        host[AT] += 1


@bare
def _hand_over_rest(w, program, now):
    """What the channels did not take before; the next instruction comes a clock after the last of it."""
    host = w.host
    _hand_over(w, program, now)
    if not host[WAITS] and host[UNANSWERED] == 0 and host[ANSWERED] < 0:
        host[AT] += 1
        host[NEXT] = now + 1


@bare
def _hand_over(w, program, now):
    """As much as the queues take. Leaves WAITS as whether something is left."""
    host, i, left = w.host, w.host[AT], np.int64(0)
    for c in range(w.channel.shape[0]):
        while w.channel[c, LEFT] > 0 and _takes(w, c, program[i, OP]):
            _enqueue(w, c, program[i, OP], program[i, BANK], program[i, ROW], now)
            w.channel[c, LEFT] -= 1
        left |= w.channel[c, LEFT]
    host[WAITS] = left > 0


@bare
def _takes(w, c, op):
    size = w.size[c]
    if op in (RD, WR):
        return size[OF_AIM] == 0 and size[OF_READS if op == RD else OF_WRITES] < w.host[ENTRIES]
    return size[OF_READS] == 0 and size[OF_WRITES] == 0 and size[OF_AIM] < w.host[ENTRIES]


@bare
def _enqueue(w, c, op, bank, row, now):
    ch = w.channel[c]
    ch[WAKE] = min(ch[WAKE], now)
    if op == RD and w.size[c, OF_WRITES]:
        _answer(ch, now)
        return
    q = OF_READS if op == RD else OF_WRITES if op == WR else OF_AIM
    place = w.size[c, q]
    if q == OF_AIM:
        place = (ch[FIRST] + place) % w.queue.shape[2]
    request = w.queue[c, q, place]
    request[Q_OP], request[Q_BANK], request[Q_ROW], request[Q_AT] = op, bank, row, now
    w.size[c, q] += 1


@bare
def _answer(ch, end):
    """Note that data which are there at clock `end` leave the channel; returns when, where that is known."""
    if ch[SYNCING] >= 0:
        ch[BEHIND] += 1
        ch[BEHIND_ANSWER] = max(ch[BEHIND_ANSWER] + 1, end)
        return end
    ch[ANSWER] = max(end, ch[ANSWER] + 1)
    return ch[ANSWER]


@bare
def _step(w, c, now, log):
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
    if q < 0 and size[OF_AIM]:
        i = ch[FIRST]
        if w.queue[c, OF_AIM, i, Q_OP] == SYNC:
            _leave(w, c, OF_AIM, i)
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
    if q >= 0:
        _issue(w, c, q, i, now, log)
        wake = now + 1
    ch[WAKE] = wake


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
    arm(_device(w, c), op, max(bank, 0), now)
    w.counts[c, op] += 1
    if log.shape[0]:
        note = log[w.host[LOGGED]]
        note[CLOCK], note[LOG_CHANNEL], note[LOG_OP], note[LOG_BANK], note[LOG_ROW] = now, c, op, bank, row
        w.host[LOGGED] += 1
    if op in (ACT, PRE, ACT16, PREAB, WRA16):
        _move_rows(w, c, op, bank, row, now)
    if op == wanted:
        end = now + w.ops[op, LATENCY]
        if w.ops[op, READS]:
            at = _answer(ch, end)
            if w.ops[op, BLOCKS]:
                w.host[UNANSWERED] -= 1
                w.host[ANSWERED] = max(w.host[ANSWERED], at)
        else:
            ch[WRITTEN] = max(ch[WRITTEN], end)
        _leave(w, c, q, i)
    elif op == ACT and wanted in (RD, WR):
        active = w.queue[c, ACTIVE, w.size[c, ACTIVE]]
        for k in range(N_REQUEST):
            active[k] = request[k]
        w.size[c, ACTIVE] += 1
        _leave(w, c, q, i)


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
    """Take a request out of its queue."""
    w.size[c, q] -= 1
    if q == OF_AIM:
        w.channel[c, FIRST] = (i + 1) % w.queue.shape[2]
        return
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
