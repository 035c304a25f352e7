"""What a controller with command queues does of its own: refresh, self-refresh, rows that nobody uses any more."""

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.dram.kernels.device import ACT, FAR, PRE, PREAB, RD, REFAB, REFPB, SRE, WR, arm, free_from
from pimloom.cycle_sim.dram.kernels.ladder import earliest
from pimloom.cycle_sim.dram.kernels.queued import fields as f
from pimloom.cycle_sim.dram.kernels.queued.queues import renew
from pimloom.cycle_sim.dram.kernels.record import (
    HERE,
    IDLE_CK,
    IDLE_FROM,
    OPEN_BANKS,
    REFRESH_LAG,
    REFRESHES_DUE,
    SINCE,
    SLEEP_CK,
    SLEEPS,
    TOUCHED,
    note_command,
    row_closed,
    row_opened,
)  # fmt: skip


@bare
def change_row(ch, c, b, row, t):
    """What a command of one bank leaves behind."""
    bank = ch.bank
    bank[b, f.USED] = t
    if c == ACT:
        bank[b, f.OPENED], bank[b, f.HITS] = row, 0
        row_opened(ch.log, bank[b, f.RANK], t)
    elif c in (RD, WR):
        bank[b, f.HITS] += 1
    elif bank[b, f.OPENED] >= 0:
        bank[b, f.OPENED], bank[b, f.HITS] = -1, 0
        row_closed(ch.log, bank[b, f.RANK], t)


@rare
def close_rows(ch, c, low, high, t):
    """Close the rows of some banks for nobody's request, with PRE or PREab; returns the command."""
    note_command(ch.log, t, c, low, -1, -1, 1)
    arm(ch.tree, c, low, t)
    for b in range(low, high):
        change_row(ch, c, b, -1, t)
    renew(ch, low, high)
    return c


@bare
def idle_row(ch):
    """(clock, bank) of the next row that an adaptive policy closes because nobody has used it."""
    return earliest(ch.tree, ch.ladder, f.IDLE, 0)


@rare
def refresh_due(ch):
    """Queue what falls due; sleeping ranks refresh themselves."""
    g, ranks, dramsim3 = ch.state, ch.log.rank.shape[0], ch.policy[f.DRAMSIM3]
    r, due, left_out = g[f.TURN_RANK], g[f.NEXT_REFRESH], False
    g[f.NEXT_REFRESH] += ch.policy[f.INTERVAL]
    if ch.policy[f.REFRESH] != f.PER_BANK:
        all_at_once, wide = ch.policy[f.REFRESH] == f.ALL_BANK, ch.policy[f.OF_REFRESH] // ch.policy[f.OF_RANK]
        for n in range(0, ranks if all_at_once else wide, wide):
            r = n if all_at_once else r
            if not ch.log.rank[r, SLEEPS]:
                ch.log.tally[REFRESHES_DUE] += 1
                if not left_out:
                    _queue_refresh(ch, REFAB, r * ch.policy[f.OF_RANK], due)
                left_out = dramsim3  # refreshes the first rank that is awake, and no other
        g[f.TURN_RANK] = (r + wide) % ranks
        return
    group, b, of_rank, of_group = g[f.TURN_GROUP], g[f.TURN_BANK], ch.policy[f.OF_RANK], ch.policy[f.OF_GROUP]
    if not ch.log.rank[r, SLEEPS]:
        _queue_refresh(ch, REFPB, r * of_rank + group * of_group + b, due)
        ch.log.tally[REFRESHES_DUE] += ranks if dramsim3 else 1  # one for all ranks, where each needs one
    ranks_first = not dramsim3  # then bank group, then bank; DRAMsim3: bank group, bank, rank
    if ranks_first:
        g[f.TURN_RANK] = (r + 1) % ranks
        if g[f.TURN_RANK] > 0:
            return
    g[f.TURN_GROUP] = group + 1
    if g[f.TURN_GROUP] == of_rank // of_group:
        g[f.TURN_GROUP], g[f.TURN_BANK] = 0, b + 1
        if g[f.TURN_BANK] == of_group:
            g[f.TURN_BANK] = 0
            if not ranks_first:
                g[f.TURN_RANK] = (r + 1) % ranks


@bare
def _queue_refresh(ch, c, bank, due):
    place = ch.state[f.REF_TAIL] % ch.refreshes.shape[0]
    ch.refreshes[place, 0], ch.refreshes[place, 1], ch.refreshes[place, 2] = c, bank, due
    ch.state[f.REF_TAIL] += 1


@bare
def due_at(ch):
    """Clock in which the refresh that is worked on fell due."""
    return ch.refreshes[ch.state[f.REF_HEAD] % ch.refreshes.shape[0], 2]


@bare
def force_at(ch):
    """First clock in which the refresh that is worked on stops all command queues; FAR if it does so already."""
    if ch.policy[f.FORCE] == FAR or ch.state[f.ARMED] == f.FORCED:
        return FAR
    return due_at(ch) + ch.policy[f.FORCE]


