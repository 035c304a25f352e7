"""The words a DRAM standard is written in: levels, row states, commands, rules, and the command stream."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

POSTPONED_MAX = 8  # JEDEC JESD79-4 4.26 and JESD250, [recalled] JESD209-5, JESD235, JESD238: REF commands
REFRESH_SOONER = "shorten what delays it, lengthen tREFI, or turn refresh off"


class Level(IntEnum):
    """Where a command acts or a rule counts, outermost first."""

    CHANNEL = 0
    PSEUDO_CHANNEL = 1
    RANK = 2
    BANK_GROUP = 3
    BANK = 4


class Row(IntEnum):
    """What a command needs of the banks in its scope, or leaves behind."""

    ANY = 0  # needs nothing; leaves them as they were
    OPEN = 1  # needs the command's row open; leaves it open
    CLOSED = 2  # needs, or leaves, no row open


class Role(StrEnum):
    """What a command does with rows and data: mappers, energy, checks and gates find it by this, not by its name."""

    ACTIVATE = "opens a row"
    PRECHARGE = "closes rows"
    READ = "reads a column to the pins"
    WRITE = "writes a column from the pins"
    REFRESH = "refreshes"
    SLEEP = "enters self-refresh"
    WAKE = "leaves self-refresh"
    LOAD = "loads the next entry of the vector buffer from the pins"
    COPY = "copies a row into the vector buffer"
    COPY_BACK = "copies an entry of the vector buffer into a column"
    MULTIPLY = "multiplies a column with the next entry of the vector buffer and accumulates"
    RESULTS = "reads the accumulators to the pins"
    BIAS = "writes the accumulators from the pins"
    SCATTER = "writes a value of a burst to each bank, all at one place"
    ELEMENTWISE = "multiplies a column of one bank with that of another, element by element"
    FUNCTION = "applies an activation function to the accumulators"
    MOVE = "moves values between the vector buffers and the buffer die"
    GEMV = "multiplies several times, then reads the accumulators to the pins"
    ANNOUNCE = "announces others"
    MODE = "changes the mode of the part"
    FIRST_MULTIPLY = "is the moment of the first multiplication of a result, which nobody issues"
    LAST_MULTIPLY = "is the moment when the multiplications of a GEMV end, which nobody issues"


SENDS = frozenset({Role.WRITE, Role.LOAD, Role.BIAS, Role.SCATTER})  # a burst comes with the command
RETURNS = frozenset({Role.READ, Role.RESULTS, Role.GEMV})  # a burst goes back
ON_THE_PINS = SENDS | RETURNS
CAUSES: Mapping[Role, str] = MappingProxyType(
    {
        Role.ACTIVATE: "activate",
        Role.READ: "read",
        Role.WRITE: "write",
        Role.REFRESH: "refresh",
        Role.MULTIPLY: "read",
        Role.SCATTER: "write",
    }
)
ACCESSES = frozenset({Role.READ, Role.WRITE, Role.SCATTER, Role.MULTIPLY})  # a column of an open row, hit or miss


class Command(NamedTuple):
    """One command of a standard.

    `done` is the time from issue to the end of its effect, as a sum of timing names (`"nCL + nBL"`).
    Commands on different buses may issue in the same clock; on one bus, one command a clock.
    `buffer`: the row buffer of a bank that it needs and leaves so. `charged_to`: an energy cause other than that of its
    role. `repeats`: a command that this one stands for `count` times, counted and charged beside it.
    """

    name: str
    role: Role
    scope: Level
    needs: Row
    leaves: Row
    done: str
    meaning: str
    bus: str = "command"
    buffer: int = 0
    charged_to: str = ""
    repeats: "Command | None" = None

    @property
    def cause(self) -> str:
        """What its energy is charged to; empty if it has none of its own."""
        return self.charged_to or CAUSES.get(self.role, "")


class Rule(NamedTuple):
    """`before` waits `wait` clocks after the `window`-th latest of the `after` commands at one node of `level`.

    `sibling`: it waits at the other nodes of `level` under the same parent instead (RD of one rank, RD of another).
    """

    level: Level
    after: tuple[str, ...]
    before: tuple[str, ...]
    wait: str
    window: int = 1
    sibling: bool = False

    def __str__(self) -> str:
        """As a person would say it.

        >>> str(Rule(Level.BANK_GROUP, ("RD",), ("WR", "WRA"), "nRTW"))
        'RD → WR WRA, same bank group: nRTW'
        """
        nth = f", {self.window}th latest" if self.window > 1 else ""
        which, level = "other" if self.sibling else "same", self.level.name.lower().replace("_", " ")
        return f"{' '.join(self.after)} → {' '.join(self.before)}, {which} {level}{nth}: {self.wait}"


class Standard(NamedTuple):
    """A DRAM standard, or the rows a PIM instruction set appends to one.

    `optional`: timings that a part may leave out; the commands and rules that name them are left out with them.
    `postponed`: REFab that may be postponed; of REFpb as many times the banks of a rank.
    """

    name: str
    timings: dict[str, str]  # name -> meaning
    commands: tuple[Command, ...]
    rules: tuple[Rule, ...]
    unmodelled: tuple[str, ...]  # rules of the standard that are left out, each with its reason
    refresh: str = ""
    optional: Mapping[str, str] = MappingProxyType({})  # name -> meaning
    postponed: int = POSTPONED_MAX


STREAM = np.dtype(
    [
        ("cmd", np.int16),
        ("pch", np.int16),
        ("rank", np.int16),
        ("bg", np.int16),
        ("bank", np.int16),
        ("row", np.int32),
        ("col", np.int32),
        ("count", np.int32),
        ("release", np.int64),
        ("tag", np.int32),
    ],
    align=True,
)
"""One row of a command stream of a channel: `count` commands back to back on columns `col`, `col` + 1, …,
none before clock `release` [CK]. Coordinates above the command's scope are used; those below do not matter,
but must be inside the part's geometry too. `tag` is the caller's own."""
