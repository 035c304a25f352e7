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
* A refresh that falls due is owed: none but active requests go on until PREab, once none is active, and REFab have
  issued, in array mode.
* Answers leave a channel one a clock, in the order of their commands; that of SYNC and EOC once no write is under way.
"""

from pimloom.arch.aim import MASK, NOTHING, OP, SYNC, TIMES
from pimloom.cycle_sim.aim.kernels.channel import answer, step
from pimloom.cycle_sim.aim.kernels.queue import append, handed_over, take
from pimloom.cycle_sim.aim.kernels.state import (
    ANSWERED,
    AT,
    BLOCKED,
    BLOCKS,
    DECODED,
    DONE,
    ENTRIES,
    FILLED,
    FINISHED,
    FREE,
    LEFT,
    LOG_FULL,
    LOGGED,
    MOST_STARVED,
    MOST_VAIN,
    NEXT,
    OF_AIM,
    OF_READS,
    OF_WRITES,
    RD,
    STARVED,
    STUCK,
    UNANSWERED,
    VAIN,
    WAITS,
    WAKE,
    WR,
)  # fmt: skip
from pimloom.cycle_sim.compiled.kernel import bare, entry
from pimloom.cycle_sim.dram.kernels.device import FAR

LONGEST_BLOCKED_CK = 1 << 20  # far beyond any rule: nothing will change any more


@entry
def run(w, program, log):
    """Go on to the end of the program, or until the log may not hold the commands of the next clock; or to where a
    channel stands still (STUCK): a request that is active needs another row closed, which none may do,
    or rows are opened and closed and none is served.

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
            _hand_over(w, program, now)
        if host[NEXT] == now:
            _decode(w, program, now)
        for c in range(channel.shape[0]):
            if channel[c, WAKE] <= now:
                step(w, c, program, now, log)
                ch = channel[c]
                if ch[BLOCKED] > LONGEST_BLOCKED_CK or ch[STARVED] > MOST_STARVED or ch[VAIN] > MOST_VAIN:
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
    host[NEXT], host[DECODED] = now + 1, i
    if op == NOTHING:
        host[AT] += 1
        return
    blocks = op == SYNC or w.ops[op, BLOCKS] == 1
    for c in range(n):
        if op == SYNC or (program[i, MASK] >> (n - 1 - c)) & 1:
            w.channel[c, LEFT] = program[i, TIMES]
            host[WAITS] += program[i, TIMES] > 0
            if blocks:
                host[UNANSWERED] += program[i, TIMES]
    if host[WAITS] == 0:
        host[AT] += 1
        return
    if blocks:
        host[ANSWERED] = 0
    host[NEXT], host[FILLED] = FAR, now
    _hand_over(w, program, now)


@bare
def _hand_over(w, program, now):
    """As much as the queues take."""
    op = program[w.host[AT], OP]
    for c in range(w.channel.shape[0]):
        if w.channel[c, LEFT] > 0:
            if op in (RD, WR):
                _hand_over_access(w, c, program, now)
            else:
                take(w, c, program, now)


@bare
def _hand_over_access(w, c, program, now):
    """Reads or writes to channel c, in a clock in which none of AiM waits."""
    ch, size, host, i = w.channel[c], w.size[c], w.host, w.host[AT]
    op, q = program[i, OP], OF_READS if program[i, OP] == RD else OF_WRITES
    if size[OF_AIM] or ch[FREE] > now:
        return
    while ch[LEFT] > 0 and size[q] < host[ENTRIES]:
        ch[WAKE] = min(ch[WAKE], now)
        if op == RD and size[OF_WRITES]:
            answer(ch, now)
        else:
            append(w, c, q, program[i], now, 1)
        ch[LEFT] -= 1
        host[FILLED] = max(host[FILLED], now)
    handed_over(w, c)
