"""Host instructions of AiM as a file: one a line, words parted by spaces or commas, comments from # on.

    W MEM channel bank row        R GPR id        W CFR id value        AiM MAC_ABK opsize mask row

Numbers are decimal or 0x…; ISR_ may stand before the name of an instruction.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.aim import (
    BARRIERS,
    CFRS,
    COMMANDS,
    END,
    FUNCTION_CFR,
    FUNCTION_ROW,
    INSTRUCTIONS,
    N_INSTRUCTION,
    NOTHING,
    PREFIX,
    SYNC,
    TIMES,
    Instruction,
)
from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError, one_line
from pimloom.systems.memory.compressed import read_blocks

LONGEST_LINE = 4096  # bytes
NUMBER = re.compile("-?(0[xX])?(?(1)[0-9a-fA-F]|[0-9])+")
MOST_DIGITS = 40
MOST_COLUMNS = 1 << 20  # of an instruction; those beyond a row are warned of
ACCESS = {  # what `R` and `W` name, and the numbers behind it
    ("R", "MEM"): ("channel", "bank", "row"),
    ("W", "MEM"): ("channel", "bank", "row"),
    ("R", "GPR"): ("id",),
    ("W", "GPR"): ("id",),
    ("R", "CFR"): ("id", "value"),
    ("W", "CFR"): ("id", "value"),
}
NO_COMMAND = (NOTHING, 0, 0, -1, -1)


class Shape(NamedTuple):
    """What an instruction may name."""

    channels: int
    banks: int
    rows: int
    columns: int
    registers: int


class Program(NamedTuple):
    """rows: int64[instructions, N_INSTRUCTION], for the kernel. counts: instructions by name, `W MEM` or `MAC_ABK`;
    unread: lines behind the end; long: instructions of more columns than a row has."""

    rows: np.ndarray
    counts: Counter[str]
    unread: int
    long: int


def read_program(path: str | Path, shape: Shape, progress: Callable[[int], None] = lambda _: None) -> Program:
    """The instructions up to EOC. progress is told how many bytes have been read. Raises UserError."""
    return _program(str(path), _lines(Path(path), progress), shape)


def lines_of(path: str | Path) -> Iterator[str]:
    """Lines of a program's file. Raises UserError."""
    return _lines(Path(path), lambda done: None)


def instruction_words(line: str) -> list[str]:
    """Words of an instruction, without a comment; none of a blank line."""
    return line.partition("#")[0].replace(",", " ").split()


def parse_program(text: str, shape: Shape, name: str = "the program") -> Program:
    """The same of a text."""
    return _program(name, iter(text.splitlines()), shape)


