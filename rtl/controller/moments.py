"""Moments of a PIM table, which nobody issues, told from the commands that begin them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Role
from pimloom.arch.error import UserError
from pimloom.arch.table import RuleRow, Table, rule_rows

MOMENTS = frozenset({Role.FIRST_MULTIPLY, Role.LAST_MULTIPLY})
NEVER_SENT = MOMENTS | {Role.SLEEP, Role.WAKE}  # opcodes that no host brings: the core would refresh a part that sleeps


class Moments(NamedTuple):
    """A table without moments, and what stands for them; opcodes are those of the part, -1 where it has none.

    table: no rule counts from a moment, no bus carries one. first: opcode of FIRST_MULTIPLY, in `table` a `multiply`
    from which the moment's rules count, too: the first one of a result goes by it inside of the core. results: read
    results, so that a new result begins. gemv: its multiplications end some clocks after it; ended: rules that count
    from that clock, in `table` from `gemv`.
    """

    table: Table
    first: int
    multiply: int
    results: int
    gemv: int
    ended: frozenset[int]


def without_moments(table: Table) -> Moments:
    """The table of a core that derives moments. Raises UserError for moments whose commands are not one of a kind."""
    first, last = _only(table, Role.FIRST_MULTIPLY), _only(table, Role.LAST_MULTIPLY)
    if first < 0 and last < 0:
        return Moments(table, -1, -1, -1, -1, frozenset())
    multiply = _only(table, Role.MULTIPLY) if first >= 0 else -1
    results = _only(table, Role.RESULTS) if first >= 0 else -1
    gemv = _only(table, Role.GEMV) if last >= 0 else -1
    if first >= 0 and min(multiply, results) < 0 or last >= 0 and gemv < 0:
        raise UserError("moments of this part belong to no command of it")
    rows = rule_rows(table.rules)
    ended = frozenset(i for i, row in enumerate(rows) if last in row.after)
    if any(len(rows[i].after) > 1 or rows[i].window > 1 for i in ended):
        raise UserError("a rule of this part counts from a moment and from a command")
    rows = tuple(_told(row, first, multiply, {last: gemv}) for row in rows)
    return Moments(_rebuilt(table, rows, {first: multiply, last: gemv}), first, multiply, results, gemv, ended)


def _only(table: Table, role: Role) -> int:
    found = table.opcodes({role})
    if len(found) > 1:
        raise UserError(f"several commands of this part {role}, so that no moment follows from one")
    return found[0] if found else -1


def _told(row: RuleRow, first: int, multiply: int, begun: Mapping[int, int]) -> RuleRow:
    """The rule, with the first multiplication beside all others, and ends told from what begins them."""
    after, before = ([begun.get(c, c) for c in side] for side in (row.after, row.before))
    if first >= 0:
        after, before = ([*side, *([first] if multiply in side else [])] for side in (after, before))
    return row._replace(after=tuple(sorted({*after})), before=tuple(sorted({*before})))


def _rebuilt(table: Table, rows: Sequence[RuleRow], like: Mapping[int, int]) -> Table:
    """The table with other rules; its opcodes in `like` need, leave and travel as those they are mapped to."""
    rules, names = table.rules, range(len(table.names))
    same = [like.get(c, c) for c in names]
    columns = {
        name: getattr(rules, name)[same] for name in ("scope", "needs", "leaves", "buffer", "bus", "done", "gap")
    }
    buses = sorted({*columns["bus"].tolist()})
    columns["bus"] = np.array([buses.index(bus) for bus in columns["bus"].tolist()], np.int64)
    for side in ("before", "after"):
        lists = [[i for i, row in enumerate(rows) if c in getattr(row, side)] for c in names]
        columns[f"{side}_ptr"] = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        columns[f"{side}_rule"] = np.array([i for each in lists for i in each], np.int64)
    return replace(table, rules=rules._replace(**columns))
