"""The rules of a device: for each command and bank the first clock in which none binds it.

A rule binds all of a node (channel, rank, bank group, bank …) at once, so its clock is kept at that node: a command
costs one step per level and not one per bank. Node 0 is the channel; children follow their parents, level by level,
and levels that do not divide are left out.

path[bank, depth]: the node of each depth that holds the bank. bound[n * COLUMNS + k]: first clock [CK] in which node n
lets a command of column k pass. beside[(n * COLUMNS + k) * 3 + …]: the same for all children of n but one, see MOST;
aside[n]: whether any rule does so. rule[i * FIELDS + …]: what issuing a command delays, see NEXT; first_rule[c]: where
its rules begin. ring: the last issues, for rules that count several. Numbers of nodes are uint32, and these arrays have
one dimension, because that saves products of sizes.

A rule may name a command that acts on several nodes of the rule's level as the one that waits: it waits at each of
them. It cannot name such a command as the one that is waited for (`arch.table`).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.table import Table, rule_rows
from pimloom.cycle_sim.compiled.kernel import bare

FAR = np.int64(1) << 60
NEVER = -FAR

COMMANDS = ("ACT", "PRE", "RD", "WR", "RDA", "WRA", "REFab", "REFpb", "SRE", "SRX", "PREab")
ACT, PRE, RD, WR, RDA, WRA, REFAB, REFPB, SRE, SRX, PREAB = range(len(COMMANDS))
COLUMNS = 32  # at least as many as commands: a power of two
MOST, CHILD, REST = range(3)  # the latest clock, the child that it does not bind, the latest of the other children
# NEXT: column; RING: where the issues of the window of node 0 begin, NEXT_IN: where its place to be written next; PUSH:
# the first record of its window
NEXT, DEPTH, WAIT, KIND, WINDOW, RING, NEXT_IN, PUSH, FIELDS = range(9)
PLAIN, SIBLINGS, COUNTS = 0, 1, 2  # KIND, bits: binds the node, or its siblings; counted from an issue further back


class Device(NamedTuple):
    """The rules of a channel and what they make of the commands so far, as the module says."""

    path: np.ndarray
    bound: np.ndarray
    aside: np.ndarray
    beside: np.ndarray
    first_rule: np.ndarray
    rule: np.ndarray
    ring: np.ndarray


@bare
def arm(tree, c, bank, at):
    """Note that command c issued at clock `at`; bank: any bank of its scope."""
    for i in range(tree.first_rule[c], tree.first_rule[c + 1]):
        arm_rule(tree, i * FIELDS, bank, at)


@bare
def arm_rule(tree, r, bank, at):
    """As `arm`, of the rule at r."""
    bound, path, rule = tree.bound, tree.path, tree.rule
    d, ready, kind = rule[r + DEPTH], at + rule[r + WAIT], rule[r + KIND]
    n = path[bank, d]
    if kind & COUNTS:
        h, x = rule[r + RING] + n * rule[r + WINDOW], rule[r + NEXT_IN] + n
        if rule[r + PUSH]:
            tree.ring[h + tree.ring[x]] = at
            tree.ring[x] = tree.ring[x] + 1 if tree.ring[x] + 1 < rule[r + WINDOW] else 0
        ready = tree.ring[h + tree.ring[x]] + rule[r + WAIT]  # the place to be written next holds the oldest
    if kind & SIBLINGS:
        _bind_siblings(tree.beside, path[bank, d - 1] * COLUMNS + rule[r + NEXT], n, ready)
    else:
        place = n * COLUMNS + rule[r + NEXT]
        bound[place] = max(bound[place], ready)


@bare
def _bind_siblings(beside, place, n, ready):
    """All children but n let a column pass at clock `ready` or later; place: of their parent and the column."""
    most, child, rest = 3 * place + MOST, 3 * place + CHILD, 3 * place + REST
    if beside[child] == n:
        beside[most] = max(beside[most], ready)
    elif ready > beside[most]:
        beside[rest] = beside[most]
        beside[most], beside[child] = ready, n
    else:
        beside[rest] = max(beside[rest], ready)


@bare
def free_beside(tree, parent, n, k):
    """First clock in which the siblings of node n let column k pass."""
    place = 3 * (parent * COLUMNS + k)
    return tree.beside[place + (REST if tree.beside[place + CHILD] == n else MOST)]


@bare
def free_from(tree, k, low):
    """First clock in which no rule binds the command of column k whose scope begins at bank `low`."""
    return free_above(tree, k, low, tree.path.shape[1])


@bare
def free_above(tree, k, low, depths):
    """As `free_from`, where rules bind column k in the first `depths` depths only."""
    t = tree.bound[k]
    for d in range(1, depths):
        parent, n = tree.path[low, d - 1], tree.path[low, d]
        t = max(t, tree.bound[n * COLUMNS + k])
        if tree.aside[parent]:
            t = max(t, free_beside(tree, parent, n, k))
    return t


@bare
def settled(tree):
    """First clock in which no rule binds anything, nor will because of what was."""
    t = np.int64(0)
    for place in range(tree.bound.shape[0]):
        t = max(t, tree.bound[place])
    for place in range(0, tree.beside.shape[0], 3):
        t = max(t, tree.beside[place + MOST])
    for r in range(0, tree.rule.shape[0], FIELDS):
        if tree.rule[r + PUSH]:
            first = tree.rule[r + RING]
            for x in range(first, first + tree.bound.shape[0] // COLUMNS * tree.rule[r + WINDOW]):
                t = max(t, tree.ring[x] + tree.rule[r + WAIT])
    return t


class Shape(NamedTuple):
    """How the nodes of a channel hang together. sizes: nodes of each depth; base: the first one."""

    sizes: tuple[int, ...]
    base: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(self.sizes)

    def children(self) -> list[tuple[int, int, int]]:
        """(node, first child, number of children) of all that have any."""
        found = []
        for d, n in enumerate(self.sizes[:-1]):
            each = self.sizes[d + 1] // n
            found += [(self.base[d] + i, self.base[d + 1] + i * each, each) for i in range(n)]
        return found


def shape_of(table: Table) -> Shape:
    """The nodes of a channel of this device."""
    sizes = sorted(set(table.rules.size.tolist()))
    return Shape(tuple(sizes), tuple(np.cumsum([0, *sizes[:-1]]).tolist()))


def device(
    table: Table, used: frozenset[str], columns: Mapping[str, int], commands: Sequence[str] = COMMANDS
) -> dict[str, np.ndarray]:
    """The arrays of a channel, idle and closed; rules of commands that are not `used` are left out.

    columns: of commands whose column is not their place in `commands`, at most COLUMNS of them. Raises UserError.
    """
    if len(commands) > COLUMNS:
        raise UserError(f"the device has {len(commands)} commands; more than {COLUMNS} are not simulated")
    shape, rows = shape_of(table), _rows(table, used, columns, commands)
    banks = shape.sizes[-1]
    rule, ring = _records(rows, shape.nodes, len(commands))
    aside = np.zeros(shape.nodes, np.uint32)
    for d in {row.depth - 1 for row in rows if row.kind & SIBLINGS}:
        aside[shape.base[d] : shape.base[d + 1]] = 1
    beside = np.full((shape.nodes * COLUMNS if aside.any() else 0, 3), NEVER)
    beside[:, CHILD] = -1
    path = [start + np.arange(banks) // (banks // n) for n, start in zip(shape.sizes, shape.base, strict=True)]
    return {
        "path": np.stack(path, axis=1).astype(np.uint32),
        "bound": np.zeros(shape.nodes * COLUMNS, np.int64),
        "aside": aside,
        "beside": beside.ravel(),
        "first_rule": np.cumsum([0, *map(len, rule)]),
        "rule": np.array([record for records in rule for record in records] or [(0,) * FIELDS], np.int64).ravel(),
        "ring": ring,
    }


class _Row(NamedTuple):
    """A rule between opcodes and columns."""

    after: list[int]
    before: list[int]
    depth: int
    wait: int
    kind: int
    window: int


def _rows(table: Table, used: frozenset[str], columns: Mapping[str, int], commands: Sequence[str]) -> list[_Row]:
    """The rules of the commands that are used, between opcodes of `commands`."""
    size = table.rules.size.tolist()
    alone = [level == 0 or n == size[level - 1] for level, n in enumerate(size)]
    opcode = {i: commands.index(name) for i, name in enumerate(table.names) if name in used & set(commands)}
    rows = []
    for row in rule_rows(table.rules):
        kind = COUNTS * (row.window > 1) | SIBLINGS * row.sibling
        if (row.sibling and alone[row.level]) or (row.window == 1 and row.wait <= 0):
            continue
        after = sorted(opcode[c] for c in row.after if c in opcode)
        before = sorted({columns.get(commands[opcode[c]], opcode[c]) for c in row.before if c in opcode})
        depth = sum(not one for one in alone[1 : row.level + 1])
        rows.append(_Row(after, before, depth, row.wait, kind, row.window))
    return rows


def _records(rows: list[_Row], nodes: int, commands: int) -> tuple[list[list[tuple[int, ...]]], np.ndarray]:
    """The records of `rule` by command, and `ring`."""
    found: list[list[tuple[int, ...]]] = [[] for _ in range(commands)]
    windows = [row.window for row in rows if row.kind & COUNTS]
    ring, place = 0, nodes * sum(windows)
    held = np.full(max(1, place + nodes * len(windows)), NEVER)
    held[place:] = 0
    for row in rows:
        for c, k in product(row.after, row.before):
            where = (ring, place, int(k == row.before[0])) if row.kind & COUNTS else (0, 0, 0)
            found[c].append((k, row.depth, row.wait, row.kind, row.window, *where))
        if row.kind & COUNTS:
            ring, place = ring + nodes * row.window, place + nodes
    return [_needed(records) for records in found], held


def _needed(records: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The records without those that another one implies: what binds a node binds all that it holds."""
    waits = sorted({(record[NEXT], record[DEPTH], -record[WAIT]) for record in records if record[KIND] == PLAIN})
    kept, column, longest = set[tuple[int, int, int]](), -1, -1
    for k, depth, minus in waits:  # of a column from the outermost in, the longest first
        if k != column or -minus > longest:
            kept.add((k, depth, -minus))
            column, longest = k, -minus
    return [a for a in dict.fromkeys(records) if a[KIND] != PLAIN or (a[NEXT], a[DEPTH], a[WAIT]) in kept]
