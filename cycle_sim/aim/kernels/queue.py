"""The queues of an AiM channel: what the host hands over, and what leaves for the banks."""

from pimloom.arch.aim import BANK, OP, ROW
from pimloom.cycle_sim.aim.kernels.state import (
    ANSWERED,
    AT,
    ENTRIES,
    FILLED,
    FIRST,
    FREE,
    GONE,
    LEFT,
    NEXT,
    OF_AIM,
    OF_READS,
    OF_WRITES,
    Q_AT,
    Q_BANK,
    Q_OP,
    Q_ROW,
    Q_TIMES,
    TAKEN,
    UNANSWERED,
    WAITS,
    WAKE,
)  # fmt: skip
from pimloom.cycle_sim.compiled.kernel import bare


@bare
def take(w, c, program, now):
    """Let channel c have as many requests of an instruction of AiM as its queue takes from clock `now` on."""
    ch, queue, size, row = w.channel[c], w.queue[c, OF_AIM], w.size[c, OF_AIM], program[w.host[AT]]
    n = min(ch[LEFT], w.host[ENTRIES] - ch[TAKEN] + ch[GONE])
    if n <= 0 or w.size[c, OF_READS] or w.size[c, OF_WRITES]:
        return
    last = queue[(ch[FIRST] + size - 1) % queue.shape[0]]
    if size and equal(last, row):
        last[Q_TIMES] += n
    else:
        append(w, c, OF_AIM, row, now, n)
    ch[WAKE] = min(ch[WAKE], max(now, ch[FREE]))
    taken(w, c, now, n)


@bare
def append(w, c, q, row, now, n):
    """A request, n times, of an instruction."""
    place = w.size[c, q]
    if q == OF_AIM:
        place = (w.channel[c, FIRST] + place) % w.queue.shape[2]
    request = w.queue[c, q, place]
    request[Q_OP], request[Q_BANK], request[Q_ROW] = row[OP], row[BANK], row[ROW]
    request[Q_AT], request[Q_TIMES] = now, n
    w.size[c, q] += 1


@bare
def taken(w, c, now, n):
    """Note n requests of AiM: the queue has a place for one a clock after another is gone."""
    ch, host, entries = w.channel[c], w.host, w.host[ENTRIES]
    ch[TAKEN] += n
    ch[LEFT] -= n
    before = ch[TAKEN] - 1 - entries
    filled = max(now, w.gone[c, before % w.gone.shape[1]] + 1) if before >= 0 else now
    host[FILLED] = max(host[FILLED], filled)
    handed_over(w, c)


@bare
def handed_over(w, c):
    """If the DMA has nothing left for channel c: the instruction behind comes a clock after it has nothing for any."""
    host = w.host
    if w.channel[c, LEFT] > 0:
        return
    host[WAITS] -= 1
    if host[WAITS] == 0 and host[UNANSWERED] == 0 and host[ANSWERED] < 0:
        host[AT] += 1
        host[NEXT] = host[FILLED] + 1


@bare
def gone(w, c, at, every, n):
    """The first n requests of AiM, all equal, leave their queue, from clock `at` on."""
    ch, ring = w.channel[c], w.gone[c]
    first = max(n - ring.shape[0], 0)
    place = (ch[GONE] + first) % ring.shape[0]
    for k in range(first, n):
        ring[place] = at + k * every
        place = place + 1 if place + 1 < ring.shape[0] else 0
    ch[GONE] += n
    ch[FREE] = at + (n - 1) * every + 1
    request = w.queue[c, OF_AIM, ch[FIRST]]
    request[Q_TIMES] -= n
    if request[Q_TIMES] == 0:
        w.size[c, OF_AIM] -= 1
        ch[FIRST] = (ch[FIRST] + 1) % w.queue.shape[2]


@bare
def equal(request, row):
    """Whether a request is one of an instruction."""
    return request[Q_OP] == row[OP] and request[Q_BANK] == row[BANK] and request[Q_ROW] == row[ROW]