@bare
def _front(ch):
    """(command, first bank, end of the banks, whether PREab closes them) of the refresh that is worked on."""
    place = ch.state[f.REF_HEAD] % ch.refreshes.shape[0]
    c, low = ch.refreshes[place, 0], ch.refreshes[place, 1]
    if c != REFAB:
        return c, low, low + 1, False
    high, at_once = low + ch.policy[f.OF_REFRESH], False
    for b in range(low, high, ch.policy[f.OF_RANK]):
        at_once |= ch.policy[f.CLOSE_ALL] and ch.log.rank[ch.bank[b, f.RANK], OPEN_BANKS] > 0
    return c, low, high, at_once


@bare
def engine_at(ch):
    """First clock in which the refresh engine may issue: a PRE of an open bank, or the refresh itself."""
    t = FAR
    c, low, high, at_once = _front(ch)
    if at_once:
        return free_from(ch.tree, PREAB, low)
    for b in range(low, high):
        if ch.bank[b, f.OPENED] >= 0:
            t = min(t, free_from(ch.tree, PRE, b))
    return t if t < FAR else free_from(ch.tree, c, low)


@rare
def refresh(ch, t):
    """Work on the first refresh; returns the command issued, -1 if none, -2 if the rank sleeps."""
    g = ch.state
    c, low, high, at_once = _front(ch)
    if ch.log.rank[ch.bank[low, f.RANK], SLEEPS]:
        return -2
    if force_at(ch) <= t:
        _block(ch, 0, ch.bank.shape[0], f.FORCED)
        g[f.REF_AT] = engine_at(ch)
    elif not g[f.ARMED]:
        _block(ch, low, high, f.HELD)
        g[f.REF_AT] = engine_at(ch)
    if g[f.REF_AT] > t:
        return -1
    first, last, closing = low, high, PREAB
    if not at_once:
        first, last, closing = high, high, PRE
        for b in range(low, high):
            if first == high and ch.bank[b, f.OPENED] >= 0 and free_from(ch.tree, PRE, b) <= t:
                first, last = b, b + 1
    if first < high:
        return close_rows(ch, closing, first, last, t)
    note_command(ch.log, t, c, low, -1, -1, 1)
    arm(ch.tree, c, low, t)
    ch.log.tally[REFRESH_LAG] = max(ch.log.tally[REFRESH_LAG], t - due_at(ch))
    if g[f.ARMED] == f.FORCED:
        low, high = 0, ch.bank.shape[0]
    _block(ch, low, high, f.FREE)
    g[f.REF_HEAD] += 1
    return c


@bare
def _block(ch, low, high, on):
    """Let the queues of some banks issue nothing, or again."""
    of_queue = ch.policy[f.OF_QUEUE]
    first, last = ch.bank[low, f.HOME], ch.bank[high - 1, f.HOME]
    for q in range(first, last + 1):
        ch.line[q, f.BLOCKED] = on
    ch.state[f.ARMED] = on
    renew(ch, first * of_queue, (last + 1) * of_queue)


@bare
def sleep_at(ch, r):
    """First clock in which rank r may enter self-refresh."""
    rank, dramsim3 = ch.log.rank, ch.policy[f.DRAMSIM3]
    busy = rank[r, TOUCHED] if dramsim3 else rank[r, HERE]
    if rank[r, SLEEPS]:
        return ch.state[f.NOW] if dramsim3 and busy else FAR
    if busy or rank[r, OPEN_BANKS] or (ch.state[f.REF_HEAD] != ch.state[f.REF_TAIL] and not dramsim3):
        return FAR
    return max(rank[r, IDLE_FROM] + ch.policy[f.SLEEP_AFTER] - 1, free_from(ch.tree, SRE, r * ch.policy[f.OF_RANK]))


@rare
def sleep(ch, t):
    """In a clock without a command: the first rank that has idled long enough enters self-refresh."""
    rank = ch.log.rank
    for r in range(rank.shape[0]):
        if sleep_at(ch, r) > t:
            continue
        if rank[r, SLEEPS]:  # the tool asks for a wake-up that it does not know
            return f.ASLEEP
        low = r * ch.policy[f.OF_RANK]
        note_command(ch.log, t, SRE, low, -1, -1, 1)
        arm(ch.tree, SRE, low, t)
        rank[r, SLEEPS] = 1
        rank[r, IDLE_CK] += t + 1 - rank[r, SINCE]
        rank[r, SINCE] = t + 1
        for b in range(low, low + ch.policy[f.OF_RANK]):
            ch.state[f.CALLS] += ch.bank[b, f.WANTED]
        renew(ch, low, low + ch.policy[f.OF_RANK])
        return f.DONE
    return f.DONE


@rare
def wake(ch, r, t):
    """SRX issued: rank r is awake."""
    rank, of_rank = ch.log.rank, ch.policy[f.OF_RANK]
    rank[r, SLEEPS] = 0
    rank[r, SLEEP_CK] += t - rank[r, SINCE]
    rank[r, SINCE], rank[r, IDLE_FROM] = t, t
    for b in range(r * of_rank, (r + 1) * of_rank):
        ch.state[f.CALLS] -= ch.bank[b, f.WANTED]
    renew(ch, r * of_rank, (r + 1) * of_rank)
