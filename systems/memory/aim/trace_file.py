"""Host instructions of AiM as a file: one a line, words parted by spaces or commas, comments from # on.

    W MEM channel bank row        R GPR id        W CFR id value        AiM MAC_ABK opsize mask row

Numbers are decimal or 0x…; ISR_ may stand before the name of an instruction.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.aim import COMMANDS, END, N_INSTRUCTION, OP, ROW, TIMES
from pimloom.arch.compressed import read_blocks
from pimloom.arch.error import UserError
from pimloom.systems.memory.aim.instruction_line import Reader, Shape

LONGEST_LINE = 4096  # bytes
AF = COMMANDS.index("AF16")


class Program(NamedTuple):
    """rows: int64[instructions, N_INSTRUCTION], for the kernel. counts: instructions by name, `W MEM` or `MAC_ABK`;
    unread: lines behind the end; long: instructions of more columns than a row has."""

    rows: np.ndarray
    counts: Counter[str]
    unread: int
    long: int


def read_program(path: str | Path, shape: Shape, progress: Callable[[int], None] = lambda _: None) -> Program:
    """The instructions up to EOC. progress is told how many bytes have been read. Raises UserError."""
    return _program(str(path), _pieces(Path(path), progress), shape)


def lines_of(path: str | Path) -> Iterator[str]:
    """Lines of a program's file. Raises UserError."""
    return chain.from_iterable(_pieces(Path(path), lambda done: None))


def parse_program(text: str, shape: Shape, name: str = "the program") -> Program:
    """The same of a text."""
    return _program(name, [text.splitlines()], shape)


def _program(name: str, pieces: Iterable[list[str]], shape: Shape) -> Program:
    reader, said, before = Reader(shape), array("q"), 0
    for lines in pieces:
        said.extend(_places(reader, lines, name, before))
        before += len(lines)
    if not said:
        raise UserError(f"{name}: the program is empty, expected lines such as AiM MAC_ABK 64 0xffffffff 0")
    places = np.array(said, np.int64)
    ends = np.array([each == END for each in reader.names])[places]
    if not ends.any():
        raise UserError(f"{name}: the program ends without AiM EOC; add that line")
    n = int(np.argmax(ends)) + 1
    program, counts = _rows(reader, places[:n]), Counter[str]()
    for each, times in zip(reader.names, np.bincount(places[:n], minlength=len(reader.names)).tolist(), strict=True):
        counts[each] += times
    return Program(program, +counts, len(places) - n, int((program[:, TIMES] > shape.columns).sum()))


def _places(reader: Reader, lines: list[str], name: str, before: int) -> list[int]:
    """The places of a piece of a program, behind so many lines; each different line is looked at once."""
    found: dict[str, int] = dict.fromkeys(lines, -1)
    for line in found:
        place = reader.known.get(line)
        if place is None:
            try:
                place = reader.read(line)
            except UserError as error:
                raise UserError(f"{name}:{before + lines.index(line) + 1}: {error}") from None
        found[line] = place
    return [place for place in map(found.__getitem__, lines) if place >= 0]


def _rows(reader: Reader, places: np.ndarray) -> np.ndarray:
    """The rows of lines, by their places; AF has that of the function selected last."""
    rows = np.array(reader.rows, np.int64).reshape(-1, N_INSTRUCTION)[places]
    selected = np.array(reader.functions)[places]
    last = np.maximum.accumulate(np.where(selected >= 0, np.arange(len(places)), -1))
    of_function = rows[:, OP] == AF
    rows[of_function, ROW] += np.where(last >= 0, selected[last], 0)[of_function]
    return rows


def _pieces(path: Path, progress: Callable[[int], None]) -> Iterator[list[str]]:
    """Lines, many at a time."""
    rest = b""
    for block in read_blocks(path, progress):
        data = rest + block
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            yield whole.decode("utf-8", "replace").split("\n")
        if len(rest) > LONGEST_LINE:
            raise UserError(f"{path}: a line has more than {LONGEST_LINE} bytes; expected one instruction a line")
    if rest:
        yield [rest.decode("utf-8", "replace")]
