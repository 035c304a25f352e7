"""A hash table from address to slot, for requests that wait: open addressing, a power of two places."""

import numpy as np

from pimloom.cycle_sim.memory.compiled import bare

EMPTY = np.int64(-1)
KEY, SLOT = range(2)


@bare
def _home(key, mask):
    mixed = key * np.int64(-7046029254386353131)  # 2^64 / golden ratio, odd
    return (mixed >> 29) & mask


@bare
def find(places, key):
    """Slot of a key, or -1."""
    mask = places.shape[0] - 1
    i = _home(key, mask)
    while places[i, KEY] != EMPTY:
        if places[i, KEY] == key:
            return places[i, SLOT]
        i = (i + 1) & mask
    return np.int64(-1)


@bare
def insert(places, key, slot):
    """Enter a key that is not there yet; the table must keep a free place."""
    mask = places.shape[0] - 1
    i = _home(key, mask)
    while places[i, KEY] != EMPTY:
        i = (i + 1) & mask
    places[i, KEY], places[i, SLOT] = key, slot


@bare
def remove(places, key):
    """Take a key out that is there; later keys of its run move up."""
    mask = places.shape[0] - 1
    i = _home(key, mask)
    while places[i, KEY] != key:
        i = (i + 1) & mask
    j = i
    while True:
        j = (j + 1) & mask
        if places[j, KEY] == EMPTY:
            break
        home = _home(places[j, KEY], mask)
        if ((j - home) & mask) >= ((j - i) & mask):
            places[i, KEY], places[i, SLOT] = places[j, KEY], places[j, SLOT]
            i = j
    places[i, KEY] = EMPTY


def table(entries: int) -> np.ndarray:
    """An empty table for at most `entries` keys."""
    places = 1 << max(4, (4 * entries - 1).bit_length())
    return np.full((places, 2), EMPTY)
