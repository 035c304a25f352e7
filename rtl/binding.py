"""Where a rule binds: at the node that armed it or at its siblings, and at every node that a command acts on."""

from typing import NamedTuple

from amaranth.hdl import Value

from pimloom.arch.command import Level
from pimloom.arch.table import RuleRow, Rules
from pimloom.rtl.rows import Asker


class Group(NamedTuple):
    """Opcodes that wait for a rule, and the level whose nodes say where: the rule's own, or that of a wider scope."""

    level: Level
    opcodes: list[int]


def groups(rules: Rules, row: RuleRow) -> list[Group]:
    """The commands that wait for a rule, by the level at which they meet its nodes.

    A command that acts on several nodes of the rule's level waits at each of them: it meets them at its own scope.
    """
    found: dict[Level, list[int]] = {}
    for opcode in row.before:
        found.setdefault(Level(min(row.level, int(rules.scope[opcode]))), []).append(opcode)
    return [Group(*group) for group in sorted(found.items())]


def on_one_bus(rules: Rules, row: RuleRow) -> bool:
    """Whether all commands of a rule share a bus: they are a clock apart, and a wait of 1 clock never binds."""
    return len({int(rules.bus[c]) for c in (*row.after, *row.before)}) <= 1


def can_bind(rules: Rules, row: RuleRow) -> bool:
    """Whether a rule with this wait can make a command wait; it has timers then."""
    return row.wait > on_one_bus(rules, row)


def bound_at(rules: Rules, who: Asker, row: RuleRow, level: Level, node: int) -> Value:
    """Whether a command of the group of this level stands where the rule binds when its node `node` armed it."""
    if level < row.level:  # it acts on the node and on its siblings
        return who.at(level, node // int(rules.size[row.level] // rules.size[level]))
    return who.beside(row.level, node) if row.sibling else who.at(row.level, node)
