"""Banks and their command queues: what each could do next, and rows that open and close.

Masks of banks tell where there is something to do: READING and WRITING, a request waits for the open row; MISSING, the
oldest request wants another row; OPENING, requests wait and no row is open.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.lowest import lowest
from pimloom.cycle_sim.npu_pim.kernels.masks import free_from
from pimloom.cycle_sim.npu_pim.kernels.prefetch import prefetch
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom

ROW_PLACES = 2048  # of chains of queued requests by bank, row and kind


@bare
def _mark(g, mask, bit, on):
    g[mask] = (g[mask] | bit) if on else (g[mask] & ~bit)


@bare
def remark(ch, b):
    """Set the masks of bank b."""
    bank, g, bit = ch.bank, ch.state, 1 << b
    waits, row = bank[b, f.ENTRIES] > 0, bank[b, f.MEM]
    _mark(g, f.READING, bit, bank[b, f.READ_HIT] >= 0)
    _mark(g, f.WRITING, bit, bank[b, f.WRITE_HIT] >= 0)
    _mark(g, f.OPENING, bit, waits and row < 0)
    _mark(g, f.MISSING, bit, waits and row >= 0 and bank[b, f.FIRST_ROW] != row)


@bare
def next_hit(ch, i, b, row, kind):
    """The first request at i or behind it, in its chain, of a kind for a row of bank b; -1: none."""
    return _first_for(ch, i, b, row, _rows_alike(b, row, kind))


@bare
def _first_for(ch, i, b, row, place):
    """The same of the chain at a place in `queued`."""
    if ch.queued[place, 2] == _tag(b, row):
        return i  # without a look at it: it may be far in memory
    while i >= 0 and seldom(ch.request[i, f.ROW] != row or ch.request[i, f.BANK] != b):
        i = ch.request[i, f.NEXT_ALIKE]
    return i


@bare
def first_queued(ch, b, row, kind):
    """The first request of a kind for a row in the command queue of bank b; -1: none."""
    return next_hit(ch, ch.queued[_rows_alike(b, row, kind), 0], b, row, kind)


@bare
def _rows_alike(b, row, kind):
    """Place in `queued` of the chain of the requests of a kind for a row of bank b; others may share it."""
    return (((row << 6) + row + b) << 1 | (kind == f.WR)) & (ROW_PLACES - 1)


@bare
def _tag(b, row):
    return row << f.BANK_BITS | b


@bare
def some_queued(ch, b, row):
    """Whether a request for a row may be in the command queue of bank b; False is certain."""
    return ch.queued[_rows_alike(b, row, f.RD), 0] >= 0 or ch.queued[_rows_alike(b, row, f.WR), 0] >= 0


@bare
def _link(ch, i, b, row, kind):
    """Request i, of a kind for a row of bank b, enters its chain."""
    request, place, tag = ch.request, _rows_alike(b, row, kind), _tag(b, row)
    alike = ch.queued[place]
    request[i, f.ALIKE] = place
    request[i, f.NEXT_ALIKE], request[i, f.BEFORE_ALIKE] = -1, alike[1]
    if alike[1] < 0:
        alike[0], alike[2] = i, tag
    else:
        if seldom(alike[2] != tag):
            alike[2] = f.MIXED
        request[alike[1], f.NEXT_ALIKE] = i
    alike[1] = i


@bare
def _unlink(ch, i):
    """Request i leaves its chain."""
    request, alike = ch.request, ch.queued[ch.request[i, f.ALIKE]]
    after = request[i, f.NEXT_ALIKE]
    if seldom(alike[0] != i):
        _unlink_behind(request, alike, request[i, f.BEFORE_ALIKE], after)
        return
    alike[0] = after  # which still says that it comes behind i: so nothing far in memory is written
    if after < 0:
        alike[1] = -1


@bare
def _unlink_behind(request, alike, before, after):
    """The request between two of a chain leaves it; after: -1, if it was the last."""
    request[before, f.NEXT_ALIKE] = after
    if after < 0:
        alike[1] = before
    else:
        request[after, f.BEFORE_ALIKE] = before


@bare
def append(ch, i, b, row, kind):
    """Request i, of a kind for a row of bank b, enters its command queue."""
    g, request, bank = ch.state, ch.request, ch.bank[b]
    changed = bank[f.FINAL] < 0
    request[i, f.NEXT], request[i, f.BEFORE], request[i, f.TURN] = -1, bank[f.FINAL], g[f.TURNS]
    g[f.TURNS] += 1
    _link(ch, i, b, row, kind)
    if bank[f.FINAL] < 0:
        bank[f.FIRST], bank[f.RUN], bank[f.FIRST_ROW] = i, i, row
    else:
        request[bank[f.FINAL], f.NEXT] = i
    bank[f.FINAL] = i
    bank[f.ENTRIES] += 1
    if seldom(bank[f.ENTRIES] >= ch.policy[f.QUEUE_MAX]):
        g[f.FULL] |= 1 << b
    g[f.QUEUED] += 1
    if row == bank[f.MEM]:
        hit = f.READ_HIT if kind == f.RD else f.WRITE_HIT
        if bank[hit] < 0:
            bank[hit] = i
            changed = True
    if row != g[f.RESERVED]:
        wake(ch, b)
    if changed:
        remark(ch, b)


@bare
def take(ch, i, b, kind):
    """Request i, a hit of a kind, leaves the command queue of bank b."""
    g, request, bank = ch.state, ch.request, ch.bank[b]
    after, before, hit = request[i, f.NEXT], request[i, f.BEFORE], f.READ_HIT if kind == f.RD else f.WRITE_HIT
    other_first = False
    _unlink(ch, i)
    after_hit = _first_for(ch, request[i, f.NEXT_ALIKE], b, bank[f.MEM], request[i, f.ALIKE])
    if bank[hit] == i:
        bank[hit] = after_hit
        if after_hit >= 0:
            prefetch(request, after_hit)
    if before < 0:
        bank[f.FIRST] = after
        if after >= 0 and after != after_hit:
            bank[f.FIRST_ROW] = request[after, f.ROW]
            other_first = True
    else:
        request[before, f.NEXT] = after
    if after < 0:
        bank[f.FINAL] = before
    else:
        request[after, f.BEFORE] = before
    if bank[f.RUN] == i:
        bank[f.RUN] = before if before >= 0 else after
    bank[f.ENTRIES] -= 1
    if seldom(bank[f.ENTRIES] == ch.policy[f.QUEUE_MAX] - 1):
        g[f.FULL] &= ~(1 << b)
        if bank[f.LISTED] > 0:
            g[f.STILL], g[f.SETTLED] = -1, 0
    g[f.QUEUED] -= 1
    if seldom(g[f.QUEUED] == 0):
        g[f.SETTLED] = 0  # writes may go
    if after_hit < 0 or other_first:
        remark(ch, b)


@bare
def set_row(ch, b, buffer, row, t):
    """Bank b opens a row of buffer MEM or PIM, or closes it (-1), at clock t."""
    bank, ranks = ch.bank[b], ch.policy[f.RANKS]
    before = bank[buffer]
    bank[buffer] = row
    r = b // ch.policy[f.PER_RANK] + (ranks if buffer == f.PIM else 0)
    if (before < 0) != (row < 0):
        _count_open(ch.rank[r], 1 if row >= 0 else -1, t)
    g = ch.state
    wake(ch, b)
    _mark(g, f.PIM_ROWS if buffer == f.PIM else f.MEM_ROWS, 1 << b, row >= 0)
    if buffer == f.PIM:
        if row >= 0:
            g[f.PIM_ROW] = row if g[f.PIM_ROWS] == 1 << b or g[f.PIM_ROW] == row else f.MIXED
        return
    bank[f.SERVED] = 0
    bank[f.READ_HIT] = first_queued(ch, b, row, f.RD) if row >= 0 else -1
    bank[f.WRITE_HIT] = first_queued(ch, b, row, f.WR) if row >= 0 else -1
    for hit in (f.READ_HIT, f.WRITE_HIT):
        if bank[hit] >= 0:
            prefetch(ch.request, bank[hit])
    remark(ch, b)


@bare
def _count_open(rank, by, t):
    if rank[0] == 0:
        rank[1] = t
    rank[0] += by
    if rank[0] == 0:
        rank[2] += t - rank[1]


@bare
def sleep(ch, b, until):
    """Closed bank b has nothing to do before clock `until`, unless something wakes it."""
    g = ch.state
    g[f.ASLEEP] |= 1 << b
    ch.bank[b, f.WAKE] = until
    g[f.ALARM] = min(g[f.ALARM], until)


@bare
def wake(ch, b):
    """Bank b may have something to do."""
    ch.state[f.ASLEEP] &= ~(1 << b)


@bare
def wake_due(ch, t):
    """The banks wake whose clock has come."""
    g = ch.state
    g[f.ALARM], rest = FAR, g[f.ASLEEP]
    while rest:
        b = lowest(rest)
        rest &= rest - 1
        if ch.bank[b, f.WAKE] <= t:
            wake(ch, b)
        else:
            g[f.ALARM] = min(g[f.ALARM], ch.bank[b, f.WAKE])


@bare
def reserve(ch, row):
    """Accesses to a row wait from now on, -1: to none."""
    g = ch.state
    if g[f.RESERVED] != row:
        g[f.RESERVED], g[f.ASLEEP] = row, 0


@bare
def free_close(ch, b):
    """First clock in which PIM_PRECHARGE may close bank b, and those that it closes with it."""
    t, each = 0, ch.policy[f.CLOSED]
    low = b // each * each
    for i in range(low, low + each):
        t = max(t, free_from(ch, f.PIM_PRE, i))
    return t


@bare
def first_dot(ch):
    """The first request of the queue of PIM commands."""
    return ch.dots[ch.state[f.DOTS_FIRST] & (ch.dots.shape[0] - 1)]


@bare
def tile_missing(ch):
    """Whether the first PIM command is a header that waits for the rest of its tile; a full queue waits no longer."""
    g, p = ch.state, ch.policy
    waits = g[f.DOTS_END] - g[f.DOTS_FIRST]
    if not p[f.WHOLE] or g[f.TILES] > 0 or waits == 0 or waits >= p[f.DOTS_MAX]:
        return False
    return ch.request[first_dot(ch), f.KIND] == f.HEADER


@bare
def dots_wait(ch):
    """Whether a PIM command waits that may go on."""
    return ch.state[f.DOTS_END] > ch.state[f.DOTS_FIRST] and not tile_missing(ch)
