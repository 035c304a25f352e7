"""Paged memory in the style of Vidur: the rules of `paged`, `sarathi` and `vidur_vllm` of `schedulers`."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.systems.serving.kernels.fields import (
    BLOCKS,
    BUDGET,
    CACHED,
    CAP,
    COMPLETION,
    CUTS,
    HEAD,
    HOLDERS,
    KNOWN,
    MEMBERS,
    MOST,
    NEW,
    NOT_YET,
    PREFILL,
    RUNNING,
    SERVED,
    WAITING,
    WATERMARK,
    WHO,
)
from pimloom.systems.serving.kernels.live import (
    blocks_left,
    blocks_of,
    by_arrival,
    join,
    pop_front,
    release,
    restart,
    take,
)


@bare
def _admissible(replica, requests, slot):
    """Whether one more may come in, and the blocks of the first that waits leave the watermark free."""
    limits, at = replica.limits, replica.at
    if not at[WAITING] or at[HOLDERS] == limits[CAP] or replica.slots[slot, MEMBERS] == limits[MOST]:
        return False
    return blocks_left(replica, 0) - blocks_of(replica, requests[at[HEAD], PREFILL]) >= limits[WATERMARK]


@bare
def _admit(replica, requests, slot, new, now):
    r = pop_front(replica, requests, now)
    take(replica, requests, r, blocks_of(replica, requests[r, PREFILL]))
    join(replica, requests, slot, r, new)


@bare
def _restart(replica, requests, r):
    if replica.limits[CUTS] and requests[r, CACHED] < requests[r, PREFILL]:
        requests[r, KNOWN] = requests[r, CACHED]
    restart(replica, requests, r)


@bare
def _make_room(replica, requests, r, first, last):
    """Blocks for the next step of r: the last of those from `first` to `last` yield; how many are left, -1: it has
    yielded itself."""
    more = blocks_of(replica, requests[r, KNOWN]) - requests[r, BLOCKS]
    while blocks_left(replica, requests[r, BLOCKS]) < max(more, 1):
        if first == last:
            _restart(replica, requests, r)
            return -1
        last -= 1
        _restart(replica, requests, replica.order[last])
    if more > 0:
        take(replica, requests, r, more)
    return last


@bare
def _decode(replica, requests, slot, chunks):
    """A token of each that decodes, in the order of `order`, which has those that had no turn then; chunks: those with
    a prompt that is half done go to `left`, whose number is told."""
    limits, at, order = replica.limits, replica.at, replica.order
    first, last, half_done = 0, at[RUNNING], 0
    while first < last and replica.slots[slot, MEMBERS] < limits[MOST]:
        r = order[first]
        first += 1
        if chunks and requests[r, CACHED] < requests[r, PREFILL]:
            replica.left[half_done] = r
            half_done += 1
            continue
        rest = _make_room(replica, requests, r, first, last)
        if rest >= 0:
            last = rest
            join(replica, requests, slot, r, requests[r, KNOWN] - requests[r, CACHED])
    for i in range(first, last):
        order[i - first] = order[i]
    at[RUNNING] = last - first
    return half_done


@bare
def form_sarathi(replica, requests, slot, now):
    """Decode first, then prompts that are half done, then those that wait."""
    limits, at, order = replica.limits, replica.at, replica.order
    if limits[SERVED]:
        by_arrival(requests, order, at[RUNNING], limits[SERVED])
    half_done, used, skipped = _decode(replica, requests, slot, True), 0, 0
    for i in range(replica.slots[slot, MEMBERS]):
        used += replica.members[slot, i, NEW]
    for i in range(half_done):
        r = replica.left[i]
        n = min(requests[r, PREFILL] - requests[r, CACHED], limits[BUDGET] - used)
        if n > 0:
            join(replica, requests, slot, r, n)
            used += n
        else:
            replica.left[skipped] = r
            skipped += 1
    for i in range(at[RUNNING] - 1, -1, -1):
        order[i + skipped] = order[i]
    for i in range(skipped):
        order[i] = replica.left[i]
    at[RUNNING] += skipped
    by_arrival(requests, order, at[RUNNING], limits[SERVED])
    while _admissible(replica, requests, slot):
        n = min(requests[at[HEAD], PREFILL], limits[BUDGET] - used)
        if n <= 0:
            break
        _admit(replica, requests, slot, n, now)
        used += n


@bare
def form_vidur_vllm(replica, requests, slot, now):
    """Prompts if one can come in, else a token of each that runs."""
    at, longest = replica.at, 0
    while _admissible(replica, requests, slot):
        n = requests[at[HEAD], PREFILL]
        longest = max(longest, n)
        if (replica.slots[slot, MEMBERS] + 1) * longest > replica.limits[BUDGET]:
            break
        _admit(replica, requests, slot, n, now)
    if not replica.slots[slot, MEMBERS]:
        by_arrival(requests, replica.order, at[RUNNING], replica.limits[SERVED])
        _decode(replica, requests, slot, False)


@bare
def ran(replica, requests, slot):
    """Those that go on are idle; those that have ended give their blocks back."""
    at = replica.at
    for i in range(replica.slots[slot, MEMBERS]):
        r = replica.members[slot, i, WHO]
        if requests[r, COMPLETION] == NOT_YET:
            replica.order[at[RUNNING]] = r
            at[RUNNING] += 1
        else:
            release(replica, requests, r)
