"""Request traces as files: one request a line, in the formats of DRAMsim3 and Ramulator, read in bounded memory.

The format is known by the first request: `0xADDRESS READ|WRITE CYCLE` (hexadecimal with or without 0x),
`LD|ST ADDRESS` or `LD|ST ADDRESS CYCLE` (0x…, or decimal). Blank lines and lines that begin with # are skipped.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np

from pimloom.arch.document import short
from pimloom.arch.error import UserError, one_line
from pimloom.arch.units import GIB, KIB, MIB
from pimloom.cycle_sim.memory.simulate import Chunk
from pimloom.reports.memory.compressed import file_size, read_blocks

CHUNK = 1 << 18  # requests
LONGEST_LINE = 4096  # bytes
LATEST_CK = 1 << 59  # cycles lie below: half of what the engine takes for never
EXPECTED = (
    "0xADDRESS READ|WRITE CYCLE or LD|ST 0xADDRESS",
    "0xADDRESS READ|WRITE CYCLE",
    "LD|ST 0xADDRESS",
    "LD|ST 0xADDRESS CYCLE",
)
UNKNOWN, DRAMSIM3, RAMULATOR, RAMULATOR_TIMED = range(4)  # format
READS = ("READ", "read", "P_MEM_RD", "P_FETCH", "P_LOCK_RD", "P_IO_RD", "IFETCH")  # DRAMsim3 takes any word for a read
WRITES = ("WRITE", "write", "P_MEM_WR", "BOFF")
LOADS_STORES = ("LD", "ST")
# state[…]: next byte; format; lines and requests so far; the last request's cycle and line; requests beyond the capacity
# and the first one's line; requests earlier than the one before and the first one's line; what is wrong with the next line
(AT, FORM, LINE, FILLED, LAST_CK, LAST_LINE, BEYOND, BEYOND_LINE, EARLIER, EARLIER_LINE, WRONG) = range(11)
# limits[…]: first address out of reach; whether addresses wrap there; whether times must not decrease
LIMIT, WRAPS, ORDERED = range(3)
FINE, NO_REQUEST, TOO_FAR, TOO_EARLY, BIG_ADDRESS, BIG_CYCLE, LONG = range(7)  # WRONG
NO_NUMBER, BIG_NUMBER = -1, -2
SPACE, TAB, RETURN, NEWLINE, HASH = 32, 9, 13, 10, 35


def trace_size(path: str | Path) -> int:
    """Bytes of the trace file as it lies there; 0 if it is a pipe. Raises UserError if it cannot be read."""
    return file_size(path)


def read_trace(
    path: str | Path,
    *,
    limit_bytes: int | None = None,
    wraps: bool = False,
    ordered: bool = True,
    chunk: int = CHUNK,
    warn: Callable[[str], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Chunk]:
    """The requests in chunks of at most `chunk`; without cycles in the file all are 0.

    limit_bytes: first address that is out of reach; `wraps`: such a one is only warned of (and given as it is). Unless
    `ordered`, a cycle below the one before is only warned of. Warnings come once each, at the end. progress is told how
    many bytes of the file have been read (see `trace_size`). Raises UserError.
    """
    path = Path(path)
    state, limits = np.zeros(11, np.int64), np.array([limit_bytes or 2**63 - 1, wraps, ordered], np.int64)
    arrays = _arrays(chunk)
    for data in _whole_lines(path, state, progress):
        state[AT] = 0
        while state[AT] < len(data):
            _parse(np.frombuffer(data, np.uint8), READ_WORDS, WRITE_WORDS, OTHER_WORDS, limits, state, *arrays)
            if state[WRONG]:
                raise UserError(f"{path}:{state[LINE] + 1}: {_complaint(data, state, limits)}")
            if state[FILLED] == chunk:
                yield Chunk(*arrays)
                arrays = _arrays(chunk)
                state[FILLED] = 0
    if state[FORM] == UNKNOWN:
        raise UserError(f"{path}: the trace is empty, expected lines of {EXPECTED[UNKNOWN]}")
    if n := int(state[FILLED]):
        yield Chunk(*(array[:n] for array in arrays))
    for said in _remarks(state, limits):
        warn(f"{path}: {said}")


def _arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)


def _whole_lines(path: Path, state: np.ndarray, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The file in pieces that end with a line; the last line may lack its end."""
    rest = b""
    for block in read_blocks(path, progress):
        data = rest + block
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        yield data[:end]
        if len(rest) > LONGEST_LINE:
            break
    yield rest


