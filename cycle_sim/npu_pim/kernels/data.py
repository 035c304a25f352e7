"""Reads and writes: which command of which bank comes next."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.banks import dots_wait, free_close, next_hit, sleep, some_queued, wake_due
from pimloom.cycle_sim.npu_pim.kernels.fields import ACT, PIM_PRE, PRE, RD, WR
from pimloom.cycle_sim.npu_pim.kernels.lowest import lowest
from pimloom.cycle_sim.npu_pim.kernels.masks import free_from, is_free, is_free_inside, rank_mask, ranks_free
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom


@bare
def choose(ch, t):
    """(command, bank, request or row) that the banks' queues issue at clock t, in turn; command -1: none.

    A column command comes with its request, ACT with its row.
    """
    g = ch.state
    if seldom(t >= g[f.ALARM]):
        wake_due(ch, t)
    reads = g[f.READING] & ranks_free(ch, RD, t) if g[f.READING] else 0
    writes = g[f.WRITING] & ranks_free(ch, WR, t) if g[f.WRITING] else 0
    found = (g[f.OPENING] & ~g[f.ASLEEP]) | g[f.MISSING] | reads | writes
    if found == 0 and g[f.BLOCKED] == 0:
        return -1, 0, 0
    if seldom(g[f.IN_REFRESH] >= 0):
        found &= ~rank_mask(ch, g[f.IN_REFRESH])
    k = g[f.POINTER] + 1 if g[f.POINTER] + 1 < ch.bank.shape[0] else 0
    if g[f.BLOCKED]:  # it is the turn of one bank
        found &= 1 << k
    rest = found >> k << k  # those from the one whose turn it is, then the others
    found ^= rest
    while rest or found:
        if seldom(rest == 0):
            rest, found = found, 0
        b = lowest(rest)
        rest &= rest - 1
        c, what = _first_ready(ch, b, t, reads >> b & 1, writes >> b & 1)
        if c >= 0:
            g[f.POINTER] = b
            return c, b, what
    if g[f.BLOCKED]:
        g[f.POINTER] = k
    return -1, 0, 0


@bare
def _first_ready(ch, b, t, reads, writes):
    """(command, request or row) of the first request in the queue of bank b that can go on at clock t. reads, writes:
    whether one waits for the open row that no rule of channel or rank binds."""
    g, bank = ch.state, ch.bank[b]
    if seldom(g[f.COPYING] > 0 and b == g[f.COPY_BANK]):
        return -1, 0
    if bank[f.MEM] < 0:
        return _open(ch, b, t)
    row = bank[f.FIRST_ROW]
    if row != bank[f.MEM] and row != g[f.RESERVED]:
        hits = bank[f.READ_HIT] >= 0 or bank[f.WRITE_HIT] >= 0
        closes = (not hits or bank[f.SERVED] >= ch.policy[f.CAP]) and is_free(ch, PRE, b, t)
        if closes and _affords(ch, ch.policy[f.CLOSE_CK]):
            _charge(ch)
            return PRE, 0
    if bank[f.MEM] == g[f.RESERVED]:
        return -1, 0
    return _hit(ch, b, t, reads, writes)


@bare
def _hit(ch, b, t, reads, writes):
    """The first request for the open row of bank b that can issue at clock t."""
    bank, request = ch.bank[b], ch.request
    r = bank[f.READ_HIT] if reads and is_free_inside(ch, RD, b, t) else -1
    w = bank[f.WRITE_HIT] if writes and is_free_inside(ch, WR, b, t) else -1
    if seldom(w >= 0):
        w = _free_write(ch, b, w)
    if r >= 0 and (w < 0 or request[r, f.TURN] < request[w, f.TURN]):
        return RD, r
    return (WR, w) if w >= 0 else (-1, 0)


@bare
def _free_write(ch, b, w):
    """The first write from w on that no older read of the same column waits before; -1: none."""
    request, row = ch.request, ch.bank[b, f.MEM]
    while w >= 0:
        i = ch.bank[b, f.READ_HIT]
        while i >= 0 and ch.request[i, f.TURN] < ch.request[w, f.TURN] and request[i, f.COLUMN] != request[w, f.COLUMN]:
            i = next_hit(ch, request[i, f.NEXT_ALIKE], b, row, RD)
        if i < 0 or ch.request[i, f.TURN] > ch.request[w, f.TURN]:
            return w
        w = next_hit(ch, request[w, f.NEXT_ALIKE], b, row, WR)
    return w


@bare
def _open(ch, b, t):
    """ACT for the first request of bank b, or PIM_PRECHARGE where the PIM row buffer holds that row."""
    g, bank = ch.state, ch.bank[b]
    opens, closes, affords = is_free(ch, ACT, b, t), FAR, _affords(ch, ch.policy[f.ACT_CK])
    inside = bank[f.PIM] if ch.policy[f.DUAL] else -1
    if inside >= 0 and inside != g[f.RESERVED] and some_queued(ch, b, inside):
        closes = free_close(ch, b)
    if t < closes and not (opens and affords):
        if not opens:
            sleep(ch, b, min(free_from(ch, ACT, b), closes))
        return -1, 0
    i, row = bank[f.RUN], bank[f.FIRST_ROW]
    while True:
        if row != g[f.RESERVED]:
            if row == inside:
                if t >= closes:
                    return PIM_PRE, 0
            elif opens and affords:
                _charge(ch)
                return ACT, row
            elif t < closes:
                return -1, 0
        run, i = i == bank[f.RUN], ch.request[i, f.NEXT]
        if i < 0:
            break
        row = ch.request[i, f.ROW]
        if run and row == bank[f.FIRST_ROW]:
            bank[f.RUN] = i
    if t < closes:
        sleep(ch, b, closes)
    return -1, 0


@bare
def _counts(ch):
    """Whether rows change at the cost of PIM's time before the next refresh."""
    return ch.policy[f.DUAL] and ch.state[f.REMAIN] > 0 and dots_wait(ch)


@bare
def _affords(ch, needed):
    """Whether PIM's time before the next refresh allows a row to be changed."""
    return not _counts(ch) or ch.state[f.REMAIN] > needed


@bare
def _charge(ch):
    """A row is changed."""
    if _counts(ch):
        ch.state[f.REMAIN] -= ch.policy[f.ACT_CK]


@bare
def next_data(ch, enough):
    """No bank's queue can issue before this clock; it may be too early a clock. From clock `enough` on down it is not
    told how early."""
    g, t = ch.state, FAR
    busy = g[f.READING] | g[f.WRITING] | g[f.OPENING] | g[f.MISSING]
    while busy and t > enough:
        b = lowest(busy)
        busy &= busy - 1
        bank = ch.bank[b]
        if bank[f.MEM] < 0:
            t = min(t, free_from(ch, ACT, b))
            if ch.policy[f.DUAL] and bank[f.PIM] >= 0:
                t = min(t, free_close(ch, b))
            continue
        if bank[f.READ_HIT] >= 0:
            t = min(t, free_from(ch, RD, b))
        if bank[f.WRITE_HIT] >= 0:
            t = min(t, free_from(ch, WR, b))
        if bank[f.FIRST_ROW] != bank[f.MEM]:
            t = min(t, free_from(ch, PRE, b))
    return t
