"""Those who wait, blocks of KV cache, and what a request has when an iteration has run."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.systems.serving.kernels.fields import (
    ARRIVAL,
    BEFORE,
    BLOCKS,
    CACHED,
    COMPLETION,
    FIRST_SCHEDULED,
    FIRST_TOKEN,
    FREE,
    GAPS,
    HEAD,
    HOLDERS,
    KNOWN,
    LAST,
    LAST_TOKEN,
    LOST,
    MEMBERS,
    MOST_WINDOWED,
    NEW,
    NEXT,
    NOBODY,
    NOT_YET,
    NUMBER,
    PREFILL,
    RESTARTS,
    SIZE,
    TAIL,
    UNWINDOWED,
    WAITING,
    WHO,
    WINDOWED,
)

UNBOUNDED = 1 << 40  # as in `schedulers.blocks`


@bare
def push_back(replica, requests, r):
    """It is the last that waits."""
    at = replica.at
    requests[r, NEXT] = NOBODY
    if at[WAITING]:
        requests[at[TAIL], NEXT] = r
    else:
        at[HEAD] = r
    at[TAIL] = r
    at[WAITING] += 1


@bare
def push_front(replica, requests, r):
    """It is the first that waits."""
    at = replica.at
    if at[WAITING]:
        requests[r, NEXT] = at[HEAD]
    else:
        requests[r, NEXT], at[TAIL] = NOBODY, r
    at[HEAD] = r
    at[WAITING] += 1


@bare
def pop_front(replica, requests, now):
    """The first that waits is scheduled."""
    at = replica.at
    r = at[HEAD]
    at[HEAD] = requests[r, NEXT]
    at[WAITING] -= 1
    if requests[r, FIRST_SCHEDULED] == NOT_YET:
        requests[r, FIRST_SCHEDULED] = now
    return r


@bare
def blocks_of(replica, tokens):
    """Blocks that so many tokens need."""
    return (tokens + replica.limits[SIZE] - 1) // replica.limits[SIZE]


@bare
def cost(replica, blocks):
    """Units that a request with so many blocks takes."""
    limits = replica.limits
    if not limits[WINDOWED]:
        return blocks
    return limits[UNWINDOWED] * blocks + limits[WINDOWED] * min(blocks, limits[MOST_WINDOWED])


@bare
def blocks_left(replica, held):
    """Free blocks that a request which holds some may have beyond those."""
    limits, free = replica.limits, replica.at[FREE]
    if not limits[WINDOWED]:
        return free
    both, growing = limits[UNWINDOWED] + limits[WINDOWED], max(limits[MOST_WINDOWED] - held, 0)
    if free < both * growing:
        return free // both
    return growing + ((free - both * growing) // limits[UNWINDOWED] if limits[UNWINDOWED] else UNBOUNDED)


@bare
def take(replica, requests, r, number):
    """Give a request so many blocks."""
    at = replica.at
    at[FREE] -= cost(replica, requests[r, BLOCKS] + number) - cost(replica, requests[r, BLOCKS])
    if requests[r, BLOCKS] == 0:
        at[HOLDERS] += 1
    requests[r, BLOCKS] += number


@bare
def release(replica, requests, r):
    """Take all back."""
    at = replica.at
    at[FREE] += cost(replica, requests[r, BLOCKS])
    if requests[r, BLOCKS] > 0:
        at[HOLDERS] -= 1
    requests[r, BLOCKS] = 0


@bare
def restart(replica, requests, r):
    """It loses its blocks and its cache, and is the first that waits."""
    release(replica, requests, r)
    requests[r, LOST] = max(requests[r, LOST], requests[r, CACHED])
    requests[r, CACHED], requests[r, PREFILL] = 0, requests[r, KNOWN]
    requests[r, RESTARTS] += 1
    push_front(replica, requests, r)


@bare
def join(replica, requests, slot, r, new):
    """It is in an iteration with so many new tokens."""
    i = replica.slots[slot, MEMBERS]
    replica.members[slot, i, WHO], replica.members[slot, i, NEW] = r, new
    replica.members[slot, i, BEFORE] = requests[r, CACHED]
    replica.slots[slot, MEMBERS] = i + 1


@bare
def sampled(replica, requests, r, new, now):
    """Add the tokens of an iteration to a request; whether it has ended."""
    at = replica.at
    cached = requests[r, CACHED] + new
    requests[r, CACHED] = cached
    if cached < requests[r, KNOWN]:
        return False
    requests[r, KNOWN] = cached + 1
    if requests[r, FIRST_TOKEN] < 0:
        requests[r, FIRST_TOKEN] = now
    else:
        replica.gaps[at[GAPS]] = now - requests[r, LAST_TOKEN]
        at[GAPS] += 1
    requests[r, LAST_TOKEN] = now
    if cached + 1 != requests[r, LAST]:
        return False
    requests[r, COMPLETION] = now
    return True


@bare
def by_arrival(requests, order, n, numbered):
    """The first n in order of arrival, of equal ones by number, or if not `numbered` as they stand; they mostly are
    already."""
    for i in range(1, n):
        r, j = order[i], i
        while j and (
            requests[order[j - 1], ARRIVAL] > requests[r, ARRIVAL]
            or (
                numbered
                and requests[order[j - 1], ARRIVAL] == requests[r, ARRIVAL]
                and requests[order[j - 1], NUMBER] > requests[r, NUMBER]
            )
        ):
            order[j] = order[j - 1]
            j -= 1
        order[j] = r
