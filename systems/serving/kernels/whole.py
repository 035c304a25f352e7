"""Memory for the worst case: the rules of `schedulers.orca`, `schedulers.faster_transformer`, `schedulers.static`."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.systems.serving.kernels.fields import (
    BEFORE,
    CACHED,
    COMPLETION,
    HEAD,
    KNOWN,
    LAST,
    LEAK,
    LONGEST,
    MEMBERS,
    MOST,
    NEW,
    NEXT_ON,
    NOT_YET,
    PROMPT,
    RESERVED,
    RULE,
    RUNNING,
    STATIC,
    UNFINISHED,
    WAITING,
    WHO,
)
from pimloom.systems.serving.kernels.live import blocks_left, join, pop_front, release, take


@bare
def form_orca(replica, requests, slot, now):
    """A token of each that runs, and the whole prompts of those whose worst case fits."""
    at, order = replica.at, replica.order
    turn = min(at[RUNNING], replica.limits[MOST])
    for i in range(turn):
        join(replica, requests, slot, order[i], requests[order[i], KNOWN] - requests[order[i], CACHED])
    for i in range(turn, at[RUNNING]):
        order[i - turn] = order[i]
    at[RUNNING] -= turn
    _join(replica, requests, slot, now)


@bare
def _join(replica, requests, slot, now):
    limits, at, prompt, output = replica.limits, replica.at, 0, 0
    while at[WAITING] and replica.slots[slot, MEMBERS] < limits[MOST] and limits[RESERVED] <= blocks_left(replica, 0):
        if limits[RULE] == STATIC:  # as `Static.joins`
            r = at[HEAD]
            prompt = max(prompt, requests[r, PROMPT])
            output = max(output, requests[r, LAST] - requests[r, PROMPT])
            if replica.slots[slot, MEMBERS] and prompt + output - 1 > limits[LONGEST]:
                return
        r = pop_front(replica, requests, now)
        take(replica, requests, r, limits[RESERVED])
        join(replica, requests, slot, r, requests[r, PROMPT])


@bare
def form_together(replica, requests, slot, now):
    """The batch that waits to go on; a new one only if there is none. Of `STATIC` every row is as long as the longest,
    also of those that have ended."""
    at, grown, padded = replica.at, replica.grown, replica.limits[RULE] == STATIC
    if at[UNFINISHED]:
        g = at[NEXT_ON]
        at[NEXT_ON] = (g + 1) % len(grown)
        at[UNFINISHED] -= 1
        for i in range(grown[g, 0]):
            r = replica.groups[g, i]
            join(replica, requests, slot, r, 1 if padded else requests[r, KNOWN] - requests[r, CACHED])
            if padded:
                replica.members[slot, i, BEFORE] = grown[g, 1]
        return
    _join(replica, requests, slot, now)
    if padded:
        longest = 0
        for i in range(replica.slots[slot, MEMBERS]):
            longest = max(longest, replica.members[slot, i, NEW])
        for i in range(replica.slots[slot, MEMBERS]):
            replica.members[slot, i, NEW], replica.members[slot, i, BEFORE] = longest, 0


@bare
def ran_together(replica, requests, slot):
    """Those that have ended drop out, or with `STATIC` all at once; with `LEAK` only the last give blocks back."""
    at, grown, members, limits = replica.at, replica.grown, replica.members, replica.limits
    padded, g = limits[RULE] == STATIC, (at[NEXT_ON] + at[UNFINISHED]) % len(replica.grown)
    alive = n = 0
    for i in range(replica.slots[slot, MEMBERS]):
        r = members[slot, i, WHO]
        going = requests[r, COMPLETION] == NOT_YET
        if going:
            alive += 1
        if going or padded:
            replica.groups[g, n] = r
            n += 1
    if alive:
        grown[g, 0], grown[g, 1] = n, members[slot, 0, BEFORE] + members[slot, 0, NEW]
        at[UNFINISHED] += 1
    if not (alive and (padded or limits[LEAK])):
        for i in range(replica.slots[slot, MEMBERS]):
            if requests[members[slot, i, WHO], COMPLETION] != NOT_YET:
                release(replica, requests, members[slot, i, WHO])
