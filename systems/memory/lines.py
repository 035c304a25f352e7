"""Bytes to requests: the lines of a trace, compiled."""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry, rare
from pimloom.systems.memory.digits import word_table

LONGEST_LINE = 4096  # bytes
LATEST_CK = 1 << 59  # cycles lie below: half of what the engine takes for never
UNKNOWN, DRAMSIM3, RAMULATOR, RAMULATOR_TIMED = range(4)  # format
READS = ("READ", "read", "P_MEM_RD", "P_FETCH", "P_LOCK_RD", "IFETCH", "FETCH")  # DRAMsim3 takes any word for a read
WRITES = ("WRITE", "write", "P_MEM_WR", "BOFF")
LOADS_STORES = ("LD", "ST")
# state[…]: next byte; format; lines and requests so far; the last request's cycle and line; requests beyond the
# capacity, and the first one's line; requests earlier than the one before, and the first one's line; what is wrong with
# the next line; reads by a word that is not known, and the first one's line
AT, FORM, LINE, FILLED, LAST_CK, LAST_LINE, BEYOND, BEYOND_LINE, EARLIER, EARLIER_LINE, WRONG, UNHEARD, UNHEARD_LINE = (
    range(13)
)
N_STATE = 13
# limits[…]: first address out of reach, -1: none; whether addresses wrap there; whether times must not decrease
LIMIT, WRAPS, ORDERED = range(3)
FINE, NO_REQUEST, TOO_FAR, TOO_EARLY, BIG_ADDRESS, BIG_CYCLE, LONG = range(7)  # WRONG
NO_NUMBER, BIG_NUMBER = -1, -2
SPACE, TAB, RETURN, NEWLINE, HASH = 32, 9, 13, 10, 35
READ_BYTES, WRITE_BYTES = (np.frombuffer(f" {word} ".encode(), np.uint8) for word in ("READ", "WRITE"))
WORDS = (word_table(READS), word_table(WRITES), word_table(LOADS_STORES))


@entry
def parse(
    data: np.ndarray,
    reads: np.ndarray,
    writes: np.ndarray,
    others: np.ndarray,
    limits: np.ndarray,
    state: np.ndarray,
    address: np.ndarray,
    write: np.ndarray,
    when: np.ndarray,
    place: np.ndarray,
) -> None:
    """Fill the arrays from the bytes at state[AT] on, until they are full, no bytes are left, or a line is wrong.

    place: room for int64[4, 2].
    """
    at, n, end, state[WRONG] = state[AT], state[FILLED], len(data), FINE
    while at < end and n < len(address):
        after, a, w, t = _plain(data, at, state[FORM])
        if after >= 0:
            _check(a, t, limits, state)
            if state[WRONG]:
                break
            address[n], write[n], when[n] = a, w, t
            n += 1
            state[LINE] += 1
            at = after
            continue
        stop, fields = _fields(data, at, place)
        if stop - at > LONGEST_LINE:
            state[WRONG] = LONG
        elif fields and data[place[0, 0]] != HASH:
            a, w, t = _request(data, place, fields, reads, writes, others, state)
            if state[WRONG] == FINE:
                _check(a, t, limits, state)
            if state[WRONG] == FINE:
                address[n], write[n], when[n] = a, w, t
                n += 1
        if state[WRONG]:
            break
        state[LINE] += 1
        at = stop + 1
    state[AT], state[FILLED] = at, n


@bare
def _plain(data: np.ndarray, at: int, form: int) -> tuple[int, int, int, int]:
    """A line as tools write it, `0x1a READ 5` or `LD 0x1a`, in one pass: where the next begins, address, write, cycle.

    -1: the line, which may be good all the same, is not of that kind.
    """
    end, write, when = len(data), 0, 0
    if at + 64 > end or not 0 < form < RAMULATOR_TIMED:
        return -1, 0, 0, 0
    if form == RAMULATOR:
        write = int(data[at] == 83)
        if not (data[at] == (83 if write else 76) and data[at + 1] == (84 if write else 68) and data[at + 2] == SPACE):
            return -1, 0, 0, 0
        at += 3
    if data[at] != 48 or data[at + 1] != 120:
        return -1, 0, 0, 0
    at, address, last = at + 2, 0, at + 17
    while at < last:
        c = int(data[at])
        digit = c - 48
        if digit < 0 or digit > 9:
            digit = c - 87
            if digit < 10 or digit > 15:
                break
        address = address << 4 | digit
        at += 1
    if at == last - 15:
        return -1, 0, 0, 0
    if form == DRAMSIM3:
        write = int(data[at + 1] == 87)
        word = WRITE_BYTES if write else READ_BYTES
        for i in range(len(word)):
            if data[at + i] != word[i]:
                return -1, 0, 0, 0
        at, last = at + len(word), at + len(word) + 16
        if not 48 <= data[at] <= 57:
            return -1, 0, 0, 0
        while at < last and 48 <= data[at] <= 57:
            when = when * 10 + int(data[at]) - 48
            at += 1
    if data[at] != NEWLINE:
        return -1, 0, 0, 0
    return at + 1, address, write, when


