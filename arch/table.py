"""A part's tables compiled into plain arrays: what the engine and the RTL read."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard
from pimloom.arch.error import UserError
from pimloom.arch.part import Organization, Part
from pimloom.arch.standard import clocks, given, join_tables


class Rules(NamedTuple):
    """The compiled rules of a part: plain arrays and four integers, all that the engine and the RTL may read.

    size[l]: nodes of each level in a channel. Per command: scope, needs, leaves, buffer, bus, done [CK], and gap [CK],
    the distance of commands issued back to back with `count` (0: such a run is walked command by command). Per rule:
    level, window, wait [CK], sibling (it binds the other nodes under the same parent, not its own). before_*, after_*:
    CSR lists of the rules that bind a command and that a command arms. refresh: opcode of REFab, -1 where the standard
    has none; refi [CK]: its interval. rows of a bank, columns of a row.
    """

    size: np.ndarray
    scope: np.ndarray
    needs: np.ndarray
    leaves: np.ndarray
    buffer: np.ndarray
    bus: np.ndarray
    done: np.ndarray
    gap: np.ndarray
    level: np.ndarray
    window: np.ndarray
    wait: np.ndarray
    sibling: np.ndarray
    before_ptr: np.ndarray
    before_rule: np.ndarray
    after_ptr: np.ndarray
    after_rule: np.ndarray
    refresh: int
    refi: int
    rows: int
    columns: int

    @property
    def needed(self) -> tuple[np.ndarray, np.ndarray]:
        """First and last row buffer in which each command needs its rows: its own; of commands that need closed rows
        and open none, as refreshes do, every one."""
        every = (self.needs == Row.CLOSED) & (self.leaves == Row.ANY)
        return np.where(every, 0, self.buffer), np.where(every, self.buffer.max(), self.buffer)


@dataclass(frozen=True, eq=False)
class Table:
    """A part's commands, opcode by opcode, and its compiled rules."""

    commands: tuple[Command, ...]
    rules: Rules

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Command names, opcode by opcode."""
        return tuple(c.name for c in self.commands)

    @cached_property
    def refresh(self) -> str:
        """Name of the command that refreshes all banks."""
        return self.commands[self.rules.refresh].name

    @cached_property
    def counted(self) -> tuple[Command, ...]:
        """The commands, and behind them those that they repeat."""
        return *self.commands, *(c.repeats for c in self.commands if c.repeats)

    def cmd(self, name: str) -> int:
        """Opcode of a command name."""
        return self.names.index(name)

    def opcodes(self, roles: Collection[Role]) -> list[int]:
        """Opcodes of all commands that have one of the roles."""
        return [opcode for opcode, c in enumerate(self.commands) if c.role in roles]

    @cached_property
    def _found(self) -> dict[tuple[Role, Level], int]:
        return {}

    def role(self, role: Role, level: Level = Level.CHANNEL) -> int:
        """Opcode of the command with this role that acts on a node of `level` as a whole; of several, the one that
        leaves rows as they are. Raises UserError if there is none."""
        if (role, level) in self._found:
            return self._found[role, level]
        size = self.rules.size
        found = [
            (c.leaves != Row.ANY, abs(c.scope - level), opcode)
            for opcode, c in enumerate(self.commands)
            if c.role is role and size[c.scope] == size[level]
        ]
        if not found:
            where = level.name.lower().replace("_", " ")
            raise UserError(f"no command of this part {role} of a {where} at once; it has {', '.join(self.names)}")
        self._found[role, level] = min(found)[-1]
        return self._found[role, level]

    def having(self, *roles: Role) -> np.ndarray:
        """bool[opcodes]: which commands have one of the roles."""
        return np.array([c.role in roles for c in self.commands])

    def total(self, counts: Mapping[str, int], roles: Collection[Role]) -> int:
        """How many of the commands, counted by name, have one of the roles."""
        return sum(counts.get(c.name, 0) for c in self.counted if c.role in roles)

    def by_cause(self, counts: Mapping[str, int]) -> Counter[str]:
        """How many of the commands, counted by name, are charged to each energy cause."""
        found = Counter[str]()
        for c in self.counted:
            found[c.cause] += counts.get(c.name, 0)
        return found


class RuleRow(NamedTuple):
    """One compiled rule by itself; after, before: opcodes."""

    level: int
    window: int
    wait: int
    sibling: bool
    after: Sequence[int]
    before: Sequence[int]


def rule_rows(rules: Rules) -> tuple[RuleRow, ...]:
    """The rules one by one, in order."""
    after = _inverse(rules.after_ptr.tobytes(), rules.after_rule.tobytes())
    before = _inverse(rules.before_ptr.tobytes(), rules.before_rule.tobytes())
    columns = (rules.level, rules.window, rules.wait, rules.sibling)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        RuleRow(level, window, wait, bool(sibling), after.get(i, ()), before.get(i, ()))
        for i, (level, window, wait, sibling) in enumerate(numbers)
    )


@lru_cache(maxsize=256)
def _inverse(ptr: bytes, found: bytes) -> Mapping[int, tuple[int, ...]]:
    """Rule -> opcodes, of a CSR list opcode -> rules; tables that differ in their waits have the same."""
    opcodes: dict[int, list[int]] = {}
    counts: np.ndarray = np.diff(np.frombuffer(ptr, np.int64))
    of_each = np.repeat(np.arange(len(counts)), counts).tolist()
    for opcode, rule in zip(of_each, np.frombuffer(found, np.int64).tolist(), strict=True):
        opcodes.setdefault(rule, []).append(opcode)
    return {rule: tuple(each) for rule, each in opcodes.items()}


def bend(table: Table, rule: int, by: int) -> Table:
    """A copy of the table with the wait of one rule changed (at least 0), and with it the gap of counted commands."""
    rules, wait, gap = table.rules, table.rules.wait.copy(), table.rules.gap.copy()
    wait[rule] = max(wait[rule] + by, 0)
    for c in np.flatnonzero(gap).tolist():
        after, before = (
            found[ptr[c] : ptr[c + 1]].tolist()
            for ptr, found in ((rules.after_ptr, rules.after_rule), (rules.before_ptr, rules.before_rule))
        )
        gap[c] = max([1, *(int(wait[own]) for own in {*after} & {*before} if not rules.sibling[own])])
    return replace(table, rules=rules._replace(wait=wait, gap=gap))


def standard_of(part: Part) -> Standard:
    """The part's DRAM standard with the rows of its PIM extension appended; only the rows that hold for this part."""
    return _standard_of(part.standard, part.pim, part.organization, frozenset(part.timing), part.one_bus)


