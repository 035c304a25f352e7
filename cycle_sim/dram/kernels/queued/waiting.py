"""The read and the write queue of a channel: requests that wait for room in their command queue.

Those of one command queue stand in a chain, and the first of each chain whose command queue has room in a ladder.
"""

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.dram.kernels.ladder import place
from pimloom.cycle_sim.dram.kernels.pending import find
from pimloom.cycle_sim.dram.kernels.queued import fields as f
from pimloom.cycle_sim.dram.kernels.tree import NONE, key_of, slot_of


@bare
def enter(ch, k, slot):
    """Put a request at the end of the read (k = 0) or the write queue."""
    pool, line, q = ch.pool, ch.line, ch.bank[ch.pool[slot, f.BANK], f.HOME]
    last = line[q, f.LAST + k]
    pool[slot, f.TURN], pool[slot, f.BEHIND], line[q, f.LAST + k] = ch.state[f.ENTERED], -1, slot
    ch.state[f.ENTERED] += 1
    ch.state[f.N_READ + k] += 1
    if last < 0:
        line[q, f.FIRST + k] = slot
        _stand(ch, k, q)
    else:
        pool[last, f.BEHIND] = slot


@bare
def leave(ch, k, slot):
    """Take a request out of the read or the write queue."""
    pool, line, q, before = ch.pool, ch.line, ch.bank[ch.pool[slot, f.BANK], f.HOME], -1
    other = line[q, f.FIRST + k]
    while other != slot:
        before, other = other, pool[other, f.BEHIND]
    if before < 0:
        line[q, f.FIRST + k] = pool[slot, f.BEHIND]
        _stand(ch, k, q)
    else:
        pool[before, f.BEHIND] = pool[slot, f.BEHIND]
    if line[q, f.LAST + k] == slot:
        line[q, f.LAST + k] = before
    ch.state[f.N_READ + k] -= 1


@bare
def _stand(ch, k, q):
    first, key = ch.line[q, f.FIRST + k], NONE
    if first >= 0 and ch.line[q, f.N_ENTRIES] < ch.policy[f.DEPTH]:
        key = key_of(ch.pool[first, f.TURN], first)
    place(ch.ladder, k, q, key)


@bare
def room_changed(ch, q):
    """Command queue q has become full, or is so no more."""
    _stand(ch, f.READS, q)
    _stand(ch, f.WRITES, q)


@bare
def first_to_move(ch, k):
    """The oldest request of the read or the write queue whose command queue has room, or -1."""
    key = ch.ladder[k, 1]
    return slot_of(key) if key < NONE else -1


@rare
def first_unread(ch):
    """As `first_to_move`, of the writes whose address nobody waits to read."""
    found = -1
    for q in range(ch.line.shape[0]):
        slot = ch.line[q, f.FIRST + f.WRITES] if ch.line[q, f.N_ENTRIES] < ch.policy[f.DEPTH] else -1
        while slot >= 0 and find(ch.seen, f.READS, ch.pool[slot, f.ADDRESS]) >= 0:
            slot = ch.pool[slot, f.BEHIND]
        if slot >= 0 and (found < 0 or ch.pool[slot, f.TURN] < ch.pool[found, f.TURN]):
            found = slot
    return found
