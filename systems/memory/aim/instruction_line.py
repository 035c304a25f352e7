"""Host instructions of AiM: what a line says, and the row of integers that the kernel reads."""

import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import contains, itemgetter
from typing import NamedTuple, NoReturn

from pimloom.arch.aim import (
    BANK,
    BARRIERS,
    CFRS,
    COMMANDS,
    FUNCTION_CFR,
    FUNCTION_ROW,
    INSTRUCTIONS,
    MASK,
    N_INSTRUCTION,
    NOTHING,
    PREFIX,
    ROW,
    SYNC,
    TIMES,
    Instruction,
)
from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError, one_line

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
FIELDS = {TIMES: "opsize", MASK: "mask", BANK: "bank", ROW: "row"}  # of a row, and the operands that they are


class Shape(NamedTuple):
    """What an instruction may name."""

    channels: int
    banks: int
    rows: int
    columns: int
    registers: int


def instruction_words(line: str) -> list[str]:
    """Words of an instruction, without a comment; none of a blank line."""
    if "#" in line:
        line = line.partition("#")[0]
    return (line.replace(",", " ") if "," in line else line).split()


class _Form(NamedTuple):
    """How an instruction is read. allowed: the numbers of each operand; row: takes its row from its numbers with the
    constants behind them."""

    name: str
    found: Instruction
    allowed: tuple[range, ...]
    takes_registers: bool
    constants: tuple[int, ...]
    row: Callable[[Sequence[int]], tuple[int, ...]]


def _form(name: str, found: Instruction, allowed: Mapping[str, range]) -> _Form:
    """Of AF the row is that of function 0."""
    operands, fields = found.operands, FIELDS if found.command else {}
    constants = NO_COMMAND
    if name in BARRIERS:
        constants = (SYNC, 1, 0, -1, -1)
    elif found.command:
        constants = (COMMANDS.index(found.command), 1, 0, -1, FUNCTION_ROW if name == "AF" else -1)
    behind = len(operands)
    places = [operands.index(fields[n]) if fields.get(n) in operands else behind + n for n in range(N_INSTRUCTION)]
    ranges = tuple(allowed[key] for key in operands)
    return _Form(name, found, ranges, "gpr" in operands, constants, itemgetter(*places))


def _refuse(words: list[str]) -> NoReturn:
    """Raise UserError for what is no instruction."""
    if words[0] != "AiM":
        raise UserError(f"expected R, W or AiM, got '{one_line(short(words[0]))}'")
    if len(words) < 2:
        raise UserError(f"AiM: expected an instruction behind it: {', '.join(INSTRUCTIONS)}")
    known = nearest(words[1].removeprefix(PREFIX), list(INSTRUCTIONS))
    remedy = known or f"; expected one of {', '.join(INSTRUCTIONS)}"
    raise UserError(f"unknown instruction '{one_line(short(words[1]))}'{remedy}")


@dataclass
class Reader:
    """What each different line says, in the order they come: name, row, and the function that it selects, or -1."""

    shape: Shape
    names: list[str] = field(default_factory=list)
    rows: "array[int]" = field(default_factory=partial(array, "q"))  # [lines, N_INSTRUCTION]
    functions: list[int] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)  # no comments: to know them would take memory for nothing

    def __post_init__(self) -> None:
        shape = self.shape
        ends = {"channel": shape.channels, "bank": shape.banks, "row": shape.rows, "gpr": shape.registers}
        self.allowed = {key: range(end) for key, end in ends.items()}
        self.allowed |= {"mask": range(1, 1 << shape.channels), "opsize": range(1, MOST_COLUMNS + 1)}
        self.forms = {name: _form(name, found, self.allowed) for name, found in INSTRUCTIONS.items()}
        self.forms |= {PREFIX + name: form for name, form in self.forms.items()}

    def read(self, line: str) -> int:
        """The place of a line that was not read before; -1 of a blank one. Raises UserError without its place."""
        words = instruction_words(line)
        if not words:
            return -1
        name, row, function = self._access(words) if words[0] in ("R", "W") else self._instruction(words)
        self.names.append(name)
        self.rows.extend(row)
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
        form = self.forms.get(words[1]) if words[0] == "AiM" and len(words) > 1 else None
        if form is None:
            _refuse(words)
        name, operands = form.name, form.found.operands
        numbers = _numbers(name, operands, words[2:])
        if not all(map(contains, form.allowed, numbers)):
            self._check(name, operands, numbers)
        if form.takes_registers:
            self._check_registers(name, operands, numbers)
        row = form.row((*numbers, *form.constants))
        if form.found.alone and row[MASK] & (row[MASK] - 1):
            raise UserError(f"{name}: expected a mask of one channel, got {row[MASK]:#x}")
        return name, row, -1

    def _check_registers(self, name: str, operands: Sequence[str], numbers: list[int]) -> None:
        """Raise UserError unless all registers that it takes are there: one a column, or one for each channel."""
        by_mask = "opsize" not in operands
        taken = numbers[operands.index("mask")].bit_count() if by_mask else numbers[operands.index("opsize")]
        for key, first in zip(operands, numbers, strict=True):
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
    digits = "".join(words)
    if len(words) == len(expected) and len(digits) <= MOST_DIGITS and digits.isascii() and digits.isdigit():
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
