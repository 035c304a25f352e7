"""Hash tables from address to slot, for requests that wait: open addressing, a power of two places."""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare

EMPTY = np.int64(-1)
KEY, SLOT = range(2)
NEAR_BITS = 3  # of a key: what is near in memory shares cache lines


@bare
def _home(key, mask):
    mixed = (key >> NEAR_BITS) * np.int64(-7046029254386353131)  # 2^64 / golden ratio, odd
    return ((mixed >> 29) << NEAR_BITS | key & ((1 << NEAR_BITS) - 1)) & mask


@bare
def find(places, n, key):
    """Slot of a key in table n, or -1."""
    mask = places.shape[1] - 1
    i = _home(key, mask)
    while places[n, i, KEY] != EMPTY:
        if places[n, i, KEY] == key:
            return places[n, i, SLOT]
        i = (i + 1) & mask
    return np.int64(-1)


@bare
def insert(places, n, key, slot):
    """Enter a key that is not there yet in table n; the table must keep a free place."""
    mask = places.shape[1] - 1
    i = _home(key, mask)
    while places[n, i, KEY] != EMPTY:
        i = (i + 1) & mask
    places[n, i, KEY], places[n, i, SLOT] = key, slot


@bare
def remove(places, n, key):
    """Take a key out of table n, where it is; later keys of its run move up."""
    mask = places.shape[1] - 1
    i = _home(key, mask)
    while places[n, i, KEY] != key:
        i = (i + 1) & mask
    j = i
    while True:
        j = (j + 1) & mask
        if places[n, j, KEY] == EMPTY:
            break
        home = _home(places[n, j, KEY], mask)
        if ((j - home) & mask) >= ((j - i) & mask):
            places[n, i, KEY], places[n, i, SLOT] = places[n, j, KEY], places[n, j, SLOT]
            i = j
    places[n, i, KEY] = EMPTY


def table(entries: int, number: int = 1) -> np.ndarray:
    """`number` empty tables, each for at most `entries` keys."""
    places = 1 << max(4, (4 * entries - 1).bit_length())
    return np.full((number, places, 2), EMPTY)
