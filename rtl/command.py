"""A command on wires, decoded: its opcode, its node of each level, its row and column."""

from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from typing import cast

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data

from pimloom.arch.command import Level
from pimloom.arch.table import Rules, Table
from verilog_tidy import BITS

FEW = 4  # opcodes that the name of a wire has
COORDINATES = ("pch", "rank", "bg", "bank")  # one for each level below the channel


@cache
def opcodes(names: tuple[str, ...]) -> type[IntEnum]:
    """The opcodes of a table as an enumeration, whose names the Verilog has."""
    return cast("type[IntEnum]", IntEnum("Cmd", {name: opcode for opcode, name in enumerate(names)}))


def command_layout(table: Table) -> data.StructLayout:
    """Fields of a command as in STREAM, each as wide as the geometry asks for; a field with one value has no wire."""
    rules = table.rules
    fan = [int(n) for n in rules.size[1:] // rules.size[:-1]]
    fields = {"cmd": opcodes(tuple(table.names)), **dict(zip(COORDINATES, map(range, fan), strict=True))}
    return data.StructLayout(fields | {"row": range(rules.rows), "col": range(rules.columns)})


def node_names(rules: Rules, level: int) -> list[str]:
    """Names of the nodes of a level in a channel, by their coordinates: BG1_BANK2; of one node at least the last."""
    fans = [int(rules.size[n] // rules.size[n - 1]) for n in range(1, level + 1)]
    names = [""]
    for coordinate, fan in zip(COORDINATES, fans, strict=False):
        if fan > 1 or coordinate == COORDINATES[level - 1]:
            names = [f"{above}{coordinate.upper()}{n}_" for above in names for n in range(fan)]
    return [name.removesuffix("_") for name in names]


def any_of(values: Iterable[Value]) -> Value:
    """OR of single bits; 0 of none."""
    found = list(values)
    return Const(0, 1) if not found else found[0] if len(found) == 1 else _tree(found)


def _tree(either: list[Value]) -> Value:
    while len(either) > 1:
        odd = either[len(either) - len(either) % 2 :]
        either = [a | b for a, b in zip(either[::2], either[1::2], strict=False)] + odd
    return either[0]


class Decoded:
    """Single bits of a command: `is_(opcodes)`, and `at(level, node)` for the nodes of the channel."""

    def __init__(self, m: Module, rules: Rules, command: data.View, name: str) -> None:
        self.m, self.row, self.name = m, command.row, name
        self._kinds = dict[tuple[int, ...], Value]()
        kind = command.shape()["cmd"].shape
        self.names = [one.name for one in kind]
        attrs = {BITS: " ".join(f"CMD_{one}" for one in self.names)}
        self._is = Signal(len(rules.scope), name=f"{name}_is", attrs=attrs)
        for opcode in range(len(rules.scope)):
            m.d.comb += self._is[opcode].eq(command.cmd == opcode)
        self._at: list[Value] = [Const(1, 1)]
        for level in Level:
            if level > 0:
                self._at.append(self._below(m, rules, command[COORDINATES[level - 1]], level, f"{name}_{level.name}"))

    def _below(self, m: Module, rules: Rules, coordinate: Value, level: int, name: str) -> Value:
        nodes, fan = int(rules.size[level]), int(rules.size[level] // rules.size[level - 1])
        at = Signal(nodes, name=name.lower(), attrs={BITS: " ".join(node_names(rules, level))})
        for n in range(nodes):
            m.d.comb += at[n].eq(self._at[level - 1][n // fan] & (coordinate == n % fan))
        return at

    def is_(self, opcodes: Iterable[int]) -> Value:
        """Whether the opcode is one of these."""
        these = tuple(sorted(map(int, opcodes)))
        if len(these) < 2:
            return any_of(self._is[opcode] for opcode in these)
        if these not in self._kinds:
            few = these if len(these) <= FEW else these[: FEW - 1]
            others = f"_or_{len(these) - len(few)}_others" if few != these else ""
            told = "_or_".join(self.names[opcode] for opcode in few) + others
            self._kinds[these] = one = Signal(name=f"{self.name}_is_{told}")
            self.m.d.comb += one.eq(any_of(self._is[opcode] for opcode in these))
        return self._kinds[these]

    def at(self, level: int, node: int) -> Value:
        """Whether the command's coordinates lie in this node."""
        return self._at[level][node]

    def beside(self, level: int, node: int) -> Value:
        """Whether the command's coordinates lie in another node under the same parent."""
        fan = len(self._at[level]) // len(self._at[level - 1])
        return self._at[level - 1][node // fan] & ~self._at[level][node]


class Fixed:
    """As `Decoded`, for a command that is always the same: REFab of one node of its scope."""

    row = Const(0, 1)

    def __init__(self, rules: Rules, opcode: int, node: int) -> None:
        self.rules, self.opcode, self.bank = rules, opcode, node * _banks(rules, int(rules.scope[opcode]))

    def is_(self, opcodes: Iterable[int]) -> Value:
        """Whether the opcode is one of these."""
        return Const(int(self.opcode in set(map(int, opcodes))), 1)

    def at(self, level: int, node: int) -> Value:
        """Whether the command's first bank lies in this node."""
        return Const(int(self.bank // _banks(self.rules, level) == node), 1)

    def beside(self, level: int, node: int) -> Value:
        """Whether the command's first bank lies in another node under the same parent."""
        fan, own = int(self.rules.size[level] // self.rules.size[level - 1]), self.bank // _banks(self.rules, level)
        return Const(int(own != node and own // fan == node // fan), 1)

    def coordinates(self) -> dict[str, int]:
        """Coordinates of the node's first bank by their names, from pseudo channel to bank."""
        size = [int(n) for n in self.rules.size]
        nodes = {level: self.bank // _banks(self.rules, level) for level in Level}
        return {n: nodes[Level(i)] % (size[i] // size[i - 1]) for i, n in enumerate(COORDINATES, start=1)}


def _banks(rules: Rules, level: int) -> int:
    """Banks of one node of a level."""
    return int(rules.size[Level.BANK] // rules.size[level])
