"""Blocks of KV cache with identities: `schedulers.prefix_pool` in arrays.

A block that nobody uses stands in the free list, blocks of one identity in a list of their own, the oldest first. Block
k of a request is held[spans[r] + k], and its identity names[spans[r] + k].
"""

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.systems.serving.kernels.fields import (
    BACK,
    BEHIND,
    BLOCKS,
    CACHED,
    FREE,
    FREE_HEAD,
    FREE_TAIL,
    KNOWN,
    NAME,
    NAMED,
    NOBODY,
    SAME_BACK,
    SAME_BEHIND,
    SIZE,
    USERS,
)


@bare
def _unlink(replica, b):
    """It is free no longer."""
    at, blocks = replica.at, replica.blocks
    back, behind = blocks[b, BACK], blocks[b, BEHIND]
    if back == NOBODY:
        at[FREE_HEAD] = behind
    else:
        blocks[back, BEHIND] = behind
    if behind == NOBODY:
        at[FREE_TAIL] = back
    else:
        blocks[behind, BACK] = back
    at[FREE] -= 1


@bare
def _forget(replica, b):
    """It has no identity any more."""
    blocks, by_name = replica.blocks, replica.by_name
    name, back, behind = blocks[b, NAME], blocks[b, SAME_BACK], blocks[b, SAME_BEHIND]
    if back == NOBODY:
        by_name[name, 0] = behind
    else:
        blocks[back, SAME_BEHIND] = behind
    if behind == NOBODY:
        by_name[name, 1] = back
    else:
        blocks[behind, SAME_BACK] = back
    blocks[b, NAME] = NOBODY


@rare
def found(replica, requests, r):
    """How many leading blocks of a request are there; a token at least remains to be computed."""
    first, most = replica.spans[r], (requests[r, KNOWN] - 1) // replica.limits[SIZE]
    k = 0
    while k < most and replica.by_name[replica.names[first + k], 0] != NOBODY:
        k += 1
    return k


@rare
def idle(replica, r, hit):
    """How many of the first blocks that it has found nobody uses."""
    number = 0
    for k in range(hit):
        number += replica.blocks[replica.by_name[replica.names[replica.spans[r] + k], 0], USERS] == 0
    return number


@rare
def share(replica, requests, r, hit):
    """Blocks that a request has found are its own, too."""
    first, blocks = replica.spans[r], replica.blocks
    for k in range(hit):
        b = replica.by_name[replica.names[first + k], 0]
        if blocks[b, USERS] == 0:
            _unlink(replica, b)
        blocks[b, USERS] += 1
        replica.held[first + k] = b
    requests[r, NAMED] = requests[r, BLOCKS] = hit


@rare
def hand_out(replica, requests, r, number):
    """So many, which lose their identity."""
    blocks = replica.blocks
    at_end = replica.spans[r] + requests[r, BLOCKS]
    for k in range(number):
        b = replica.at[FREE_HEAD]
        _unlink(replica, b)
        if blocks[b, NAME] != NOBODY:
            _forget(replica, b)
        blocks[b, USERS] = 1
        replica.held[at_end + k] = b
    requests[r, BLOCKS] += number


@rare
def fill(replica, requests, r, new):
    """So many tokens more of a request are there: its full blocks have their identity."""
    first, blocks, by_name = replica.spans[r], replica.blocks, replica.by_name
    full = (requests[r, CACHED] + new) // replica.limits[SIZE]
    for k in range(requests[r, NAMED], full):
        b, name = replica.held[first + k], replica.names[first + k]
        last = by_name[name, 1]
        blocks[b, NAME], blocks[b, SAME_BACK], blocks[b, SAME_BEHIND] = name, last, NOBODY
        if last == NOBODY:
            by_name[name, 0] = b
        else:
            blocks[last, SAME_BEHIND] = b
        by_name[name, 1] = b
    requests[r, NAMED] = max(requests[r, NAMED], full)


@rare
def give_back(replica, requests, r):
    """All of them, the last one first."""
    at, blocks, first = replica.at, replica.blocks, replica.spans[r]
    for k in range(requests[r, BLOCKS] - 1, -1, -1):
        b = replica.held[first + k]
        blocks[b, USERS] -= 1
        if blocks[b, USERS] == 0:
            last = at[FREE_TAIL]
            blocks[b, BACK], blocks[b, BEHIND] = last, NOBODY
            if last == NOBODY:
                at[FREE_HEAD] = b
            else:
                blocks[last, BEHIND] = b
            at[FREE_TAIL] = b
            at[FREE] += 1
    requests[r, NAMED] = requests[r, BLOCKS] = 0
