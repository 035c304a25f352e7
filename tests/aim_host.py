"""The host and controller in front of an AiM channel, as rows of its table.

How a public AiM simulator turns instructions into commands (a fact each; none is fitted to a run):

* The first command can issue in CK 1. The host sends one instruction a clock, earlier than the channel needs it.
* An instruction on another row than the open one is preceded by PREab and ACTab; on closed banks by ACTab alone.
* WR_BIAS and RD_MAC work in register mode. TMOD enters and leaves it. The controller picks it in the clock in which
  the command behind it would be legal, so TMOD waits for all that this command waits for.
* RD_MAC blocks: its data is back nCLREG + nBL after RDMAC, and the next instruction comes the clock after that.
* The end of the trace is an instruction, too (EOC). It needs nothing and does nothing, but it is answered only when no
  write is under way any more; the clock after that is the cycle count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import STREAM, Command, Level, Role, Row, Rule
from pimloom.arch.part import Part
from pimloom.arch.standard import clocks
from pimloom.arch.table import Table, build_table, standard_of
from pimloom.cycle_sim.dram import issue
from pimloom.cycle_sim.dram.monitor import raise_if_illegal
from pimloom.cycle_sim.dram.trace import expand


class Isr(NamedTuple):
    """One host instruction: `times` operations on consecutive columns of a row of all banks."""

    name: str
    row: int = -1  # needs no row
    times: int = 1


COMMAND = {"MAC_ABK": "MACab", "WR_ABK": "WRAab", "RD_MAC": "RDMAC", "WR_BIAS": "WRMAC"}
REGISTER_MODE = ("RD_MAC", "WR_BIAS")
# Until when a command counts as under way. The simulator forgets tWR after WRAab.
UNDER_WAY = {"MACab": "1", "WRMAC": "nCWLREG + nBL", "WRAab": "nCWL + nBL + tRP"}


def ck_of(part: Part) -> dict[str, int]:
    return {name: part.cycles(name) for name in part.timing}


def host_table(part: Part) -> Table:
    """The part's table with EOC, and with one TMOD for each command that may follow it."""
    standard = standard_of(part)
    plain = [command for command in standard.commands if command.name != "TMOD"]
    names = tuple(command.name for command in plain)
    modes = [
        Command(f"TMOD {name}", Role.MODE, Level.CHANNEL, Row.ANY, Row.ANY, "nMODCH", f"change mode, then {name}")
        for name in names
    ]
    commands = (*plain, *modes, Command("EOC", Role.MODE, Level.CHANNEL, Row.ANY, Row.ANY, "1", "end of the trace"))
    rules = []
    for rule in standard.rules:
        after = tuple(name for name in rule.after if name != "TMOD")
        before = tuple(name for name in rule.before if name != "TMOD")
        if after and rule.level == Level.CHANNEL:
            before += tuple(f"TMOD {name}" for name in before)
        if after:
            rules.append(rule._replace(after=after, before=before))
    rules.append(Rule(Level.CHANNEL, tuple(mode.name for mode in modes), names, "nMODCH"))
    rules.append(Rule(Level.CHANNEL, ("RDMAC",), tuple(c.name for c in commands), "nCLREG + nBL + 1"))
    return build_table(commands, tuple(rules), ck_of(part), part.organization, standard.refresh)


def commands_of(isrs: Iterable[Isr]) -> Iterator[tuple[str, int, int]]:
    """(command, row, count) of the channel, in order."""
    open_row, mode = -1, False
    for isr in isrs:
        need = [(COMMAND[isr.name], max(isr.row, 0), isr.times)]
        if isr.row >= 0 and isr.row != open_row:
            need = [("ACTab", isr.row, 1), *need]
            if open_row >= 0:
                need = [("PREab", 0, 1), *need]
        if mode != (isr.name in REGISTER_MODE):
            mode = not mode
            yield f"TMOD {need[0][0]}", 0, 1
        yield from need
        if isr.row >= 0:
            open_row = -1 if isr.name == "WR_ABK" else isr.row
    yield "EOC", 0, 1


def cycles(part: Part, isrs: Iterable[Isr]) -> tuple[int, Counter[str]]:
    """Cycles until the end is answered, and the number of commands of each name."""
    table = host_table(part)
    lines = list(commands_of(isrs))
    stream = np.zeros(len(lines), STREAM)
    stream["cmd"] = [table.cmd(name) for name, _, _ in lines]
    stream["row"], stream["count"] = [row for _, row, _ in lines], [count for _, _, count in lines]
    stream["release"][0] = 1
    result = issue(table, [stream], refresh=False)
    raise_if_illegal(table, expand(table, [stream], *result[:3]))
    last = result.end_ck[0] - table.rules.done[stream["cmd"]]
    ck = ck_of(part)
    under_way = [clocks(UNDER_WAY.get(name, "0"), ck) for name, _, _ in lines]
    counts: Counter[str] = Counter()
    for name, _, count in lines:
        counts[name.split()[0]] += count
    return int((last + under_way).max()) + 1, counts