def _complaint(data: bytes, state: np.ndarray, limits: np.ndarray) -> str:
    """What is wrong with the line at which the parser stopped."""
    line = data[state[AT] : state[AT] + LONGEST_LINE].partition(b"\n")[0].decode("utf-8", "replace").strip()
    wrong, words = int(state[WRONG]), line.split()
    if wrong in (NO_REQUEST, LONG):
        long = f"a line has more than {LONGEST_LINE} bytes, " if wrong == LONG else ""
        return f"{long}expected {EXPECTED[state[FORM]]}, got '{one_line(short(line))}'"
    address = words[0 if state[FORM] == DRAMSIM3 else 1]
    if wrong == TOO_FAR:
        limit = int(limits[LIMIT])
        value = int(address, 0 if state[FORM] != DRAMSIM3 and address[:2] in ("0x", "0X") else _base(state))
        return f"address {value:#x} is beyond the capacity of {capacity(limit)} ({limit:#x})"
    if wrong == BIG_ADDRESS:
        return f"expected an address below 2^63, got {short(address)}"
    if wrong == BIG_CYCLE:
        return f"expected a cycle below 2^59, got {short(words[2])}"
    last = f"cycle {state[LAST_CK]} of line {state[LAST_LINE]}"
    return f"cycle {int(words[2])} comes after {last}: times must not decrease"


def _base(state: np.ndarray) -> int:
    """Of an address without 0x."""
    return 16 if state[FORM] == DRAMSIM3 else 10


def _remarks(state: np.ndarray, limits: np.ndarray) -> Iterator[str]:
    if n := int(state[BEYOND]):
        what = f"{n} address{'es lie' if n > 1 else ' lies'} beyond the capacity of {capacity(int(limits[LIMIT]))}"
        yield f"{what}, first in line {state[BEYOND_LINE]}; taken modulo the capacity"
    if n := int(state[EARLIER]):
        what = f"{n} cycle{'s are' if n > 1 else ' is'} earlier than the one before"
        yield f"{what}, first in line {state[EARLIER_LINE]}; requests are served in the order of the file"


def capacity(size_bytes: int) -> str:
    """A number of bytes in the largest unit that divides it.

    >>> capacity(16 * GIB), capacity(1536 * KIB), capacity(100)
    ('16 GiB', '1536 KiB', '100 bytes')
    """
    for name, unit in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} bytes"


def _table(words: tuple[str, ...]) -> np.ndarray:
    """words[k] = length, then its bytes."""
    table = np.zeros((len(words), 16), np.uint8)
    for row, word in zip(table, words, strict=True):
        row[0] = len(word)
        row[1 : len(word) + 1] = np.frombuffer(word.encode(), np.uint8)
    return table


READ_WORDS, WRITE_WORDS, OTHER_WORDS = _table(READS), _table(WRITES), _table(LOADS_STORES)


@numba.njit(cache=True, nogil=True)
def _parse(
    data: np.ndarray,
    reads: np.ndarray,
    writes: np.ndarray,
    others: np.ndarray,
    limits: np.ndarray,
    state: np.ndarray,
    address: np.ndarray,
    write: np.ndarray,
    when: np.ndarray,
) -> None:
    """Fill the arrays from the bytes at state[AT] on, until they are full, the bytes are used up, or a line is wrong."""
    place = np.zeros((4, 2), np.int64)
    at, n, end, state[WRONG] = state[AT], state[FILLED], len(data), FINE
    while at < end and n < len(address):
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


@numba.njit(cache=True, nogil=True)
def _fields(data: np.ndarray, at: int, place: np.ndarray) -> tuple[int, int]:
    """Where the line at `at` ends, and its number of fields, at most 4; place[k] = begin and end of one."""
    fields, inside, end = 0, False, len(data)
    while at < end and data[at] != NEWLINE:
        c = data[at]
        if c == SPACE or c == TAB or c == RETURN:
            if inside:
                place[fields - 1, 1], inside = at, False
        elif not inside and fields < 4:
            place[fields, 0], inside = at, True
            fields += 1
        at += 1
    if inside:
        place[fields - 1, 1] = at
    return at, fields


@numba.njit(cache=True, nogil=True)
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
        w = 0 if _word(data, place[1], reads) >= 0 else (1 if _word(data, place[1], writes) >= 0 else -1)
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
        if a == BIG_NUMBER:
            state[WRONG] = BIG_ADDRESS
        elif t == BIG_NUMBER or t >= LATEST_CK:
            state[WRONG] = BIG_CYCLE
    return a, w, t


@numba.njit(cache=True, nogil=True)
def _check(a: int, t: int, limits: np.ndarray, state: np.ndarray) -> None:
    """Hold the address against the capacity, and the cycle against the one before."""
    if a >= limits[LIMIT]:
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _number(data: np.ndarray, begin: int, end: int, base: int) -> int:
    """Hexadecimal after 0x, else to the base 10 or 16."""
    if end - begin > 2 and data[begin] == 48 and (data[begin + 1] == 120 or data[begin + 1] == 88):
        return _hexadecimal(data, begin + 2, end)
    return _hexadecimal(data, begin, end) if base == 16 else _decimal(data, begin, end)


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _decimal(data: np.ndarray, begin: int, end: int) -> int:
    found, big = 0, False
    for i in range(begin, end):
        if not 48 <= data[i] <= 57:
            return NO_NUMBER
        digit = np.int64(data[i] - 48)
        big = big or found > (2**63 - 1 - digit) // 10
        found = found * 10 + digit
    return BIG_NUMBER if big else found
