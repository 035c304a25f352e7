"""Requests before and after their commands: acceptance, the way to a command queue, responses."""

from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.memory.kernels.device import FAR
from pimloom.cycle_sim.memory.kernels.pending import find, insert, remove
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.banks import append
from pimloom.cycle_sim.npu_pim.kernels.fields import HEADER, PIMS, QUICK, RD, READS, WR, WRITES

DRAINS_FROM = 2  # PIM commands in their queue, with which writes drain before more of them


@bare
def _list_of(ch, kind):
    if kind == WR:
        return WRITES
    return PIMS if ch.policy[f.DUAL] and kind != RD else READS


@bare
def _key(ch, i):
    """One number for the column that a request means."""
    request = ch.request
    return ((request[i, f.ROW] * ch.bank.shape[0]) + request[i, f.BANK]) << 20 | request[i, f.COLUMN]


@bare
def _same(ch, which, i):
    """Place in a list of a request for the same column as request i; -1: none."""
    for k in range(ch.length[which]):
        if _key(ch, ch.list[which, k]) == _key(ch, i):
            return k
    return -1


@bare
def accepts(ch, i):
    """Whether the controller takes request i."""
    kind = ch.request[i, f.KIND]
    own = _list_of(ch, kind)
    if kind == WR and ch.length[WRITES] and _same(ch, WRITES, i) >= 0:
        return True
    if ch.length[own] >= ch.policy[f.ENTRIES_MAX]:
        return False
    return kind == HEADER or ch.state[f.HELD] < ch.policy[f.WINDOW]


@bare
def accept(ch, i, t):
    """Take request i."""
    g, kind = ch.state, ch.request[i, f.KIND]
    own = _list_of(ch, kind)
    if kind != HEADER:
        g[f.HELD] += 1
    if kind == WR:
        respond(ch, QUICK, i, t + 1)
        if ch.length[WRITES] and _same(ch, WRITES, i) >= 0:
            free(ch, i)
            return
    elif kind == RD:
        if ch.length[WRITES] and _same(ch, WRITES, i) >= 0:
            respond(ch, QUICK, i, t + 1)
            free(ch, i)
            return
        ch.link[i, f.TWIN] = -1
        if not ch.policy[f.DISTINCT]:
            key = _key(ch, i)
            first = find(ch.seen, 0, key)
            if first >= 0:
                while ch.link[first, f.TWIN] >= 0:
                    first = ch.link[first, f.TWIN]
                ch.link[first, f.TWIN] = i
                return
            insert(ch.seen, 0, key, i)
    ch.list[own, ch.length[own]] = i
    ch.length[own] += 1


@bare
def respond(ch, line, i, t):
    """Request i is done at clock t."""
    place = ch.tail[line] & (ch.line.shape[1] - 1)
    ch.line[line, place, 0], ch.line[line, place, 1] = t, ch.request[i, f.GROUP]
    ch.tail[line] += 1


@bare
def respond_read(ch, i, t):
    """A read, and those that end with it, are done at clock t."""
    if not ch.policy[f.DISTINCT]:
        remove(ch.seen, 0, _key(ch, i))
    while i >= 0:
        respond(ch, f.LATE, i, t)
        free(ch, i)
        i = ch.link[i, f.TWIN]


@bare
def free(ch, i):
    """Request i needs its place no longer."""
    ch.spare[ch.state[f.N_SPARE]] = i
    ch.state[f.N_SPARE] += 1


@bare
def hand_over(ch, t):
    """Responses due at clock t or before; the requester takes them in the next clock."""
    g = ch.state
    for line in range(f.LINES):
        while ch.head[line] < ch.tail[line]:
            place = ch.head[line] & (ch.line.shape[1] - 1)
            if ch.line[line, place, 0] > t:
                break
            group = ch.line[line, place, 1]
            ch.head[line] += 1
            g[f.HANDED] += 1
            g[f.ACTED] = 1
            if line == f.COPY:
                g[f.COPYING], g[f.REMAIN] = 0, 0
            ch.left[group] -= 1
            ch.open[ch.owner[group]] -= 1
            ch.done[group] = max(ch.done[group], t + 1)
            if ch.left[group] == 0:
                ch.ended[0] += 1
                ch.ended[ch.ended[0]] = group


@bare
def next_response(ch):
    """Clock of the next response."""
    t = FAR
    for line in range(f.LINES):
        if ch.head[line] < ch.tail[line]:
            t = min(t, ch.line[line, ch.head[line] & (ch.line.shape[1] - 1), 0])
    return t


@bare
def _waits(ch, i):
    """Whether the command queue of request i has no room for it."""
    g, p, kind = ch.state, ch.policy, ch.request[i, f.KIND]
    dots = g[f.DOTS_END] - g[f.DOTS_FIRST]
    if kind != RD and kind != WR:
        return dots >= p[f.DOTS_MAX]
    return ch.bank[ch.request[i, f.BANK], f.ENTRIES] >= p[f.QUEUE_MAX] or (p[f.SINGLE] and dots > 0)


@bare
def move(ch):
    """One request goes to its command queue; returns whether anything changed."""
    g, p, length = ch.state, ch.policy, ch.length
    full = length[WRITES] == p[f.ENTRIES_MAX] or (length[WRITES] > p[f.DRAIN_IDLE] and g[f.QUEUED] == 0)
    changed = g[f.LOCK] < 0 and g[f.DRAIN] == 0 and length[WRITES] > 0 and full
    if changed:
        g[f.DRAIN] = length[WRITES]
    own = _list_to_move(ch)
    for k in range(length[own]):
        i = ch.list[own, k]
        if _waits(ch, i):
            continue
        if ch.request[i, f.KIND] == WR:
            if _write_waits(ch, i):
                return True
            g[f.DRAIN] -= 1
        _drop(ch, own, k)
        if g[f.LOCK] == i:
            g[f.LOCK] = -1
        if ch.request[i, f.KIND] == RD or ch.request[i, f.KIND] == WR:
            append(ch, i)
        else:
            ch.dots[g[f.DOTS_END] % ch.dots.shape[0]] = i
            g[f.DOTS_END] += 1
        return True
    return changed


@bare
def _list_to_move(ch):
    g, length = ch.state, ch.length
    if g[f.LOCK] >= 0:
        return READS
    if length[PIMS]:
        dots = g[f.DOTS_END] - g[f.DOTS_FIRST]
        if g[f.DRAIN] > 0 and dots >= DRAINS_FROM:
            return WRITES
        return PIMS if dots < DRAINS_FROM or length[READS] == 0 else READS
    return WRITES if g[f.DRAIN] > 0 else READS


@bare
def _write_waits(ch, i):
    """Whether a write must let a read, or a PIM command, of its column go first."""
    g = ch.state
    k = _same(ch, READS, i)
    if k >= 0 and ch.request[ch.list[READS, k], f.KIND] == RD:
        g[f.LOCK], g[f.DRAIN] = ch.list[READS, k], 0
        return True
    if k >= 0 or _same(ch, PIMS, i) >= 0:
        g[f.DRAIN] = 0
        return True
    return False


@bare
def _drop(ch, own, k):
    """Take place k out of a list."""
    ch.length[own] -= 1
    for j in range(k, ch.length[own]):
        ch.list[own, j] = ch.list[own, j + 1]
