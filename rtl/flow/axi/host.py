"""What a host does: a command stream as writes of registers, and writes that do nothing or are refused between them."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.part import Part
from pimloom.arch.table import Table
from pimloom.rtl.controller.moments import NEVER_SENT
from pimloom.rtl.controller.registers import PLACES, READ_ONLY, Register
from pimloom.rtl.flow.axi.told import OpenRows, Told, tell
from pimloom.rtl.flow.cosim import Case
from pimloom.rtl.flow.stimulus import draw_case, engine, shrink

ALL, BYTES, WORD = 0xF, 4, 2**32
ODD = 0.08  # probability of a write that does nothing, or is refused, before a command
PACES = (1.0, 0.7, 0.3)  # of a channel
OF_GEMV = ("nCOMP", "nGEMV")  # clocks of the units beside the banks
OFTEN = 8  # refreshes fall due so many tRFC apart, where they come often


class Write(NamedTuple):
    """command: number of the command of the stream that it brings, or -1."""

    address: int
    data: int
    strobe: int = ALL
    command: int = -1


class Script(NamedTuple):
    """A stream of the engine's table, what the core is told instead, the writes that bring it, addresses of reads
    beside them, the probabilities of `benches/axi.py`, and whether the host writes ahead."""

    case: Case
    told: Told
    writes: list[Write]
    reads: list[int]
    paces: tuple[float, ...]
    eager: bool


def told_of(part: Part, banks: tuple[int, int], often: bool, slow: int = 1) -> Told:
    """The part's tables on fewer banks; often: with refreshes close to each other. slow: rules wait so many times as
    long and one CK longer, so that they decide, and not the host."""
    clocks = {name: part.cycles(name) for name in part.timing}
    if slow > 1:
        clocks |= {name: slow * ck + 1 for name, ck in clocks.items() if name not in OF_GEMV}
    if often:
        clocks["tREFI"] = min(clocks["tREFI"], OFTEN * clocks["tRFC"])
    return tell(part, shrink(part, *banks), clocks)


def often_refreshed(part: Part, banks: tuple[int, int]) -> Table:
    """The part's table on fewer banks, with refreshes close to each other."""
    return told_of(part, banks, often=True).part


def draw_scripts(
    part: Part, banks: tuple[int, int], commands: int, seed: int, often: bool, slow: int = 1
) -> Iterator[Script]:
    """Scripts that hold `commands` commands; all share one table, as `told_of` has it."""
    told, geometry = told_of(part, banks, often, slow), shrink(part, *banks)
    left, number = commands, 0
    while left > 0:
        rng = Random(f"axi {part.standard} {part.pim} {seed} {often} {number}")
        case = draw_case(rng, told.table, geometry, 1, number % len(told.table.rules.wait))
        stream = told.begun(case.streams[0])
        stream["release"] = 0
        case = Case(told.table, [stream])
        number += 1
        if len(stream) and engine(case).end == "done":
            left -= len(stream)
            yield draw_script(rng, case, told, number % 3 == 0)


def draw_script(rng: Random, case: Case, told: Told, eager: bool) -> Script:
    """The writes of a stream, and reads of anything."""
    writer = _Writer(rng, told)
    for number, row in enumerate(case.streams[0]):
        writer.bring(number, row)
    reads = [rng.choice((4 * rng.choice(list(Register)), rng.randrange(96))) for _ in range(2 * len(writer.writes))]
    paces = tuple(rng.choice(PACES) for _ in range(5)) if rng.random() < 0.7 else (1.0,) * 5
    return Script(case, told, writer.writes, reads, paces, eager)


