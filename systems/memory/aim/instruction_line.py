"""Host instructions of AiM: what a line says, and the row of integers that the kernel reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pimloom.arch.aim import (
    BARRIERS,
    CFRS,
    COMMANDS,
    FUNCTION_CFR,
    FUNCTION_ROW,
    INSTRUCTIONS,
    NOTHING,
    PREFIX,
    SYNC,
    Instruction,
)
from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError, one_line

NUMBER = re.compile("-?(0[xX])?(?(1)[0-9a-fA-F]|[0-9])+")
MOST_DIGITS = 40
PLAIN = re.compile(f"[0-9]{{1,{MOST_DIGITS}}}").fullmatch
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


def instruction_words(line: str) -> list[str]:
    """Words of an instruction, without a comment; none of a blank line."""
    return line.partition("#")[0].replace(",", " ").split()


@dataclass
class Reader:
    """What each different line says, in the order they come: name, row, and the function that it selects, or -1."""

    shape: Shape
    names: list[str] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)  # no comments: to know them would take memory for nothing

    def __post_init__(self) -> None:
        shape = self.shape
        ends = {"channel": shape.channels, "bank": shape.banks, "row": shape.rows, "gpr": shape.registers}
        self.allowed = {key: range(end) for key, end in ends.items()}
        self.allowed |= {"mask": range(1, 1 << shape.channels), "opsize": range(1, MOST_COLUMNS + 1)}

    def read(self, line: str) -> int:
        """The place of a line that was not read before; -1 of a blank one. Raises UserError without its place."""
        words = instruction_words(line)
        if not words:
            return -1
        name, row, function = self._access(words) if words[0] in ("R", "W") else self._instruction(words)
        self.names.append(name)
        self.rows.append(row)
        self.functions.append(function)
        self.known[line] = len(self.names) - 1
        return self.known[line]

    def _access(self, words: list[str]) -> tuple[str, tuple[int, ...], int]:
        name, at = " ".join(words[:2]), (words[0], words[1] if len(words) > 1 else "")
        if at not in ACCESS:
            raise UserError(f"expected MEM, GPR or CFR behind {words[0]}, got '{at[1]}'")
        numbers = _numbers(name, ACCESS[at], words[2:])
        if at[1] == "MEM":
            channel, bank, row = numbers
            self._check(name, ("channel", "bank", "row"), numbers)
            mask = 1 << (self.shape.channels - 1 - channel)
            return name, (COMMANDS.index("RD" if words[0] == "R" else "WR"), 1, mask, bank, row), -1
        if at[1] == "GPR":
            self._check(name, ("gpr",), numbers)
        if at[1] == "CFR" and numbers[0] not in CFRS:
            raise UserError(f"{name}: there is no register {numbers[0]}; expected {', '.join(map(str, CFRS))}")
        if at == ("W", "CFR"):
            most = CFRS[numbers[0]].most
            if not 0 <= numbers[1] <= most:
                raise UserError(f"{name} {numbers[0]}: expected a value from 0 to {most}, got {numbers[1]}")
            return name, NO_COMMAND, numbers[1] if numbers[0] == FUNCTION_CFR else -1
        return name, NO_COMMAND, -1

    def _instruction(self, words: list[str]) -> tuple[str, tuple[int, ...], int]:
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
        self._check(name, found.operands, numbers)
        given = dict(zip(found.operands, numbers, strict=True))
        self._check_registers(name, found, numbers, given)
        return name, self._row(name, found, given), -1

    def _row(self, name: str, found: Instruction, given: dict[str, int]) -> tuple[int, ...]:
        """Of AF the row of function 0."""
        if name in BARRIERS:
            return (SYNC, 1, 0, -1, -1)
        if not found.command:
            return NO_COMMAND
        mask = given["mask"]
        if found.alone and mask & (mask - 1):
            raise UserError(f"{name}: expected a mask of one channel, got {mask:#x}")
        row = FUNCTION_ROW if name == "AF" else given.get("row", -1)
        return COMMANDS.index(found.command), given.get("opsize", 1), mask, given.get("bank", -1), row

    def _check_registers(self, name: str, found: Instruction, numbers: list[int], given: dict[str, int]) -> None:
        """Raise UserError unless all registers that it takes are there: one a column, or one for each channel."""
        taken = given.get("opsize", given.get("mask", 1).bit_count())
        for key, first in zip(found.operands, numbers, strict=True):
            if key == "gpr" and first + taken > self.shape.registers:
                said = f"registers below {self.shape.registers}, got {first} to {first + taken - 1}"
                raise UserError(f"{name}: expected {said}")

    def _check(self, name: str, keys: Sequence[str], numbers: list[int]) -> None:
        """Raise UserError for a channel, mask, bank, row or number of columns that the device does not have."""
        for key, value in zip(keys, numbers, strict=True):
            if value in self.allowed[key]:
                continue
            if key == "mask":
                most = (1 << self.shape.channels) - 1
                said = f"a mask of some of {self.shape.channels} channels, 0x1 to {most:#x}, got {value:#x}"
                raise UserError(f"{name}: expected {said}")
            first, last = self.allowed[key][0], self.allowed[key][-1]
            raise UserError(
                f"{name}: expected {'an' if key == 'opsize' else 'a'} {key} from {first} to {last}, got {value}"
            )


def _numbers(name: str, expected: tuple[str, ...], words: list[str]) -> list[int]:
    if len(words) == len(expected) and all(map(PLAIN, words)):
        return list(map(int, words))
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
