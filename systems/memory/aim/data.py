"""A program of host instructions on numbers: what the host writes goes through registers, buffers and banks, and what
it reads comes out. Clocks are not asked here, and change nothing: instructions take effect in their order.

What AiM's text leaves open is ours, after the authors' own programs [secondary AIM, test/all_isr.csv]: an instruction
for several channels takes a register for each, from its gpr on, the lowest channel first, but WR_GB, whose registers
are entries of the buffer, gives all channels the same; EWADD adds to the registers that it names first. [design] MACs
and copies begin with column 0; reads of one kind (or writes) that follow one another take the columns of a row in turn,
from the first on, and WR_ABK elements, one of each bank.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from pimloom.arch.aim import END, FUNCTION_CFR, INSTRUCTIONS, PREFIX
from pimloom.arch.document import short
from pimloom.arch.error import UserError, one_line
from pimloom.arch.inputs import open_input
from pimloom.arch.units import BITS_PER_BYTE, GIB
from pimloom.cycle_sim.aim.banks import BF16, AimBanks
from pimloom.cycle_sim.asic_math import Array, add, to_bf16
from pimloom.cycle_sim.pim_math import LANES
from pimloom.systems.memory.aim.instruction_line import Shape, instruction_words
from pimloom.systems.memory.aim.trace_file import lines_of

BANKS = 16  # values of a register, one for each
SOURCE_CFR, GROUPS_CFR = 0, 1
STARTING_CFRS = {SOURCE_CFR: 0, GROUPS_CFR: 1, FUNCTION_CFR: 0}  # [secondary AIM]


class AimData:
    """The device. banks: see `AimBanks`; registers: bfloat16[registers, LANES]; cfrs: by number."""

    def __init__(self, shape: Shape, access_bits: int = 256) -> None:
        if shape.banks != BANKS or access_bits != LANES * 2 * BITS_PER_BYTE:
            raise UserError(
                f"data: expected a device of {BANKS} banks a channel and columns of 256 bits, got {shape.banks} and "
                f"{access_bits}"
            )
        self.shape, self.banks = shape, AimBanks(shape.channels, shape.banks, shape.columns)
        self.registers, self.cfrs = np.zeros((shape.registers, LANES), BF16), dict(STARTING_CFRS)
        self._last, self._taken = "", Counter[tuple[int, int, int]]()

    def run(self, lines: Iterable[str], host: Array) -> Array:
        """Carry out the lines of a program that `parse_program` takes, up to EOC.

        host: numbers[n, LANES], what W MEM and W GPR write, in order. Returns float32[m, LANES], what R MEM and R GPR
        read, in order. Raises UserError, with the line.
        """
        given, read = iter(np.asarray(host, np.float32)), list[Array]()
        for number, line in enumerate(lines, 1):
            words = instruction_words(line)
            if words and (name := words[1].removeprefix(PREFIX)) == END:
                break
            try:
                if words and words[0] == "AiM":
                    self._instruction(name, [int(word, 0) for word in words[2:]])
                elif words:
                    self._access(words, given, read)
            except UserError as error:
                raise UserError(f"line {number}: {error}") from None
        if (left := sum(1 for _ in given)) > 0:
            raise UserError(f"data: {left} vectors are left; expected one for each W MEM and W GPR")
        return np.array(read, np.float32).reshape(-1, LANES)

    def _access(self, words: list[str], given: Iterator[Array], read: list[Array]) -> None:
        where, numbers = words[1], [int(word, 0) for word in words[2:]]
        if where == "CFR":
            if words[0] == "W":
                self.cfrs[numbers[0]] = numbers[1]
            return
        if where == "GPR":
            cell = self._registers(numbers[0], 1)
        else:
            channel, bank, row = numbers
            cell = self._column(words[0], channel, bank, row)[None]
        if words[0] == "R":
            read.append(cell[0].astype(np.float32))
        elif (vector := next(given, None)) is None:
            raise UserError(f"{' '.join(words[:2])}: no vector is left in the data; expected one for each")
        else:
            cell[:] = to_bf16(vector)

    def _instruction(self, name: str, numbers: list[int]) -> None:
        operands = INSTRUCTIONS[name].operands
        n = dict(zip(operands, numbers, strict=True))
        if (times := n.get("opsize", 1)) > self.shape.columns and name != "EWADD":
            raise UserError(f"{name}: expected at most the {self.shape.columns} columns of a row, got {times}")
        channels = self.shape.channels
        at = [c for c in range(channels) if n.get("mask", 0) >> (channels - 1 - c) & 1]
        banks, beside = self.banks, self.cfrs[SOURCE_CFR] == 1
        match name:
            case "WR_SBK" | "RD_SBK":
                for channel, register in zip(at, self._registers(n["gpr"], len(at)), strict=True):
                    cell = self._column(name, channel, n["bank"], n["row"])
                    (cell if name == "WR_SBK" else register)[:] = register if name == "WR_SBK" else cell
            case "WR_ABK":
                column, lane = divmod(self._next(name, at[0], -1, n["row"]), LANES)
                banks.row(n["row"])[at[0], :, column % self.shape.columns, lane] = self._registers(n["gpr"], 1)[0]
            case "WR_GB":
                banks.load(at, self._registers(n["gpr"], times)[None])
            case "WR_BIAS":
                banks.set(at, self._registers(n["gpr"], len(at)))
            case "RD_MAC" | "RD_AF":
                made = banks.results(at) if name == "RD_MAC" else banks.function_results(at)
                self._registers(n["gpr"], len(at))[:] = made
            case "MAC_ABK":
                banks.multiply(at, n["row"], times, beside=beside)
            case "MAC_SBK":
                banks.multiply_bank(at, n["bank"], n["row"], times, beside=beside)
            case "EWMUL":
                banks.products(at, n["row"], times, every=self.cfrs[GROUPS_CFR] == 1)
            case "COPY_BKGB":
                banks.copy_out(at, n["bank"], n["row"], times)
            case "COPY_GBBK":
                banks.copy_back(at, n["bank"], n["row"], times)
            case "AF":
                if (function := self.cfrs[FUNCTION_CFR]) not in banks.functions:
                    raise UserError(f"AF: function {function} has no table; expected CFR 2 to be 0, the sigmoid")
                banks.apply(at, function)
            case "EWADD":
                into, other = (self._registers(first, times) for first in numbers[1:])
                into[:] = to_bf16(add(into.astype(np.float32), other.astype(np.float32)))

    def _registers(self, first: int, n: int) -> Array:
        if first + n > len(self.registers):
            raise UserError(f"expected registers below {len(self.registers)}, got {first} to {first + n - 1}")
        return self.registers[first : first + n]

    def _column(self, kind: str, channel: int, bank: int, row: int) -> Array:
        column = self._next(kind, channel, bank, row) % self.shape.columns
        return self.banks.row(row)[channel, bank, column]

    def _next(self, kind: str, channel: int, bank: int, row: int) -> int:
        """How often an access of this kind has come to a place without one of another kind in between."""
        if kind != self._last:
            self._last, self._taken = kind, Counter()
        self._taken[channel, bank, row] += 1
        return self._taken[channel, bank, row] - 1


def run_data(program: Path, shape: Shape, access_bits: int, data: Path) -> Array:
    """The vectors that a program reads, of those in the .npy file `data`. Raises UserError."""
    host = _host(data)
    with np.errstate(all="ignore"):
        try:
            return AimData(shape, access_bits).run(lines_of(program), host)
        except UserError as error:
            place = program if str(error).startswith("line") else f"--data {data}"
            raise UserError(f"{place}: {error}".replace(": line ", ":", 1)) from None


def _host(data: Path) -> Array:
    """The numbers of a .npy file. Its header must fit the file, and nothing is unpickled. Raises UserError."""
    where, said = f"--data {data}", f"expected a .npy file of numbers[n, {LANES}], one row for each W"
    try:
        with open_input(data) as file:
            shape, columns_first, dtype = _header(file)
            if len(shape) != 2 or shape[1] != LANES or dtype.kind not in "fiu":
                shown = f"{dtype}[{', '.join(map(str, shape))}]"
                raise UserError(f"{data}: its header says {one_line(short(shown))}; {said}")
            size = shape[0] * LANES * dtype.itemsize
            if not 0 <= size <= GIB:
                most = GIB // (LANES * dtype.itemsize)
                raise UserError(f"{data}: its header says {shape[0]} rows; expected 0 to {most}")
            content = file.read(size + 1)
    except UserError as error:
        raise UserError(f"--data {error}" + (f"; {said}" if said not in str(error) else "")) from None
    if len(content) != size:
        there = "more than that" if len(content) > size else f"{len(content)}"
        raise UserError(f"{where}: its header says {size} bytes of {dtype}, there are {there}; {said}")
    order: Literal["F", "C"] = "F" if columns_first else "C"
    return np.frombuffer(content, dtype).reshape(shape, order=order)


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type from the header of a .npy file. Raises UserError."""
    form = np.lib.format
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a header that Python 2 wrote
            readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
            return readers[form.read_magic(file)](file)
    except Exception:  # whatever is wrong with what stands there, numpy's reader has an exception of its own for it
        raise UserError(f"{file.name}: has no header of a .npy file") from None