class _Writer:
    """Keeps in mind what stands in the registers."""

    def __init__(self, rng: Random, told: Told) -> None:
        self.rng, self.told, self.table, self.writes = rng, told, told.part, list[Write]()
        self.holds = {Register.PLACE: 0, Register.ROW: 0, Register.COLUMN: 0, Register.COUNT: 1}
        self.rows, self.moments = OpenRows(told.table), 40 * told.part.opcodes(NEVER_SENT)

    def bring(self, number: int, row: Any) -> None:
        """Write the registers of one command of the stream, with odd accesses in between."""
        if self.rng.random() < ODD:
            self.odd()
        cmd = int(row["cmd"])
        if self.rng.random() < ODD:
            self.unfit(row)
        place = sum(int(row[name]) << 8 * i for i, name in enumerate(PLACES))
        wanted = {Register.PLACE: place, Register.ROW: int(row["row"]), Register.COLUMN: int(row["col"])}
        if self.told.counts[cmd]:
            wanted[Register.COUNT] = self.told.counts[cmd]
        for register, value in self.rng.sample(list(wanted.items()), len(wanted)):
            if value != self.holds[register] or self.rng.random() < ODD:
                self.put(register, value)
        self.command(self.told.opcode[cmd], number)
        self.rows.move(row)

    def unfit(self, row: Any) -> None:
        """The command's place with an opcode that can not issue there: its rows are not as it needs them."""
        row = row.copy()
        wrong = []
        for row["cmd"] in range(len(self.told.opcode)):
            if not self.rows.fits(row):
                wrong.append(self.told.opcode[int(row["cmd"])])
        if not wrong:
            return
        place = sum(int(row[name]) << 8 * i for i, name in enumerate(PLACES))
        for register, value in ((Register.PLACE, place), (Register.ROW, int(row["row"]))):
            self.put(register, value)
        self.put(Register.COLUMN, 0)
        self.command(self.rng.choice(wrong))

    def command(self, opcode: int, number: int = -1) -> None:
        junk = self.rng.randrange(WORD >> 8) << 8
        self.writes.append(Write(4 * Register.COMMAND, junk | opcode, 1 | self.rng.randrange(16), number))

    def put(self, register: Register, value: int) -> None:
        """A word as a whole, or in two parts with anything in the bytes that do not count."""
        self.holds[register] = value
        some = self.rng.randrange(1, ALL) if self.rng.random() < 0.3 else ALL
        for strobe in (some, ALL & ~some):
            if strobe:
                mask = sum(0xFF << 8 * i for i in range(BYTES) if strobe >> i & 1)
                data = value & mask | self.rng.randrange(WORD) & ~mask
                self.writes.append(Write(4 * register + self.rng.randrange(4), data, strobe))

    def odd(self) -> None:
        """Outside the map, read only, without a strobe, no such command, place or count, interrupts cleared."""
        rng, data = self.rng, self.rng.randrange(WORD)
        kind = rng.randrange(6)
        if kind == 0:
            self.writes.append(Write(rng.randrange(4 * len(Register), 4096), data, rng.randrange(16)))
        elif kind == 1:
            self.writes.append(Write(4 * rng.choice(READ_ONLY), data, rng.randrange(16)))
        elif kind == 2:
            self.writes.append(Write(4 * Register.COMMAND, data, rng.randrange(8) << 1))
        elif kind == 3:
            self.command(rng.choice((*range(len(self.table.names), 256), *self.moments)))
        elif kind == 4:
            wrong = {
                Register.ROW: self.table.rules.rows,
                Register.COLUMN: self.table.rules.columns,
                Register.PLACE: 200,
            }
            register, least = rng.choice(list(wrong.items()))
            self.put(register, least + rng.randrange(16))
            self.command(rng.randrange(len(self.table.names)))
        else:
            at = rng.choice((Register.INTERRUPT, Register.ENABLE))
            self.writes.append(Write(4 * at, data, rng.randrange(16)))


def given(scripts: list[Script]) -> dict[str, np.ndarray]:
    """All scripts as `benches/axi.py` reads them, but for what is the block's."""
    rows = [(w.address, w.data, w.strobe, w.command >= 0) for script in scripts for w in script.writes]
    return {
        "writes": np.array(rows, np.int64),
        "reads": np.array([address for script in scripts for address in script.reads], np.int64),
        "sizes": np.array([(len(script.writes), len(script.reads)) for script in scripts], np.int64),
        "paces": np.array([script.paces for script in scripts]),
        "eager": np.array([script.eager for script in scripts]),
    }
