"""The order in which a hash set of addresses holds the lines of a block: Robin Hood hashing.

As robin_hood 3.11.5 does it [secondary, measured on every block of two traces of NeuPIMs' simulator]: a place has a
byte that counts the distance from home in steps, with hash bits below; who is farther from home, or has more in those
bits, stands first, of equals who came first. Where a byte would overflow the step is halved, so that those who come
from then on are compared by one bit less; where four fifths of the places are taken, they double, and all move in the
order in which they stood.

So a set is sorted by home and those bits, the bits that a newcomer is not compared by taken as 0. How far anyone is
from home, which halves the step, depends on the homes alone.
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, rare

# MurmurHash3's mixer; home = bits 5 and up, modulo the number of places
MIX_A, MIX_B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
SHIFT = np.uint64(33)
HOME_BIT, LOW_BITS = 5, 31
LOAD = 80  # percent of the places that may be taken
FIRST_PLACES, FIRST_STEP, MOST = 8, 32, 255
UNHALVED = MOST // FIRST_STEP - 1  # places from home, home included, that the first step can count
KEY_BIT = 32  # of a number that is sorted; below: whose key it is
LEAST_COUNTERS = 32


@bare
def mixed(address):
    """The hash of an address, without its highest bit."""
    x = np.uint64(address)
    x ^= x >> SHIFT
    x *= MIX_A
    x ^= x >> SHIFT
    x *= MIX_B
    x ^= x >> SHIFT
    return np.int64(x >> np.uint64(1)) << 1 | np.int64(x & np.uint64(1))


@bare
def order(hashes, n, packed, ends, moved):
    """Put 0 … n - 1, which have these hashes, into `moved` in the order of the set.

    packed: room for n numbers; ends: for as many as there are places, at least LEAST_COUNTERS.
    """
    places = FIRST_PLACES
    while places * LOAD // 100 < n:
        places *= 2
    bits = places * FIRST_STEP - 1
    for i in range(n):
        packed[i] = ((hashes[i] & bits) ^ LOW_BITS) << KEY_BIT | i
    if _sort(packed, n, places, ends, moved) <= UNHALVED:
        return
    unhalved = _come(hashes, 0, n, places, packed, ends, moved)
    if places == FIRST_PLACES or unhalved >= places // 2 * LOAD // 100:  # who moved stands as if newly come
        _sort(packed, n, places, ends, moved)
        return
    places, came = FIRST_PLACES, 0
    while came < n:
        before, came = came, min(places * LOAD // 100, n)
        _come(hashes, before, came, places, packed, ends, moved)
        _sort(packed, came, places, ends, moved)
        places *= 2


@rare
def _come(hashes, before, n, places, packed, ends, moved):
    """Set packed[k] to the key of the k-th that comes into a set of so many places, above its number: first those
    `before`, whose order is in `moved`, then as numbered up to n - 1.

    Returns which of them was the first for whom a byte was full, n if none was.
    """
    bits, step, most, unhalved = places * FIRST_STEP - 1, FIRST_STEP, 0, n
    for home in range(places):
        ends[home] = home
    for k in range(n):
        i = moved[k] if k < before else k
        packed[k] = ((hashes[i] & bits) ^ LOW_BITS) << KEY_BIT | i
        most = max(most, _take(hashes[i] >> HOME_BIT & places - 1, places, ends))
        if most >= MOST // step and step > 1:
            unhalved = min(unhalved, k)
            step >>= 1
            bits = places * FIRST_STEP - FIRST_STEP // step
    return unhalved


@bare
def _take(home, places, ends):
    """One more of a home is there. ends[h]: the first place that those of home h and before leave free. Returns how far
    from home, home included, those are now who have moved."""
    end, most = ends[home], 0
    while end >= home and home < places:
        end = ends[home]
        ends[home] = end + 1
        most = max(most, end + 1 - home)
        home += 1
    return most


@rare
def _sort(packed, n, places, counters, moved):
    """Put the lower halves of `packed` into `moved` in order of the upper ones; those of equal ones stay as they are.
    Returns how far from home the farthest is, home included."""
    half = 0
    while 1 << 2 * half < places * FIRST_STEP:
        half += 1
    _sort_by(packed, n, KEY_BIT, half, counters, moved)
    _sort_by(moved, n, KEY_BIT + half, half, counters, packed)
    end = most = 0
    for k in range(n):
        home = packed[k] >> KEY_BIT + HOME_BIT
        end = max(end, home) + 1
        most = max(most, end - home)
        moved[k] = packed[k] & (1 << KEY_BIT) - 1
    return most


@bare
def _sort_by(numbers, n, bit, bits, counters, ordered):
    """Put numbers into another array in order of so many of their bits; equal ones stay as they are."""
    mask, first = (1 << bits) - 1, 0
    for digit in range(mask + 1):
        counters[digit] = 0
    for k in range(n):
        counters[numbers[k] >> bit & mask] += 1
    for digit in range(mask + 1):
        first, counters[digit] = first + counters[digit], first
    for k in range(n):
        digit = numbers[k] >> bit & mask
        ordered[counters[digit]] = numbers[k]
        counters[digit] += 1