@rare
def _fields(data: np.ndarray, at: int, place: np.ndarray) -> tuple[int, int]:
    """Where the line at `at` ends, and its number of fields, at most 4; place[k] = begin and end of one."""
    fields, inside, end = 0, False, len(data)
    while at < end and data[at] != NEWLINE:
        c = data[at]
        if c in (SPACE, TAB, RETURN):
            if inside:
                place[fields - 1, 1], inside = at, False
        elif not inside and fields < 4:
            place[fields, 0], inside = at, True
            fields += 1
        at += 1
    if inside:
        place[fields - 1, 1] = at
    return at, fields


@rare
def _request(
    data: np.ndarray,
    place: np.ndarray,
    fields: int,
    reads: np.ndarray,
    writes: np.ndarray,
    others: np.ndarray,
    state: np.ndarray,
) -> tuple[int, int, int]:
    """Address, whether it is a write, and cycle; if it is no request, state[WRONG]."""
    form = state[FORM]
    if form == UNKNOWN:
        form = DRAMSIM3
        if _word(data, place[0], others) >= 0:
            form = RAMULATOR if fields == 2 else RAMULATOR_TIMED
    if fields != (2 if form == RAMULATOR else 3):
        state[WRONG] = NO_REQUEST
        return 0, 0, 0
    if form == DRAMSIM3:
        a = _number(data, place[0, 0], place[0, 1], 16)
        w = 1 if _word(data, place[1], writes) >= 0 else 0
    else:
        a = _number(data, place[1, 0], place[1, 1], 10)
        w = _word(data, place[0], others)
    t = 0
    if form != RAMULATOR:
        t = _decimal(data, place[2, 0], place[2, 1])
    if w < 0 or a == NO_NUMBER or t == NO_NUMBER:
        state[WRONG] = NO_REQUEST
    else:
        state[FORM] = form
        if form == DRAMSIM3 and w == 0 and _word(data, place[1], reads) < 0:
            if state[UNHEARD] == 0:
                state[UNHEARD_LINE] = state[LINE] + 1
            state[UNHEARD] += 1
        if a == BIG_NUMBER:
            state[WRONG] = BIG_ADDRESS
        elif t == BIG_NUMBER or t >= LATEST_CK:
            state[WRONG] = BIG_CYCLE
    return a, w, t


@rare
def _check(a: int, t: int, limits: np.ndarray, state: np.ndarray) -> None:
    """Hold the address against the capacity, and the cycle against the one before."""
    if 0 <= limits[LIMIT] <= a:
        if not limits[WRAPS]:
            state[WRONG] = TOO_FAR
            return
        if state[BEYOND] == 0:
            state[BEYOND_LINE] = state[LINE] + 1
        state[BEYOND] += 1
    if t < state[LAST_CK]:
        if limits[ORDERED]:
            state[WRONG] = TOO_EARLY
            return
        if state[EARLIER] == 0:
            state[EARLIER_LINE] = state[LINE] + 1
        state[EARLIER] += 1
    state[LAST_CK], state[LAST_LINE] = t, state[LINE] + 1


@rare
def _word(data: np.ndarray, place: np.ndarray, words: np.ndarray) -> int:
    """Which of the words stands there; -1: none."""
    begin, length = place[0], place[1] - place[0]
    for k in range(len(words)):
        if words[k, 0] == length:
            i = 0
            while i < length and data[begin + i] == words[k, 1 + i]:
                i += 1
            if i == length:
                return k
    return -1


@rare
def _number(data: np.ndarray, begin: int, end: int, base: int) -> int:
    """Hexadecimal after 0x, else to the base 10 or 16."""
    if end - begin > 2 and data[begin] == 48 and (data[begin + 1] == 120 or data[begin + 1] == 88):
        return _hexadecimal(data, begin + 2, end)
    return _hexadecimal(data, begin, end) if base == 16 else _decimal(data, begin, end)


@rare
def _hexadecimal(data: np.ndarray, begin: int, end: int) -> int:
    found, big = 0, False
    for i in range(begin, end):
        c = data[i]
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= (c | 32) <= 102:
            digit = (c | 32) - 87
        else:
            return NO_NUMBER
        big = big or found >> 59 != 0
        found = found << 4 | digit
    return BIG_NUMBER if big else found


@rare
def _decimal(data: np.ndarray, begin: int, end: int) -> int:
    found, big = 0, False
    for i in range(begin, end):
        if not 48 <= data[i] <= 57:
            return NO_NUMBER
        digit = data[i] - 48
        big = big or found > (2**63 - 1 - digit) // 10
        found = found * 10 + digit
    return BIG_NUMBER if big else found
