"""The words a DRAM standard is written in: levels, row states, commands, rules, and the command stream."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

POSTPONED_MAX = 8  # JEDEC JESD79-4 4.26 and JESD250: eight REF commands may be postponed
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


class Command(NamedTuple):
    """One command of a standard.

    `done` is the time from issue to the end of its effect, as a sum of timing names (`"nCL + nBL"`).
    Commands on different buses may issue in the same clock; on one bus, one command a clock.
    """

    name: str
    scope: Level
    needs: Row
    leaves: Row
    done: str
    meaning: str
    bus: str = "command"
    buffer: int = 0


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
    """

    name: str
    timings: dict[str, str]  # name -> meaning
    commands: tuple[Command, ...]
    rules: tuple[Rule, ...]
    unmodelled: tuple[str, ...]  # rules of the standard that are left out, each with its reason
    refresh: str = ""
    optional: Mapping[str, str] = MappingProxyType({})  # name -> meaning


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
