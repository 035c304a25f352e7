"""Links between the requests that wait for a bank, so that nobody goes through a queue: by age, and, of reads and of
writes, among those that want the same row.

link[slot]: see BEFORE. age[q] = (first, last) slot of a queue's requests for a bank, or -1. same[n]: the same of the
requests whose row and bank fall together in place n of a hash table, reads in even places, writes in odd ones.
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare

BEFORE, BEHIND, OLDER, YOUNGER, ROW_OF_BANK = range(5)  # neighbours by age; among those of a place; row and bank
AGE, SAME = BEFORE, OLDER  # kinds of links
FIRST, LAST = range(2)
BANKS = 1 << 20  # more than a channel has
GOLDEN = 0x9E3779B1  # 2^32 / golden ratio, odd: rows that follow one another, or a power of two apart, part


@bare
def row_of_bank(row, bank):
    """One number for a row of a bank."""
    return row * BANKS + bank


@bare
def place_of(same, key, write):
    """The place of `same` of the reads or writes that want a row of a bank."""
    row, bank = key // BANKS, key % BANKS
    return ((row * GOLDEN + bank * (GOLDEN >> 4)) >> 16 << 1 | write) & (same.shape[0] - 1)


@bare
def join(link, ends, kind, n, slot, other):
    """Put a request into chain n of this kind, behind another one (-1: before all)."""
    if other < 0:
        behind, ends[n, FIRST] = ends[n, FIRST], slot
    else:
        behind, link[other, kind + 1] = link[other, kind + 1], slot
    link[slot, kind], link[slot, kind + 1] = other, behind
    if behind < 0:
        ends[n, LAST] = slot
    else:
        link[behind, kind] = slot


@bare
def part(link, ends, kind, n, slot):
    """Take a request out of chain n of this kind."""
    before, behind = link[slot, kind], link[slot, kind + 1]
    if before < 0:
        ends[n, FIRST] = behind
    else:
        link[before, kind + 1] = behind
    if behind < 0:
        ends[n, LAST] = before
    else:
        link[behind, kind] = before


@bare
def first_hit(same, link, key, write):
    """The oldest read or write that wants this row of this bank, or -1."""
    return _from(link, key, same[place_of(same, key, write), FIRST])


@bare
def next_hit(link, slot):
    """The next one that wants the same as this one, or -1."""
    return _from(link, link[slot, ROW_OF_BANK], link[slot, YOUNGER])


@bare
def _from(link, key, slot):
    while slot >= 0 and link[slot, ROW_OF_BANK] != key:
        slot = link[slot, YOUNGER]
    return slot


def links(slots: int, queues: int, waiting: int) -> dict[str, np.ndarray]:
    """age, link and same of no requests. slots: of requests; waiting: how many may be linked at a time."""
    return {
        "age": np.full((queues, 2), -1, np.int64),
        "link": np.zeros((slots, 5), np.int64),
        "same": np.full((2 << (max(waiting, 8) - 1).bit_length(), 2), -1, np.int64),
    }
