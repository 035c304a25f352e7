"""Banks and their command queues: what each could do next, and rows that open and close.

Masks of banks tell where there is something to do: READING and WRITING, a request waits for the open row; MISSING, the
oldest request wants another row; OPENING, requests wait and no row is open.
"""

from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.npu_pim.kernels import fields as f

ROW_PLACES = 2048  # of counters of queued requests by bank, row and kind


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
    _mark(g, f.MISSING, bit, waits and row >= 0 and ch.request[bank[b, f.FIRST], f.ROW] != row)


@bare
def next_hit(ch, i, kind, row):
    """The first request at i or behind it, in its queue, of a kind and a row; -1: none."""
    while i >= 0 and (ch.request[i, f.KIND] != kind or ch.request[i, f.ROW] != row):
        i = ch.request[i, f.NEXT]
    return i


@bare
def _rows_alike(b, row, kind):
    """Place in `queued` for the requests of a kind and a row in a command queue; others may share it."""
    return (((row << 6) + row + b) << 1 | (kind == f.WR)) & (ROW_PLACES - 1)


@bare
def some_queued(ch, b, row):
    """Whether a request for a row may be in the command queue of bank b; False is certain."""
    return ch.queued[_rows_alike(b, row, f.RD)] > 0 or ch.queued[_rows_alike(b, row, f.WR)] > 0


@bare
def append(ch, i):
    """Request i enters the command queue of its bank."""
    g, request, b = ch.state, ch.request, ch.request[i, f.BANK]
    bank = ch.bank[b]
    request[i, f.NEXT], request[i, f.BEFORE], request[i, f.TURN] = -1, bank[f.FINAL], g[f.TURNS]
    g[f.TURNS] += 1
    ch.queued[_rows_alike(b, request[i, f.ROW], request[i, f.KIND])] += 1
    if bank[f.FINAL] < 0:
        bank[f.FIRST] = i
    else:
        request[bank[f.FINAL], f.NEXT] = i
    bank[f.FINAL] = i
    bank[f.ENTRIES] += 1
    if bank[f.ENTRIES] >= ch.policy[f.QUEUE_MAX]:
        g[f.FULL] |= 1 << b
    g[f.QUEUED] += 1
    if bank[f.MEM] >= 0 and ch.request[i, f.ROW] == bank[f.MEM]:
        hit = f.READ_HIT if ch.request[i, f.KIND] == f.RD else f.WRITE_HIT
        if bank[hit] < 0:
            bank[hit] = i
    remark(ch, b)


@bare
def take(ch, i):
    """Request i, a hit, leaves its command queue."""
    g, request, kind = ch.state, ch.request, ch.request[i, f.KIND]
    bank = ch.bank[ch.request[i, f.BANK]]
    after, before = request[i, f.NEXT], request[i, f.BEFORE]
    if before < 0:
        bank[f.FIRST] = after
    else:
        request[before, f.NEXT] = after
    if after < 0:
        bank[f.FINAL] = before
    else:
        request[after, f.BEFORE] = before
    bank[f.ENTRIES] -= 1
    if bank[f.ENTRIES] == ch.policy[f.QUEUE_MAX] - 1:
        g[f.FULL] &= ~(1 << request[i, f.BANK])
        if bank[f.LISTED] > 0:
            g[f.STILL] = -1
    g[f.QUEUED] -= 1
    b = request[i, f.BANK]
    alike = _rows_alike(b, request[i, f.ROW], kind)
    ch.queued[alike] -= 1
    hit = f.READ_HIT if kind == f.RD else f.WRITE_HIT
    if bank[hit] == i:
        bank[hit] = next_hit(ch, after, kind, bank[f.MEM]) if ch.queued[alike] > 0 else -1
    remark(ch, b)


@bare
def set_row(ch, b, buffer, row, t):
    """Bank b opens a row of buffer MEM or PIM, or closes it (-1), at clock t."""
    bank, ranks = ch.bank[b], ch.policy[f.RANKS]
    before = bank[buffer]
    bank[buffer] = row
    r = b * ranks // ch.bank.shape[0] + (ranks if buffer == f.PIM else 0)
    if (before < 0) != (row < 0):
        _count_open(ch.rank[r], 1 if row >= 0 else -1, t)
    g = ch.state
    _mark(g, f.PIM_ROWS if buffer == f.PIM else f.MEM_ROWS, 1 << b, row >= 0)
    if buffer == f.PIM:
        if row >= 0:
            g[f.PIM_ROW] = row if g[f.PIM_ROWS] == 1 << b or g[f.PIM_ROW] == row else f.MIXED
        return
    bank[f.SERVED] = 0
    bank[f.READ_HIT] = _first_hit(ch, b, f.RD, row)
    bank[f.WRITE_HIT] = _first_hit(ch, b, f.WR, row)
    remark(ch, b)


@bare
def _first_hit(ch, b, kind, row):
    if row < 0 or ch.queued[_rows_alike(b, row, kind)] == 0:
        return -1
    return next_hit(ch, ch.bank[b, f.FIRST], kind, row)


@bare
def _count_open(rank, by, t):
    if rank[0] == 0:
        rank[1] = t
    rank[0] += by
    if rank[0] == 0:
        rank[2] += t - rank[1]
