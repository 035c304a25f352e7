"""Requests before and after their commands: acceptance, the way to a command queue, responses."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.answers import note
from pimloom.cycle_sim.npu_pim.kernels.banks import append, dots_wait, first_queued, next_hit, tile_missing
from pimloom.cycle_sim.npu_pim.kernels.clocks import PASSAGE, clock_soon
from pimloom.cycle_sim.npu_pim.kernels.fields import GWRITE, HEADER, PIMS, QUICK, RD, READS, WR, WRITES
from pimloom.cycle_sim.npu_pim.kernels.lowest import lowest
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom
from pimloom.cycle_sim.npu_pim.kernels.words import column_at, key_at

DRAINS_FROM = 2  # PIM commands in their queue, with which writes drain before more of them
WRITE_PLACES = 512  # of counters of waiting writes, and of GWRITEs behind them
READ_PLACES = 4096  # of counters of waiting reads
NEAR = 64  # places of a line of responses that are near each other in memory
SPREAD = f.COLUMN_BITS - 4  # bits by which a key is shifted, so that 16 columns of a row are neighbours


@bare
def key_of(ch, i):
    """The key of the column that request i means."""
    request = ch.request
    return key_at(request[i, f.BANK], request[i, f.ROW], request[i, f.COLUMN])


@bare
def _list_of(ch, kind):
    if kind == WR:
        return WRITES
    return PIMS if ch.policy[f.DUAL] and kind != RD else READS


@bare
def _writes_alike(key):
    """Place in `alike` for the writes of a key; others may share it."""
    return (key ^ key >> SPREAD) & (WRITE_PLACES - 1)


@bare
def copies_alike(key):
    """Place in `alike` for the GWRITEs of a key; others may share it."""
    return _writes_alike(key) + WRITE_PLACES


@bare
def _reads_alike(key):
    """Place in `seen` for the reads of a key; others may share it."""
    return (key ^ key >> SPREAD) & (READ_PLACES - 1)


@bare
def _is_written(ch, key):
    """Whether a write of a key waits, in the list or in a command queue."""
    return seldom(ch.alike[_writes_alike(key)] > 0) and (_same(ch, WRITES, key) >= 0 or _queued(ch, key, WR) >= 0)


@bare
def _queued(ch, key, kind):
    """The first request of a kind for a key in a command queue; -1: none."""
    b, row, column = column_at(key)
    i = first_queued(ch, b, row, kind)
    while i >= 0 and ch.request[i, f.COLUMN] != column:
        i = next_hit(ch, ch.request[i, f.NEXT_ALIKE], b, row, kind)
    return i


@bare
def _same(ch, which, key):
    """Place in a list of a request for the column of a key; -1: none."""
    first, mask = ch.first[which], ch.list.shape[1] - 1
    for k in range(ch.length[which]):
        if ch.list[which, (first + k) & mask, f.KEY] == key:
            return k
    return -1


@bare
def _read(ch, key):
    """The waiting read of a key, in the list or in a command queue; -1: none."""
    if not seldom(ch.seen[_reads_alike(key)] != 0):
        return -1
    listed = _listed_read(ch, key)
    return listed if listed >= 0 else _queued(ch, key, RD)


@bare
def _listed_read(ch, key):
    """The waiting read of a key that is in the list; -1: none."""
    first, mask = ch.first[READS], ch.list.shape[1] - 1
    for k in range(first, first + ch.length[READS]):
        entry = ch.list[READS, k & mask]
        if entry[f.KEY] == key and entry[f.TO] >= 0:  # no PIM command
            return entry[f.SLOT]
    return -1


@bare
def is_held_up(ch, word, held):
    """Whether the controller takes no such request while `held` others are on their way or wait to be collected."""
    return held >= ch.policy[f.WINDOW] and (word >= 0 or ch.dot[-1 - word, f.KIND] != HEADER)


@bare
def list_is_full(ch, word):
    """Whether a request finds no place among those that the controller holds."""
    own = word & 1 if word >= 0 else _list_of(ch, ch.dot[-1 - word, f.KIND])  # READS, WRITES
    return ch.length[own] >= ch.policy[f.ENTRIES_MAX]


@bare
def accept(ch, word, group, t):
    """Take a request."""
    g = ch.state
    g[f.SPARES] -= 1
    i = ch.spare[g[f.SPARES]]
    ch.request[i, f.GROUP] = group
    if seldom(word < 0):
        _accept_dot(ch, i, -1 - word)
        return
    key, writes = word >> 1, word & 1
    g[f.HELD] += 1
    if seldom(writes != 0):
        respond(ch, QUICK, group, t + 1)
    if seldom(_is_written(ch, key)):
        if not writes:
            respond(ch, QUICK, group, t + 1)
        free(ch, i)
        return
    request, place = ch.request[i], column_at(key)
    request[f.KIND] = WR if writes else RD
    request[f.BANK], request[f.ROW], request[f.COLUMN] = place
    if writes:
        ch.alike[_writes_alike(key)] += 1
    else:
        request[f.TWIN], request[f.LAST_TWIN], request[f.SEEN] = -1, i, _reads_alike(key)
        first = _read(ch, key)
        if first >= 0:
            ch.request[ch.request[first, f.LAST_TWIN], f.TWIN] = i
            ch.request[first, f.LAST_TWIN] = i
            return
        ch.seen[request[f.SEEN]] += 1
    _enlist(ch, WRITES if writes else READS, i, key, place[0])
    ch.bank[place[0], f.LISTED] += 1


@bare
def _accept_dot(ch, i, dot):
    """Take a PIM command, at place i."""
    request = ch.request[i]
    for x in range(f.LAST + 1):
        request[x] = ch.dot[dot, x]
    kind, key = request[f.KIND], key_of(ch, i)
    if kind != HEADER:
        ch.state[f.HELD] += 1
    if kind == GWRITE:
        ch.alike[copies_alike(key)] += 1
    _enlist(ch, _list_of(ch, kind), i, key, -1)


@bare
def _enlist(ch, own, i, key, to):
    """Request i enters a list, at its end."""
    entry = ch.list[own, (ch.first[own] + ch.length[own]) & (ch.list.shape[1] - 1)]
    entry[f.SLOT], entry[f.KEY], entry[f.TO] = i, key, to
    ch.length[own] += 1
    ch.state[f.SETTLED] = 0


@bare
def respond(ch, line, group, t):
    """A request of a group is done at clock t."""
    if seldom(ch.tail[line] >= NEAR):
        _come_nearer(ch, line)
    place = ch.tail[line] & (ch.line.shape[1] - 1)
    ch.line[line, place, 0], ch.line[line, place, 1] = t, group
    ch.tail[line] += 1
    ch.state[f.ANSWERING] |= 1 << line
    ch.state[f.SOONEST] = min(ch.state[f.SOONEST], t)


@bare
def _come_nearer(ch, line):
    """If they are few, the responses of a line move to its begin, as what was used last is near in memory."""
    first, n = ch.head[line], ch.tail[line] - ch.head[line]
    if n <= NEAR // 2 and ch.tail[line] <= ch.line.shape[1]:  # so none takes the place of another
        for k in range(n):
            for x in range(f.N_LINE):
                ch.line[line, k, x] = ch.line[line, first + k, x]
        ch.head[line], ch.tail[line] = 0, n
    elif n == 0:
        ch.head[line] = ch.tail[line] = 0


@bare
def respond_read(ch, i, t):
    """A read, and those that end with it, are done at clock t."""
    ch.seen[ch.request[i, f.SEEN]] -= 1
    while i >= 0:
        respond(ch, f.LATE, ch.request[i, f.GROUP], t)
        free(ch, i)
        i = ch.request[i, f.TWIN]


@bare
def end_write(ch, i):
    """A write has issued."""
    ch.alike[_writes_alike(key_of(ch, i))] -= 1
    free(ch, i)


@bare
def free(ch, i):
    """Request i needs its place no longer."""
    ch.spare[ch.state[f.SPARES]] = i
    ch.state[f.SPARES] += 1


@bare
def hand_over(ch, t, step):
    """Responses due at clock t or before; the requester takes them in the next clock or, with an interconnect, when
    they have come through its buffer, one in each step. step: the first that is not before clock t."""
    soonest = FAR
    if t < ch.state[f.SOONEST]:
        return
    rest = ch.state[f.ANSWERING]
    while rest:
        line = lowest(rest)
        rest &= rest - 1
        at, end = ch.head[line], ch.tail[line]
        while at < end:
            response = ch.line[line, at & (ch.line.shape[1] - 1)]
            if response[f.DUE_AT] > t:
                soonest = min(soonest, response[f.DUE_AT])
                break
            at += 1
            _hand_over(ch, line, response[f.ANSWERS], t, step)
        ch.head[line] = at
        if at == end:
            ch.state[f.ANSWERING] &= ~(1 << line)
    ch.state[f.SOONEST] = soonest


@bare
def _hand_over(ch, line, group, t, step):
    """A response is due."""
    g = ch.state
    g[f.ACTED] = 1
    seen = t + 1
    if ch.policy[f.PATH]:
        leaves = max(g[f.RETURN], step)
        if g[f.HELD] >= ch.policy[f.WINDOW]:
            g[f.OFFER_AT] = 0
        g[f.HELD] -= 1
        g[f.RETURN], g[f.LEAVING] = leaves + 1, 1
        g[f.BACK] = clock_soon(ch, leaves + PASSAGE, max(g[f.BACK], t))
        seen = g[f.BACK]
    else:
        g[f.HANDED] += 1
    if line == f.COPY:
        g[f.COPYING], g[f.REMAIN] = 0, 0
    note(ch, group, seen)


@bare
def next_response(ch):
    """Clock of the next response."""
    t = FAR
    for line in range(f.LINES):
        if ch.head[line] < ch.tail[line]:
            t = min(t, ch.line[line, ch.head[line] & (ch.line.shape[1] - 1), 0])
    return t


@bare
def _queue_full(ch, own, bank, blocked):
    """Whether the command queue of a request in a list has no room for it."""
    g, p = ch.state, ch.policy
    if seldom(own == PIMS or (p[f.SINGLE] != 0 and bank < 0)):
        return g[f.DOTS_END] - g[f.DOTS_FIRST] >= p[f.DOTS_MAX]
    return g[f.FULL] >> bank & 1 != 0 or blocked


@bare
def move(ch):
    """One request goes to its command queue; returns whether anything changed."""
    g, length, drained = ch.state, ch.length, ch.state[f.DRAIN]
    if g[f.SETTLED]:
        return False
    changed = length[WRITES] > 0 and drained == 0 and g[f.LOCK] < 0 and _drains(ch)
    if changed:
        g[f.DRAIN] = length[WRITES]
    own = _list_to_move(ch)
    k = _first_to_move(ch, own)
    if k >= length[own]:
        return _stays(ch, own, changed)
    g[f.STILL], g[f.BLOCKED_TO] = own, k
    entry = ch.list[own, (ch.first[own] + k) & (ch.list.shape[1] - 1)]
    i, to, row = entry[f.SLOT], entry[f.TO], column_at(entry[f.KEY])[1]  # before `_drop` moves others there
    if seldom(own == WRITES):
        if _write_waits(ch, i):
            return g[f.LOCK] >= 0 or drained != 0
        g[f.DRAIN] -= 1
    _drop(ch, own, k)
    if g[f.LOCK] == i:
        g[f.LOCK] = -1
    if seldom(to < 0):  # a PIM command
        ch.dots[g[f.DOTS_END] & (ch.dots.shape[0] - 1)] = i
        g[f.DOTS_END] += 1
        g[f.TILES] += ch.request[i, f.LAST]
    else:
        append(ch, i, to, row, RD if own == READS else WR)
    return True


@bare
def _first_to_move(ch, own):
    """Place in a list of the first request whose command queue has room, or beyond all of them."""
    g, first, mask, end = ch.state, ch.first[own], ch.list.shape[1] - 1, ch.length[own]
    k = g[f.BLOCKED_TO] if g[f.STILL] == own else 0
    blocked = ch.policy[f.SINGLE] != 0 and dots_wait(ch)
    while k < end and _queue_full(ch, own, ch.list[own, (first + k) & mask, f.TO], blocked):
        k += 1
    return k


@bare
def _stays(ch, own, changed):
    """No request of a list can move; returns whether anything changed."""
    g = ch.state
    g[f.STILL], g[f.BLOCKED_TO], g[f.SETTLED] = own, ch.length[own], 0 if changed else 1
    return changed


@bare
def _drains(ch):
    """Whether there are so many writes that they go first from now on."""
    writes, p = ch.length[WRITES], ch.policy
    return writes == p[f.ENTRIES_MAX] or (writes > p[f.DRAIN_IDLE] and ch.state[f.QUEUED] == 0)


@bare
def _list_to_move(ch):
    g, length = ch.state, ch.length
    if seldom(g[f.LOCK] >= 0):
        return READS
    if seldom(length[PIMS] > 0):
        few = g[f.DOTS_END] - g[f.DOTS_FIRST] < DRAINS_FROM or tile_missing(ch)
        if g[f.DRAIN] > 0 and not few:
            return WRITES
        return PIMS if few or length[READS] == 0 else READS
    return WRITES if g[f.DRAIN] > 0 else READS


@bare
def _write_waits(ch, i):
    """Whether a write must let a read, or a GWRITE, of its column go first; a read in the list then goes next."""
    g, key = ch.state, key_of(ch, i)
    if _read(ch, key) >= 0:
        g[f.DRAIN], g[f.LOCK] = 0, _listed_read(ch, key)
        return True
    if ch.alike[copies_alike(key)] > 0 and _is_copied(ch, key):
        g[f.DRAIN] = 0
        return True
    return False


@bare
def _is_copied(ch, key):
    """Whether a GWRITE that has not issued reads the column of a key."""
    g, request = ch.state, ch.request
    for at in range(g[f.DOTS_FIRST], g[f.DOTS_END]):
        i = ch.dots[at & (ch.dots.shape[0] - 1)]
        if request[i, f.KIND] == GWRITE and key_of(ch, i) == key:
            return True
    own = _list_of(ch, GWRITE)
    for at in range(ch.first[own], ch.first[own] + ch.length[own]):
        entry = ch.list[own, at & (ch.list.shape[1] - 1)]
        if entry[f.KEY] == key and request[entry[f.SLOT], f.KIND] == GWRITE:
            return True
    return False


@bare
def _drop(ch, own, k):
    """Take place k out of a list; the fewer of those before and behind it close the gap."""
    first, mask = ch.first[own], ch.list.shape[1] - 1
    bank = ch.list[own, (first + k) & mask, f.TO]
    if bank >= 0:
        ch.bank[bank, f.LISTED] -= 1
    if ch.length[own] >= ch.policy[f.ENTRIES_MAX]:
        ch.state[f.OFFER_AT] = 0
    ch.length[own] -= 1
    if k == 0:
        ch.first[own] += 1
        return
    behind = ch.length[own] - k
    step, n = (-1, k) if k <= behind else (1, behind)
    if k <= behind:
        ch.first[own] += 1
    at = first + k
    for _ in range(n):
        for x in range(f.N_LIST):
            ch.list[own, at & mask, x] = ch.list[own, (at + step) & mask, x]
        at += step