@dataclass
class _Reader:
    """Lines to rows; equal lines are read once, as long as the activation function does not change."""

    shape: Shape
    function: int = 0
    known: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def read(self, line: str) -> tuple[str, tuple[int, ...]] | None:
        """Name and row of a line; None of a blank one. Raises UserError without its place."""
        found = self.known.get(line)
        if found is None:
            words = instruction_words(line)
            if not words:
                return None
            found = self._access(words) if words[0] in ("R", "W") else self._instruction(words)
            if words[:2] != ["W", "CFR"]:  # which changes what is read next
                self.known[line] = found
        return found

    def _access(self, words: list[str]) -> tuple[str, tuple[int, ...]]:
        name, at = " ".join(words[:2]), (words[0], words[1] if len(words) > 1 else "")
        if at not in ACCESS:
            raise UserError(f"expected MEM, GPR or CFR behind {words[0]}, got '{at[1]}'")
        numbers = _numbers(name, ACCESS[at], words[2:])
        if at[1] == "MEM":
            channel, bank, row = numbers
            self._check(name, channel=channel, bank=bank, row=row)
            mask = 1 << (self.shape.channels - 1 - channel)
            return name, (COMMANDS.index("RD" if words[0] == "R" else "WR"), 1, mask, bank, row)
        if at[1] == "GPR":
            self._check(name, gpr=numbers[0])
        if at[1] == "CFR" and numbers[0] not in CFRS:
            raise UserError(f"{name}: there is no register {numbers[0]}; expected {', '.join(map(str, CFRS))}")
        if at == ("W", "CFR"):
            most = CFRS[numbers[0]].most
            if not 0 <= numbers[1] <= most:
                raise UserError(f"{name} {numbers[0]}: expected a value from 0 to {most}, got {numbers[1]}")
            if numbers[0] == FUNCTION_CFR and numbers[1] != self.function:
                self.function = numbers[1]
                self.known.clear()  # of AF another row
        return name, NO_COMMAND

    def _instruction(self, words: list[str]) -> tuple[str, tuple[int, ...]]:
        if words[0] != "AiM":
            raise UserError(f"expected R, W or AiM, got '{one_line(short(words[0]))}'")
        if len(words) < 2:
            raise UserError(f"AiM: expected an instruction behind it: {', '.join(INSTRUCTIONS)}")
        name = words[1].removeprefix(PREFIX)
        if name not in INSTRUCTIONS:
            known = nearest(name, list(INSTRUCTIONS)) or f"; expected one of {', '.join(INSTRUCTIONS)}"
            raise UserError(f"unknown instruction '{one_line(short(words[1]))}'{known}")
        found = INSTRUCTIONS[name]
        numbers = _numbers(name, found.operands, words[2:])
        for key, number in zip(found.operands, numbers, strict=True):
            self._check(name, **{key: number})
        self._check_registers(name, found, numbers)
        return name, self._row(name, found, dict(zip(found.operands, numbers, strict=True)))

    def _row(self, name: str, found: Instruction, given: dict[str, int]) -> tuple[int, ...]:
        if name in BARRIERS:
            return (SYNC, 1, 0, -1, -1)
        if not found.command:
            return NO_COMMAND
        mask = given["mask"]
        if found.alone and mask & (mask - 1):
            raise UserError(f"{name}: expected a mask of one channel, got {mask:#x}")
        row = FUNCTION_ROW + self.function if name == "AF" else given.get("row", -1)
        return COMMANDS.index(found.command), given.get("opsize", 1), mask, given.get("bank", -1), row

    def _check_registers(self, name: str, found: Instruction, numbers: list[int]) -> None:
        """Raise UserError unless all registers that it takes are there: one a column, or one for each channel."""
        given = dict(zip(found.operands, numbers, strict=True))
        taken = given.get("opsize", given.get("mask", 1).bit_count())
        for key, first in zip(found.operands, numbers, strict=True):
            if key == "gpr" and first + taken > self.shape.registers:
                said = f"registers below {self.shape.registers}, got {first} to {first + taken - 1}"
                raise UserError(f"{name}: expected {said}")

    def _check(self, name: str, **given: int) -> None:
        """Raise UserError for a channel, mask, bank, row or number of columns that the device does not have."""
        shape = self.shape
        ends = {"channel": shape.channels, "bank": shape.banks, "row": shape.rows, "gpr": shape.registers}
        for key, value in given.items():
            if key == "mask" and not 0 < value < 1 << shape.channels:
                said = f"a mask of some of {shape.channels} channels, 0x1 to {(1 << shape.channels) - 1:#x}"
                raise UserError(f"{name}: expected {said}, got {value:#x}")
            if key == "opsize" and not 1 <= value <= MOST_COLUMNS:
                raise UserError(f"{name}: expected an opsize from 1 to {MOST_COLUMNS}, got {value}")
            if key in ends and not 0 <= value < ends[key]:
                raise UserError(f"{name}: expected a {key} from 0 to {ends[key] - 1}, got {value}")


def _program(name: str, lines: Iterator[str], shape: Shape) -> Program:
    reader, rows, counts = _Reader(shape), list[tuple[int, ...]](), Counter[str]()
    ended, unread = False, 0
    for number, line in enumerate(lines, 1):
        try:
            found = reader.read(line)
        except UserError as error:
            raise UserError(f"{name}:{number}: {error}") from None
        if found is None:
            continue
        if ended:
            unread += 1
            continue
        counts[found[0]] += 1
        rows.append(found[1])
        ended = found[0] == END
    if not rows:
        raise UserError(f"{name}: the program is empty, expected lines such as AiM MAC_ABK 64 0xffffffff 0")
    if not ended:
        raise UserError(f"{name}: the program ends without AiM EOC; add that line")
    program = np.array(rows, np.int64).reshape(-1, N_INSTRUCTION)
    return Program(program, counts, unread, int((program[:, TIMES] > shape.columns).sum()))


def _numbers(name: str, expected: tuple[str, ...], words: list[str]) -> list[int]:
    if len(words) != len(expected):
        wanted = f"operands {' '.join(expected)}" if expected else "no operands"
        raise UserError(f"{name}: expected {wanted}, got {len(words)}{_told(words)}")
    return [_number(name, key, word) for key, word in zip(expected, words, strict=True)]


def _told(words: list[str]) -> str:
    return f": {one_line(short(' '.join(words)))}" if words else ""


def _number(name: str, key: str, word: str) -> int:
    found = NUMBER.fullmatch(word)
    if not found:
        raise UserError(f"{name}: expected a number for {key}, got '{one_line(short(word))}'")
    if len(word) > MOST_DIGITS:
        raise UserError(f"{name}: expected a number of at most {MOST_DIGITS} digits for {key}, got {short(word)}")
    return int(word, 16 if found[1] else 10)


def _lines(path: Path, progress: Callable[[int], None]) -> Iterator[str]:
    rest = b""
    for block in read_blocks(path, progress):
        data = rest + block
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            yield from whole.decode("utf-8", "replace").split("\n")
        if len(rest) > LONGEST_LINE:
            raise UserError(f"{path}: a line has more than {LONGEST_LINE} bytes; expected one instruction a line")
    if rest:
        yield rest.decode("utf-8", "replace")
