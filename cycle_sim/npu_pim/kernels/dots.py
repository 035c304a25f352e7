"""PIM commands: the head of their queue, what it needs of the banks first, and whether it ends before a refresh."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.banks import first_dot, free_close, reserve
from pimloom.cycle_sim.npu_pim.kernels.fields import ACT, G_ACT, GWRITE, HEADER, PIM_PRE, PRE, READRES, REFAB
from pimloom.cycle_sim.npu_pim.kernels.lowest import lowest
from pimloom.cycle_sim.npu_pim.kernels.masks import count, free_from, is_free, ranks_free

NOTHING = -1
WAIT = -2


@bare
def head(ch, t):
    """(command, bank) that the first PIM command issues, or issues for its sake, at clock t; command -1: none."""
    g = ch.state
    i = first_dot(ch)
    kind = ch.request[i, f.KIND]
    if g[f.COPYING] and kind != GWRITE:
        return NOTHING, 0
    if not g[f.COPYING] and kind in (GWRITE, HEADER):
        left = slack(ch, t) - _estimate(ch, i)
        g[f.REMAIN], g[f.AGED] = max(left, 0), t
        if left <= 0:
            g[f.SKIP] = 1
            return NOTHING, 0
        if kind == GWRITE:
            g[f.COPYING], g[f.COPY_BANK] = 1, ch.request[i, f.BANK]
        else:
            reserve(ch, ch.request[i, f.ROW])
            g[f.BLOCKED] = ch.policy[f.SINGLE]
    if kind == GWRITE:
        return _copy(ch, i, t)
    return _announce(ch, i, t) if kind == HEADER else _dot(ch, kind, t)


@bare
def slack(ch, t):
    """Clocks until the next refresh falls due; unless it is exact, as a counter says that has already gone on."""
    left = ch.state[f.NEXT_REFRESH] - t
    if ch.policy[f.EXACT_SLACK]:
        return left
    return left - 1 if left > 1 else ch.policy[f.REFRESH_CK]


@bare
def _is_free(ch, c, b, t):
    """Whether no rule binds command c for bank b at clock t."""
    return free_close(ch, b) <= t if c == PIM_PRE else is_free(ch, c, b, t)


@bare
def _estimate(ch, i):
    """Clocks that a GWRITE, or a tile, may take from now to its end."""
    p, request = ch.policy, ch.request
    row = request[i, f.ROW]
    if request[i, f.KIND] == GWRITE:
        opened = ch.bank[request[i, f.BANK], f.MEM]
        late = 0 if opened == row else p[f.CLOSE_CK]
        return p[f.COPY_CK] + late + (p[f.PRE_CK] if opened >= 0 and opened != row else 0)
    groups, closes = _groups_to_open(ch, row)
    comps = max(request[i, f.COMPS], p[f.LEAST_COMPS])
    opening = p[f.FAW_CK] * (groups // 2 - 1) + p[f.ACT_CK]
    return p[f.PRE_CK] * closes + opening + p[f.COMP_CK] * (comps + request[i, f.RESULTS] - 1)


@bare
def _groups_to_open(ch, row):
    """(bank groups whose banks do not all hold a row for PIM, commands that close those which hold another one)."""
    g, each, per_group = ch.state, ch.policy[f.CLOSED], ch.policy[f.PER_GROUP]
    if ch.policy[f.DUAL] and (g[f.PIM_ROWS] == 0 or (g[f.PIM_ROW] != row and g[f.PIM_ROW] != f.MIXED)):
        if each == 1:
            return ch.policy[f.GROUPS], count(g[f.PIM_ROWS])
        closes, rest = 0, g[f.PIM_ROWS]
        while rest:
            rest &= ~(((1 << each) - 1) << (lowest(rest) // each * each))
            closes += 1
        return ch.policy[f.GROUPS], closes
    buffer, groups, closes, closed = f.PIM if ch.policy[f.DUAL] else f.MEM, 0, 0, 0
    for low in range(0, ch.bank.shape[0], per_group):
        all_open = True
        for b in range(low, low + per_group):
            all_open = all_open and ch.bank[b, buffer] == row
        if not all_open:
            groups += 1
            for b in range(low, low + per_group):
                if b >= closed and ch.bank[b, buffer] >= 0 and ch.bank[b, buffer] != row:
                    closes += 1
                    closed = b // each * each + each  # by one command
    return groups, closes


@bare
def _copy(ch, i, t):
    """GWRITE: its row must be open in the MEM row buffer."""
    b, row = ch.request[i, f.BANK], ch.request[i, f.ROW]
    opened = ch.bank[b, f.MEM]
    c = GWRITE
    if opened != row:
        c = PRE if opened >= 0 else (PIM_PRE if ch.policy[f.DUAL] and ch.bank[b, f.PIM] == row else ACT)
    return (c, b) if _is_free(ch, c, b, t) else (NOTHING, 0)


@bare
def _announce(ch, i, t):
    """PIM_HEADER: no PIM row but its own may be open, and its own not in a MEM row buffer."""
    g, row, dual, good, tried = ch.state, ch.request[i, f.ROW], ch.policy[f.DUAL], True, 0
    banks = g[f.MEM_ROWS] | g[f.PIM_ROWS]
    if dual and g[f.PIM_ROWS] and g[f.PIM_ROW] == row:
        banks &= ~g[f.PIM_ROWS]  # they hold its own
    while banks:
        b = lowest(banks)
        banks &= banks - 1
        opened, c = ch.bank[b, f.MEM], -1
        if dual:
            inside = ch.bank[b, f.PIM]
            c = PIM_PRE if inside >= 0 and inside != row else (PRE if inside < 0 and opened == row else -1)
        elif opened >= 0 and opened != row:
            c = PRE
        if c >= 0:
            good = False
            if t < ch.device.bound[c] or (c == PIM_PRE and b < tried):
                continue
            if _is_free(ch, c, b, t):
                return c, b
            if c == PIM_PRE:
                tried = b // ch.policy[f.CLOSED] * ch.policy[f.CLOSED] + ch.policy[f.CLOSED]
    return (HEADER, 0) if good else (NOTHING, 0)


@bare
def _dot(ch, kind, t):
    """COMP, READRES, PIM_GEMV: all banks must have a row open in the row buffer of PIM."""
    closed = _closed(ch)
    if not closed:
        return (kind, 0) if t >= ch.device.bound[kind] else (NOTHING, 0)
    if kind == READRES:
        return WAIT, 0  # the simulation cannot go on
    closed &= ranks_free(ch, G_ACT, t)
    while closed:
        b = lowest(closed)
        if _group_is_free(ch, b, t):
            return G_ACT, b
        closed &= ~_bound_alike(ch, b)
    return NOTHING, 0


@bare
def _closed(ch):
    """Mask of the banks without a row for PIM."""
    g = ch.state
    return ((1 << ch.bank.shape[0]) - 1) & ~(g[f.PIM_ROWS] if ch.policy[f.DUAL] else g[f.MEM_ROWS])


@bare
def _group_is_free(ch, b, t):
    """Whether G_ACT may open the group of bank b at clock t."""
    if not ch.policy[f.EXACT_GROUP]:
        return is_free(ch, G_ACT, b, t)
    per_group = ch.policy[f.PER_GROUP]
    low = b // per_group * per_group
    for i in range(low, low + per_group):
        if not is_free(ch, G_ACT, i, t):
            return False
    return True


@bare
def _bound_alike(ch, b):
    """Mask of the banks of which G_ACT is bound as of bank b."""
    if not ch.policy[f.EXACT_GROUP]:
        return 1 << b
    per_group = ch.policy[f.PER_GROUP]
    return ((1 << per_group) - 1) << (b // per_group * per_group)


@bare
def _free_group(ch, b):
    """First clock in which G_ACT may open the group of bank b."""
    if not ch.policy[f.EXACT_GROUP]:
        return free_from(ch, G_ACT, b)
    t, per_group = 0, ch.policy[f.PER_GROUP]
    low = b // per_group * per_group
    for i in range(low, low + per_group):
        t = max(t, free_from(ch, G_ACT, i))
    return t


@bare
def next_dot(ch, t):
    """No PIM command can issue between clock t and this one; it may be too early a clock."""
    g = ch.state
    i = first_dot(ch)
    kind = ch.request[i, f.KIND]
    if g[f.COPYING]:
        return FAR if kind != GWRITE else t + 1
    if kind in (GWRITE, HEADER):
        return t + 1
    closed, first = _closed(ch), FAR
    while closed and first > t + 1:
        b = lowest(closed)
        first = min(first, _free_group(ch, b))
        closed &= ~_bound_alike(ch, b)
    return max(ch.device.bound[kind], t + 1) if first == FAR else max(first, t + 1)


@bare
def refresh_command(ch, r, t):
    """(command, bank) that refreshes rank r, or closes its rows, at clock t; command -1: none."""
    each = ch.policy[f.PER_RANK]
    good = True
    for b in range(r * each, (r + 1) * each):
        c = REFAB
        if ch.bank[b, f.MEM] >= 0:
            c = PRE
        elif ch.policy[f.DUAL] and ch.bank[b, f.PIM] >= 0:
            c = PIM_PRE
        if not _is_free(ch, c, b, t):
            good = False
        elif c != REFAB:
            return c, b
    return (REFAB, r * each) if good else (NOTHING, 0)


@bare
def next_refresh_command(ch, r, t):
    """The refresh of rank r cannot go on between clock t and this one."""
    each = ch.policy[f.PER_RANK]
    most, least = t + 1, FAR
    for b in range(r * each, (r + 1) * each):
        if ch.bank[b, f.MEM] >= 0:
            least = min(least, free_from(ch, PRE, b))
        elif ch.policy[f.DUAL] and ch.bank[b, f.PIM] >= 0:
            least = min(least, free_close(ch, b))
        else:
            most = max(most, free_from(ch, REFAB, b))
    return max(t + 1, least) if least < FAR else most
