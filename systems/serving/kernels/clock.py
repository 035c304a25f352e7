"""The clock of one replica, as `clock.replica` has it."""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry, rare
from pimloom.systems.serving.kernels import paged, vllm, whole
from pimloom.systems.serving.kernels.fields import (
    AGAIN,
    ALL_OF,
    BEFORE,
    CACHED,
    CAME,
    COMPLETION,
    CONTEXTS,
    DONE,
    DUE,
    END_AT,
    ENDED,
    ENDS,
    FOLLOWED,
    FORM,
    FREE,
    FULL,
    GAPS,
    HELD,
    JOULES,
    KEEP,
    KIND_OF,
    KNOWN,
    LEFT_WAITING,
    LOST,
    MANY,
    MEMBERS,
    MIXED,
    N_ROWS,
    NEVER,
    NEW,
    NEW_OF,
    NEXT_SHOWN,
    NO_PRICE,
    NOT_YET,
    NUMBER,
    OLDEST,
    ON,
    ONCE_MORE,
    ONLY_DECODE,
    ONLY_PROMPT,
    ORCA,
    PHASE,
    PRICE,
    REPLICA,
    ROW_OF,
    RULE,
    SARATHI,
    SHOWN,
    SLOT,
    START,
    STARTED,
    STATIC,
    TOGETHER,
    TOKENS,
    TOLD,
    TOOK,
    TOP,
    TOTAL,
    UNDER_WAY,
    UNTIL,
    VIDUR_VLLM,
    VLLM_V0,
    VLLM_V1,
    WAITING,
    WHO,
)
from pimloom.systems.serving.kernels.live import sampled
from pimloom.systems.serving.kernels.price import closed, read


@rare
def _form(replica, requests, slot, now):
    """The next iteration, in a slot; whether anybody can run."""
    rule = replica.limits[RULE]
    replica.slots[slot, MEMBERS] = 0
    if rule == VLLM_V1:
        vllm.form_v1(replica, requests, slot, now)
    elif rule == VLLM_V0:
        vllm.form_v0(replica, requests, slot, now)
    elif rule == SARATHI:
        paged.form_sarathi(replica, requests, slot, now)
    elif rule == VIDUR_VLLM:
        paged.form_vidur_vllm(replica, requests, slot, now)
    elif rule == ORCA:
        whole.form_orca(replica, requests, slot, now)
    else:
        whole.form_together(replica, requests, slot, now)
    return replica.slots[slot, MEMBERS] > 0


@rare
def _ran(replica, shared, now):
    """The oldest iteration has ended: its tokens are there."""
    at, members, rule, slot = replica.at, replica.members, replica.limits[RULE], replica.at[OLDEST]
    requests, came = shared.requests, 0
    for i in range(replica.slots[slot, MEMBERS]):
        r = members[slot, i, WHO]
        new = members[slot, i, NEW]
        if rule == STATIC:
            if requests[r, COMPLETION] != NOT_YET:
                continue
            new = requests[r, KNOWN] - requests[r, CACHED]
        known = requests[r, KNOWN]
        sampled(replica, requests, r, new, now)
        came += requests[r, KNOWN] - known
    shared.rows[replica.slots[slot, ROW_OF], CAME] = came
    if rule == VLLM_V1:
        vllm.ran_v1(replica, requests, slot, now)
    elif rule == VLLM_V0:
        vllm.leave(replica, requests, slot)
    elif rule in (TOGETHER, STATIC):
        whole.ran_together(replica, requests, slot)
    else:
        paged.ran(replica, requests, slot)
    for i in range(replica.slots[slot, MEMBERS]):
        at[ENDED] += requests[members[slot, i, WHO], COMPLETION] == now
    at[OLDEST] = (slot + 1) % len(replica.slots)
    at[UNDER_WAY] -= 1


@rare
def _priced(replica, requests, prices, slot):
    """Write what the iteration takes; False if Python has to know more first."""
    members = replica.members
    requests_n = total = longest = second = rows = pairs = ends = new = products = context = all_pairs = 0
    for i in range(replica.slots[slot, MEMBERS]):
        n, p = members[slot, i, NEW], members[slot, i, BEFORE]
        each = n * p + n * (n + 1) // 2
        new, products, context, all_pairs = new + n, products + n * (p + n), context + p + n, all_pairs + each
        if n == 1 and p:
            requests_n, total, second = requests_n + 1, total + p + 1, max(second, min(longest, p + 1))
            longest = max(longest, p + 1)
        else:
            rows, pairs = rows + n, pairs + each
            if p + n >= requests[members[slot, i, WHO], KNOWN]:
                ends = 1
    kind = ONLY_DECODE if not rows else MIXED if requests_n else ONLY_PROMPT
    replica.slots[slot, KIND_OF], replica.slots[slot, NEW_OF], replica.slots[slot, ALL_OF] = kind, new, context
    if len(prices.form):
        prices.cost[0] = closed(prices.form, new, products, context, all_pairs)
        return True
    return read(prices, requests_n, total, longest, second, rows, pairs, ends)


