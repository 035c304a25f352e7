"""A part's table as the engine needs it to know what a core derives: a command for each length of a GEMV, and for the
first multiplication of a result; and the rows that commands leave."""

from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.command import Role, Row, Rule
from pimloom.arch.part import Organization, Part
from pimloom.arch.table import Table, build_table, standard_of
from pimloom.rtl.command import COORDINATES

COUNTS = (1, 5, 6, 7, 16)  # COMPs of the GEMVs that are drawn: shorter and longer than the least that one takes
BEGUN = "{} {}"  # name of a GEMV of so many COMPs


class Told(NamedTuple):
    """table: the engine's; part: the core's, with the same geometry and refresh. opcode, counts: of each command of
    `table` its opcode for the host, and the COMPs of a GEMV, else 0. rules: those of `table`."""

    table: Table
    part: Table
    opcode: list[int]
    counts: list[int]
    rules: tuple[Rule, ...]

    def begun(self, stream: np.ndarray) -> np.ndarray:
        """The stream, in which a multiplication is the first one of a result where it is."""
        firsts, all_ = (self.table.opcodes({role}) for role in (Role.FIRST_MULTIPLY, Role.MULTIPLY))
        if not firsts:
            return stream
        stream, begins = stream.copy(), True
        for row in stream:
            role = self.table.commands[row["cmd"]].role
            if role in (Role.FIRST_MULTIPLY, Role.MULTIPLY):
                row["cmd"], begins = firsts[0] if begins else all_[0], False
            begins |= role is Role.RESULTS
        return stream


def tell(part: Part, geometry: Organization, clocks: dict[str, int]) -> Told:
    """The two tables of a part on a geometry, with these timings [CK]."""
    found = standard_of(part)
    names, clocks = {c.name: [c] for c in found.commands}, dict(clocks)
    roles = {c.role: c for c in found.commands}
    first, end, rules = roles.get(Role.FIRST_MULTIPLY), roles.get(Role.LAST_MULTIPLY), found.rules
    for asleep in [c.name for c in found.commands if c.role in (Role.SLEEP, Role.WAKE)]:
        del names[asleep]
        rules = tuple(_beside(rule, asleep, ()) for rule in rules)
    rules = tuple(rule for rule in rules if rule.after and rule.before)
    if first:
        comp = roles[Role.MULTIPLY]
        names[first.name] = [comp._replace(name=first.name, role=first.role)]
        rules = tuple(_beside(rule, comp.name, (comp.name, first.name)) for rule in rules)
    if end:
        gemv = roles[Role.GEMV]
        del names[end.name]
        each = {n: gemv._replace(name=BEGUN.format(gemv.name, n)) for n in COUNTS}
        names[gemv.name] = list(each.values())
        clocks |= {f"end_{n}": max(n * clocks["nCOMP"], clocks["nGEMV"]) for n in COUNTS}
        rules = tuple(_beside(rule, gemv.name, tuple(c.name for c in each.values())) for rule in rules)
        ends = [rule for rule in rules if end.name in rule.after]
        rules = tuple(rule for rule in rules if rule not in ends)
        rules += tuple(
            rule._replace(after=(each[n].name,), wait=f"end_{n} + {rule.wait}") for rule in ends for n in COUNTS
        )
    commands = [(c, found.commands.index(its)) for its in found.commands for c in names.get(its.name, ())]
    table = build_table(tuple(c for c, _ in commands), rules, clocks, geometry, found.refresh)
    own = build_table(found.commands, found.rules, clocks, geometry, found.refresh)
    counts = [int(c.name.rpartition(" ")[2]) if end and c.role is Role.GEMV else 0 for c, _ in commands]
    if first:
        shown = {found.commands.index(first): found.commands.index(roles[Role.MULTIPLY])}
        commands = [(c, shown.get(opcode, opcode)) for c, opcode in commands]
    return Told(table, own, [opcode for _, opcode in commands], counts, rules)


def _beside(rule: Rule, name: str, names: tuple[str, ...]) -> Rule:
    """The rule with several commands in the place of one."""
    after, before = (
        tuple(n for c in side for n in (names if c == name else (c,))) for side in (rule.after, rule.before)
    )
    return rule._replace(after=after, before=before)


class OpenRows:
    """Which row stands open in each bank of each row buffer, as commands need and leave them."""

    def __init__(self, table: Table) -> None:
        self.rules = table.rules
        self.row: dict[tuple[int, int], int] = {}

    def fits(self, command: Any) -> bool:
        """Whether the rows are as a record of a stream needs them."""
        cmd, rules = int(command["cmd"]), self.rules
        need, (low, high) = rules.needs[cmd], (int(buffers[cmd]) for buffers in rules.needed)
        if need == Row.ANY:
            return True
        held = {self.row.get((buffer, bank)) for buffer in range(low, high + 1) for bank in self._banks(command)}
        return held == ({int(command["row"])} if need == Row.OPEN else {None})

    def move(self, command: Any) -> None:
        """Change the state of rows and of a copy as the command leaves them."""
        cmd = int(command["cmd"])
        leaves, buffer = self.rules.leaves[cmd], int(self.rules.buffer[cmd])
        for bank in self._banks(command):
            if leaves == Row.OPEN:
                self.row[buffer, bank] = int(command["row"])
            elif leaves == Row.CLOSED:
                self.row.pop((buffer, bank), None)

    def _banks(self, command: Any) -> range:
        size, scope, node = self.rules.size.tolist(), int(self.rules.scope[command["cmd"]]), 0
        for level, name in enumerate(COORDINATES[:scope], start=1):
            node = node * (size[level] // size[level - 1]) + int(command[name])
        per = size[-1] // size[scope]
        return range(node * per, node * per + per)
