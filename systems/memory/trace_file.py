"""Request traces as files: one request a line, in the formats of DRAMsim3 and Ramulator, read in bounded memory.

The format is known by the first request: `0xADDRESS READ|WRITE CYCLE` (hexadecimal with or without 0x; as in DRAMsim3
any word but WRITE, write, P_MEM_WR and BOFF is a read), `LD|ST ADDRESS` or `LD|ST ADDRESS CYCLE` (0x…, or decimal).
Blank lines, lines that begin with #, and a byte order mark are skipped.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pimloom.arch.compressed import file_size, read_blocks
from pimloom.arch.document import short
from pimloom.arch.error import UserError, one_line
from pimloom.arch.name_units import capacity
from pimloom.cycle_sim.memory.simulate import CHUNK, Chunk
from pimloom.systems.memory.lines import (
    AT,
    BEYOND,
    BEYOND_LINE,
    BIG_ADDRESS,
    BIG_CYCLE,
    DRAMSIM3,
    EARLIER,
    EARLIER_LINE,
    FILLED,
    FORM,
    LAST_CK,
    LAST_LINE,
    LIMIT,
    LINE,
    LONG,
    LONGEST_LINE,
    N_STATE,
    NO_REQUEST,
    TOO_FAR,
    UNHEARD,
    UNHEARD_LINE,
    UNKNOWN,
    WORDS,
    WRONG,
    parse,
)

EXPECTED = (
    "0xADDRESS READ|WRITE CYCLE or LD|ST 0xADDRESS",
    "0xADDRESS READ|WRITE CYCLE",
    "LD|ST 0xADDRESS",
    "LD|ST 0xADDRESS CYCLE",
)


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
    state, limits = (
        np.zeros(N_STATE, np.int64),
        np.array([-1 if limit_bytes is None else limit_bytes, wraps, ordered], np.int64),
    )
    arrays, place = _arrays(chunk), np.zeros((4, 2), np.int64)
    for data in _whole_lines(path, state, progress):
        state[AT] = 0
        while state[AT] < len(data):
            parse(np.frombuffer(data, np.uint8), *WORDS, limits, state, *arrays, place)
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
    rest, mark = b"", BOM_UTF8
    for block in read_blocks(path, progress):
        data, mark = (rest + block).removeprefix(mark), b""
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
        got = "binary data, neither gzip nor zstd" if "\ufffd" in line else f"'{one_line(short(line))}'"
        return f"{long}expected {EXPECTED[state[FORM]]}, got {got}"
    address = words[0 if state[FORM] == DRAMSIM3 else 1]
    if wrong == TOO_FAR:
        limit = int(limits[LIMIT])
        value = int(address, 16 if state[FORM] == DRAMSIM3 or address[:2] in ("0x", "0X") else 10)
        told = f"address {value:#x} is beyond the capacity of {capacity(limit)} ({limit:#x})"
        return f"{told}; a larger part or more channels hold it, the controllers of the tools take it modulo that"
    if wrong == BIG_ADDRESS:
        return f"expected an address below 2^63, got {short(address)}"
    if wrong == BIG_CYCLE:
        return f"expected a cycle below 2^59, got {short(words[2])}"
    last = f"cycle {state[LAST_CK]} of line {state[LAST_LINE]}"
    return f"cycle {int(words[2])} comes after {last}: times must not decrease"


def _remarks(state: np.ndarray, limits: np.ndarray) -> Iterator[str]:
    if n := int(state[BEYOND]):
        what = f"{n} address{'es lie' if n > 1 else ' lies'} beyond the capacity of {capacity(int(limits[LIMIT]))}"
        yield f"{what}, first in line {state[BEYOND_LINE]}; taken modulo the capacity"
    if n := int(state[UNHEARD]):
        what = f"{n} request{'s have words' if n > 1 else ' has a word'} that DRAMsim3 takes for a read"
        yield f"{what}, first in line {state[UNHEARD_LINE]}; WRITE, write, P_MEM_WR and BOFF are writes"
    if n := int(state[EARLIER]):
        what = f"{n} cycle{'s are' if n > 1 else ' is'} earlier than the one before"
        yield f"{what}, first in line {state[EARLIER_LINE]}; requests are served in the order of the file"