@bare
def _shown(shared, ps, kind):
    """The sample sees one more iteration; whether it takes it."""
    counts = shared.counts
    counts[SHOWN + kind] += 1
    shared.time_ps[kind] += ps
    return counts[SHOWN + kind] == counts[NEXT_SHOWN + kind]


@bare
def _again(replica, requests, slot):
    """Tokens of an iteration that were in a cache which has been lost."""
    members, found = replica.members, 0
    for i in range(replica.slots[slot, MEMBERS]):
        r, p = members[slot, i, WHO], members[slot, i, BEFORE]
        if requests[r, LOST] > p:
            more = min(p + members[slot, i, NEW], requests[r, LOST]) - p
            requests[r, AGAIN] += more
            found += more
    return found


@rare
def _started(replica, shared, prices, slot):
    """Stages take it one after the other; its row, its energy."""
    at, slots, free, cost = replica.at, replica.slots, replica.free, prices.cost
    now = until = at[DUE]
    ticks = int(max(np.rint(cost[0]), 1.0))
    ticks = (ticks + len(free) - 1) // len(free)
    for stage in range(len(free)):
        if free[stage] > until:
            until = free[stage]
        until += ticks
        free[stage] = until
    slots[slot, END_AT] = until
    at[UNDER_WAY] += 1
    n, tokens = shared.counts[N_ROWS], slots[slot, NEW_OF]
    row = shared.rows[n]
    row[STARTED], row[TOOK], row[ENDS], row[ON], row[MANY] = now, ticks, until, at[REPLICA], slots[slot, MEMBERS]
    row[TOKENS], row[CONTEXTS], row[LEFT_WAITING] = tokens, slots[slot, ALL_OF], at[WAITING]
    row[HELD], row[ONCE_MORE] = replica.limits[TOTAL] - at[FREE], _again(replica, shared.requests, slot)
    slots[slot, ROW_OF] = n
    shared.counts[N_ROWS] = n + 1
    joules = 0.0
    for i in range(1, len(cost)):
        shared.by_cause[i - 1] += cost[i]
    for i in range(JOULES, len(cost)):
        joules += cost[i]
    shared.joules[n] = joules
    if len(cost) > JOULES:
        each = joules / tokens
        for i in range(slots[slot, MEMBERS]):
            who = shared.requests[replica.members[slot, i, WHO], NUMBER]
            shared.by_request[who] += each * replica.members[slot, i, NEW]


@entry
def run(replica, shared, prices):
    """All that happens before a tick, or until Python is asked; what it is asked for."""
    at, requests = replica.at, shared.requests
    while True:
        if at[PHASE] == TOP:
            if at[DUE] >= at[UNTIL]:
                return DONE
            if len(replica.gaps) - at[GAPS] < replica.members.shape[1]:
                return FULL
            at[PHASE], at[ENDED] = FORM, 0
            if at[UNDER_WAY] and replica.slots[at[OLDEST], END_AT] == at[DUE]:
                _ran(replica, shared, at[DUE])
                if at[FOLLOWED] and at[ENDED]:
                    return TOLD
        if at[PHASE] == FORM:
            at[SLOT] = (at[OLDEST] + at[UNDER_WAY]) % len(replica.slots)
            if at[UNDER_WAY] < len(replica.slots) and _form(replica, requests, at[SLOT], at[DUE]):
                at[PHASE] = PRICE
            else:
                at[DUE] = replica.slots[at[OLDEST], END_AT] if at[UNDER_WAY] else NEVER
                at[PHASE] = TOP
                continue
        if at[PHASE] == PRICE:
            if shared.counts[N_ROWS] == len(shared.rows):
                return FULL
            at[PHASE] = START
            if not _priced(replica, requests, prices, at[SLOT]):
                return NO_PRICE
        _started(replica, shared, prices, at[SLOT])
        at[PHASE] = FORM
        if _shown(shared, prices.cost[0], replica.slots[at[SLOT], KIND_OF]):
            return KEEP
