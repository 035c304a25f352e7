"""The order in which a hash set of addresses holds the lines of a block: Robin Hood hashing.

As robin_hood 3.11.5 does it [secondary, measured on every block of two traces of NeuPIMs' simulator]: a place has a
byte that counts the distance from home in steps, with hash bits below; who is farther from home, or has more in those
bits, stands first. Where a byte would overflow the step is halved, so that one bit less is compared from then on; where
four fifths of the places are taken, they double, and all move in the order in which they stood.
"""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare

# MurmurHash3's mixer; home = bits 5 and up, modulo the number of places
MIX_A, MIX_B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
SHIFT = np.uint64(33)
HOME_BIT, LOW_BITS = 5, 31
LOAD = 80  # percent of the places that may be taken
FIRST_PLACES, FIRST_STEP, MOST = 8, 32, 255
# shape[…]: places, those taken, step of a distance, hash bits left out, places that may be taken before it changes
PLACES, TAKEN, STEP, DROPPED, ALLOWED, N_SHAPE = range(6)
UNHALVED = MOST // FIRST_STEP - 1  # places from home, home included, that the first step can count
SPARE = MOST + 2  # places beyond the last home


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
def order(hashes, n, shape, byte, held, moved):
    """Put 0 … n - 1, whose hashes differ, into `moved` in the order of the set. byte, held: room for its places."""
    places = FIRST_PLACES
    while places * LOAD // 100 < n:
        places *= 2
    if _sort(hashes, n, places, byte, held, moved):
        return
    first = places // 2 * LOAD // 100  # were there when the places last doubled
    if places > FIRST_PLACES and _sort(hashes, first, places, byte, held, moved):
        _place(hashes, first, places, shape, byte, held, moved)
    else:
        first = 0
        _clear(shape, byte, FIRST_PLACES)
    _insert_from(first, hashes, n, shape, byte, held, moved)
    _read(shape, byte, held, moved)


@bare
def _sort(hashes, n, places, byte, held, moved):
    """Order by home among so many places, then hash bits, then age, which is the order of the set unless a step was
    halved since the places last doubled; returns whether none was."""
    for home in range(places):
        byte[home] = 0
    for i in range(n):
        byte[hashes[i] >> HOME_BIT & places - 1] += 1
    first = end = most = 0  # of those with a home: how many are before it, and the first place that they leave free
    for home in range(places):
        n_here = byte[home]
        end = max(end, home) + n_here
        most = max(most, end - home)
        byte[home] = held[home] = first
        first += n_here
    if most > UNHALVED:
        return False
    for i in range(n):
        home = hashes[i] >> HOME_BIT & places - 1
        at, low = byte[home], hashes[i] & LOW_BITS
        byte[home] = at + 1
        while at > held[home] and hashes[moved[at - 1]] & LOW_BITS < low:
            moved[at] = moved[at - 1]
            at -= 1
        moved[at] = i
    return True


@bare
def _place(hashes, n, places, shape, byte, held, moved):
    """The set of so many places, no step of which was halved, that holds n in the order of `moved`."""
    _clear(shape, byte, places)
    shape[TAKEN], place = n, 0
    for k in range(n):
        i = moved[k]
        home = hashes[i] >> HOME_BIT & places - 1
        place = max(place, home)
        byte[place], held[place] = (place - home + 1) * FIRST_STEP + (hashes[i] & LOW_BITS), i
        place += 1


@bare
def _insert_from(first, hashes, n, shape, byte, held, moved):
    """Those from `first` on come into the set as it does it itself, one after the other."""
    for i in range(first, n):
        while shape[TAKEN] >= shape[ALLOWED]:
            _make_room(hashes, shape, byte, held, moved)
        _insert(hashes, shape, byte, held, i)


@bare
def _read(shape, byte, held, moved):
    found = 0
    for place in range(shape[PLACES] + SPARE):
        if byte[place]:
            moved[found] = held[place]
            found += 1


@bare
def _clear(shape, byte, places):
    shape[PLACES], shape[TAKEN], shape[STEP], shape[DROPPED] = places, 0, FIRST_STEP, 0
    shape[ALLOWED] = places * LOAD // 100
    for place in range(places + SPARE):
        byte[place] = 0


@bare
def _make_room(hashes, shape, byte, held, moved):
    """Halve the step or, where the set is full, double the places."""
    n = shape[TAKEN]
    if n < shape[PLACES] * LOAD // 100:
        _halve_step(shape, byte)
        return
    _read(shape, byte, held, moved)
    _clear(shape, byte, 2 * shape[PLACES])
    for i in range(n):
        if shape[ALLOWED] == 0:
            _halve_step(shape, byte)
        _insert(hashes, shape, byte, held, moved[i])


@bare
def _halve_step(shape, byte):
    shape[STEP] >>= 1
    shape[DROPPED] += 1
    shape[ALLOWED] = shape[PLACES] * LOAD // 100
    for place in range(shape[PLACES] + SPARE):
        byte[place] >>= 1


@bare
def _insert(hashes, shape, byte, held, i):
    place, step = hashes[i] >> HOME_BIT & shape[PLACES] - 1, shape[STEP]
    mine = step + ((hashes[i] & LOW_BITS) >> shape[DROPPED])
    while mine <= byte[place]:
        place += 1
        mine += step
    if mine + step > MOST:
        shape[ALLOWED] = 0
    end = place
    while byte[end]:
        end += 1
    while end > place:
        byte[end], held[end] = byte[end - 1] + step, held[end - 1]
        if byte[end] + step > MOST:
            shape[ALLOWED] = 0
        end -= 1
    byte[place], held[place] = mine, i
    shape[TAKEN] += 1
