"""vLLM's own schedulers, v1 and v0 with recomputation: the rules of `schedulers.vllm_v1` and `schedulers.vllm_v0`."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.systems.serving.kernels import prefix
from pimloom.systems.serving.kernels.fields import (
    AHEAD,
    BLOCKS,
    BUDGET,
    CACHED,
    CAP,
    COMPLETION,
    FIRST_SCHEDULED,
    FIRST_TOKEN,
    HEAD,
    HIT,
    KNOWN,
    LONGEST,
    MEMBERS,
    MOST,
    MOST_BLOCKS,
    NOT_YET,
    RUNNING,
    SHARES,
    SIZE,
    WAITING,
    WATERMARK,
    WHO,
    WHOLE,
)
from pimloom.systems.serving.kernels.live import blocks_left, blocks_of, join, pop_front, release, restart, take


@bare
def form_v1(replica, requests, slot, now):
    """Those that run; if none of them had to yield, those that wait, too."""
    limits, at, order, slots = replica.limits, replica.at, replica.order, replica.slots
    left, preempted = limits[BUDGET], False
    while left and slots[slot, MEMBERS] < at[RUNNING]:
        r = order[slots[slot, MEMBERS]]
        n = min(requests[r, KNOWN] - requests[r, CACHED], limits[MOST], left)
        gone = False
        while requests[r, CACHED] + n > requests[r, BLOCKS] * limits[SIZE] and not _slots(replica, requests, r, n, 0):
            at[RUNNING] -= 1
            victim, preempted = order[at[RUNNING]], True
            if limits[SHARES]:
                prefix.give_back(replica, requests, victim)
            restart(replica, requests, victim)
            if victim == r:
                gone = True
                break
        if gone:
            break
        if limits[SHARES]:
            prefix.fill(replica, requests, r, n)
        join(replica, requests, slot, r, n)
        left -= n
    if not preempted:
        _join_v1(replica, requests, slot, left, now)


@bare
def _join_v1(replica, requests, slot, left, now):
    limits, at = replica.limits, replica.at
    while at[WAITING] and left and at[RUNNING] < limits[CAP]:
        r = at[HEAD]
        hit = prefix.found(replica, requests, r) if limits[SHARES] else 0
        cached = hit * limits[SIZE]
        n = min(requests[r, KNOWN] - cached, limits[MOST], left)
        if limits[WHOLE] and not _fits(replica, requests, r, hit) or not _slots(replica, requests, r, n, hit):
            return
        requests[r, CACHED] = cached
        if limits[SHARES]:
            prefix.fill(replica, requests, r, n)
        if requests[r, FIRST_SCHEDULED] == NOT_YET:
            requests[r, HIT] = requests[r, CACHED]
        pop_front(replica, requests, now)
        replica.order[at[RUNNING]] = r
        at[RUNNING] += 1
        join(replica, requests, slot, r, n)
        left -= n


@bare
def _fits(replica, requests, r, hit):
    """Whether there are blocks for all that is known of one that waits, beside those that it has hit."""
    need = blocks_of(replica, min(requests[r, KNOWN], replica.limits[LONGEST]))
    free = blocks_left(replica, 0) - prefix.idle(replica, r, hit)
    return need - hit <= free


@bare
def _slots(replica, requests, r, n, hit):
    """Blocks for n tokens more, behind those that it has hit, and some ahead; False if too few are free."""
    limits = replica.limits
    need = blocks_of(replica, requests[r, CACHED] + hit * limits[SIZE] + n) - requests[r, BLOCKS] - hit
    free = blocks_left(replica, requests[r, BLOCKS]) - prefix.idle(replica, r, hit)
    if need > free:
        return False
    if hit:
        prefix.share(replica, requests, r, hit)
    if need > 0:
        more = min(need + limits[AHEAD], free, limits[MOST_BLOCKS] - requests[r, BLOCKS])
        if limits[SHARES]:
            prefix.hand_out(replica, requests, r, more)
        else:
            take(replica, requests, r, more)
    return True


@bare
def form_v0(replica, requests, slot, now):
    """Prompts; if none can come in, a token of each that runs."""
    limits, at, order = replica.limits, replica.at, replica.order
    left = limits[BUDGET]
    while at[WAITING] and at[RUNNING] < limits[CAP]:
        r = at[HEAD]
        n = requests[r, KNOWN]
        if n > left or blocks_left(replica, 0) - blocks_of(replica, n) < limits[WATERMARK]:
            break
        pop_front(replica, requests, now)
        take(replica, requests, r, blocks_of(replica, n))
        order[at[RUNNING]] = r
        at[RUNNING] += 1
        join(replica, requests, slot, r, n)
        left -= n
    if not replica.slots[slot, MEMBERS]:
        _decodes_v0(replica, requests, slot)


@bare
def _decodes_v0(replica, requests, slot):
    """Who has had a turn stands before `kept`, who is left from `first` to `last`."""
    limits, at, order = replica.limits, replica.at, replica.order
    kept, first, last, used = 0, 0, at[RUNNING], 0
    while first < last and used + requests[order[first], KNOWN] - requests[order[first], CACHED] <= limits[BUDGET]:
        r, gone = order[first], False
        n = requests[r, KNOWN] - requests[r, CACHED]
        more = max(blocks_of(replica, requests[r, KNOWN]) - requests[r, BLOCKS], 0)
        first += 1
        while blocks_left(replica, requests[r, BLOCKS]) < max(more, 1):
            if first < last:
                last -= 1
                restart(replica, requests, order[last])
            else:
                restart(replica, requests, r)
                gone = True
                break
        if not gone:
            if more:
                take(replica, requests, r, more)
            order[kept] = r
            kept += 1
            join(replica, requests, slot, r, n)
            used += n
    for i in range(first, last):
        order[kept] = order[i]
        kept += 1
    at[RUNNING] = kept


@bare
def ran_v1(replica, requests, slot, now):
    """Those as long as the model with a token that they made have ended, too."""
    for i in range(replica.slots[slot, MEMBERS]):
        r = replica.members[slot, i, WHO]
        made = requests[r, FIRST_TOKEN] != NOT_YET
        if made and requests[r, COMPLETION] == NOT_YET and requests[r, KNOWN] >= replica.limits[LONGEST]:
            requests[r, COMPLETION] = now
    leave(replica, requests, slot)


@bare
def leave(replica, requests, slot):
    """Those that have ended leave, with their blocks."""
    at, order, members, ended = replica.at, replica.order, replica.members, False
    for i in range(replica.slots[slot, MEMBERS]):
        r = members[slot, i, WHO]
        if requests[r, COMPLETION] != NOT_YET:
            if replica.limits[SHARES]:
                prefix.give_back(replica, requests, r)
            release(replica, requests, r)
            ended = True
    if ended:
        kept = 0
        for i in range(at[RUNNING]):
            if requests[order[i], COMPLETION] == NOT_YET:
                order[kept] = order[i]
                kept += 1
        at[RUNNING] = kept