@lru_cache(maxsize=256)
def _standard_of(standard: str, pim: str | None, org: Organization, timing: frozenset[str], one_bus: bool) -> Standard:
    found = join_tables(standard, pim)
    commands, rules = given(found, timing)
    commands = _on_one_bus(commands) if one_bus else commands
    timings = found.timings | {name: said for name, said in found.optional.items() if name in timing}
    return found._replace(timings=timings, commands=commands, rules=_bound(rules, org))


def compile_table(part: Part) -> Table:
    """The part's tables as plain arrays; equal parts share one Table."""
    ck = tuple((name, part.cycles(name)) for name in sorted(part.timing))
    return _compile(part.standard, part.pim, part.organization, ck, part.one_bus)


@lru_cache(maxsize=256)
def _compile(
    standard: str, pim: str | None, org: Organization, ck: tuple[tuple[str, int], ...], one_bus: bool
) -> Table:
    found, clocks_of = join_tables(standard, pim), dict(ck)
    commands, rules = given(found, clocks_of.keys())
    commands = _on_one_bus(commands) if one_bus else commands
    return build_table(commands, rules, clocks_of, org, found.refresh)


def _on_one_bus(commands: tuple[Command, ...]) -> tuple[Command, ...]:
    return tuple(command._replace(bus="command") for command in commands)


def build_table(
    commands: tuple[Command, ...], rules: tuple[Rule, ...], ck: Mapping[str, int], org: Organization, refresh: str
) -> Table:
    """Compile commands and rules with their clocks; rules that cannot wait (≤ 0) are dropped to 0.

    Sibling rules of a level with one node under each parent bind nothing and are left out.
    """
    names = tuple(c.name for c in commands)
    if len(set(names)) != len(names):
        raise ValueError("two commands share a name")
    scope = {c.name: c.scope for c in commands}
    for rule in rules:
        if unknown := set(rule.after + rule.before) - set(names):
            raise ValueError(f"{rule} names unknown commands {sorted(unknown)}")
        if any(scope[n] < rule.level for n in rule.after):
            raise ValueError(f"{rule} counts below the scope of one of its commands")
    sizes, rules = _sizes(org), _bound(rules, org)
    buses = sorted({c.bus for c in commands})
    wait = [max(clocks(r.wait, ck), 0) for r in rules]
    before_ptr, before_rule = _csr(names, [r.before for r in rules])
    after_ptr, after_rule = _csr(names, [r.after for r in rules])
    arrays = Rules(
        size=np.cumprod(sizes, dtype=np.int64),
        scope=_column(c.scope for c in commands),
        needs=_column(c.needs for c in commands),
        leaves=_column(c.leaves for c in commands),
        buffer=_column(c.buffer for c in commands),
        bus=_column(buses.index(c.bus) for c in commands),
        done=_column(max(clocks(c.done, ck), 1) for c in commands),
        gap=_column(_gap(c, rules, wait) for c in commands),
        level=_column(r.level for r in rules),
        window=_column(r.window for r in rules),
        wait=_column(wait),
        sibling=_column(r.sibling for r in rules),
        before_ptr=before_ptr,
        before_rule=before_rule,
        after_ptr=after_ptr,
        after_rule=after_rule,
        refresh=names.index(refresh) if refresh else -1,
        refi=ck["tREFI"] if refresh else 0,
        rows=org.rows,
        columns=org.columns,
    )
    return Table(commands, arrays)


def _sizes(org: Organization) -> tuple[int, ...]:
    """Nodes of each level under one parent."""
    return 1, org.pseudo_channels, org.ranks, org.bank_groups, org.banks_per_group


def _bound(rules: tuple[Rule, ...], org: Organization) -> tuple[Rule, ...]:
    """The rules without those between siblings where there are none."""
    return tuple(rule for rule in rules if not rule.sibling or _sizes(org)[rule.level] > 1)


def _column(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), np.int64)


def _csr(names: tuple[str, ...], sets: list[tuple[str, ...]]) -> tuple[np.ndarray, np.ndarray]:
    lists = [[i for i, s in enumerate(sets) if name in s] for name in names]
    ptr = np.cumsum([0] + [len(x) for x in lists])
    return ptr.astype(np.int64), np.array([i for x in lists for i in x], np.int64)


def _gap(command: Command, rules: tuple[Rule, ...], wait: list[int]) -> int:
    own = [
        (r.window, w)
        for r, w in zip(rules, wait, strict=True)
        if command.name in r.after and command.name in r.before and not r.sibling
    ]
    if command.leaves != Row.ANY or any(window > 1 for window, _ in own):
        return 0
    return max([1] + [w for _, w in own])
