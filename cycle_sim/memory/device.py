"""The device as a controller sees it: for each command and bank the first clock in which no rule binds it."""

from typing import NamedTuple

import numpy as np

from pimloom.arch.table import Table, rule_rows
from pimloom.cycle_sim.memory.compiled import bare

FAR = np.int64(1) << 60
NEVER = -FAR

COMMANDS = ("ACT", "PRE", "RD", "WR", "RDA", "WRA", "REFab", "REFpb", "SRE", "SRX", "PREab")
ACT, PRE, RD, WR, RDA, WRA, REFAB, REFPB, SRE, SRX, PREAB = range(len(COMMANDS))
NEXT, LEVEL, SIBLING, WAIT, WINDOW, HIST, SLOT, PUSH, STEP = range(9)  # rule[command, k]


class Device(NamedTuple):
    """One channel's state and rules; all int64, clocks in CK.

    free[command * banks + bank]: first legal clock by the rules; of a command of a wider scope, only at its first bank. rule[command, k], n_rules[command]: what issuing it delays;
    HIST, SLOT: where the rings of its window begin, PUSH: it is the first record of its window; STEP: banks in the scope
    of NEXT. low[level, bank]: first bank of the node that holds the bank; span[level]: banks of a node. hist, slot: rings
    of the last issues.
    """

    free: np.ndarray
    rule: np.ndarray
    n_rules: np.ndarray
    low: np.ndarray
    span: np.ndarray
    hist: np.ndarray
    slot: np.ndarray


@bare
def arm(d, c, bank, at):
    """Note that command c issued at clock `at`; bank: any bank of its scope."""
    banks = d.low.shape[1]
    for k in range(d.n_rules[c]):
        level, ready = d.rule[c, k, LEVEL], at + d.rule[c, k, WAIT]
        low, span, window = d.low[level, bank], d.span[level], d.rule[c, k, WINDOW]
        if window > 1:
            node = low // span
            h, x = d.rule[c, k, HIST] + node * window, d.rule[c, k, SLOT] + node
            if d.rule[c, k, PUSH]:
                d.hist[h + d.slot[x]] = at
                d.slot[x] = d.slot[x] + 1 if d.slot[x] + 1 < window else 0
            ready = d.hist[h + d.slot[x]] + d.rule[c, k, WAIT]  # the place to be written next holds the oldest
        n, sibling = d.rule[c, k, NEXT] * banks, d.rule[c, k, SIBLING]
        begin, end = n + low, n + low + span
        for part in range(1 + sibling):
            if sibling:  # all of the parent but the node itself
                parent = d.low[level - 1, bank]
                begin = n + (low + span if part else parent)
                end = n + (parent + d.span[level - 1] if part else low)
            step = d.rule[c, k, STEP]
            if step == 1:
                for b in range(begin, end):
                    d.free[b] = max(d.free[b], ready)
            else:
                for b in range(begin, end, step):
                    d.free[b] = max(d.free[b], ready)


@bare
def free_from(d, c, low):
    """First clock in which no rule binds command c, whose scope begins at bank `low`."""
    return d.free[c * d.low.shape[1] + low]


def device(table: Table, used: frozenset[str]) -> Device:
    """A channel of the table's device, idle and closed; rules of commands that are not in `used` are left out."""
    size = table.rules.size.tolist()
    banks = size[-1]
    opcode = {table.names.index(name): i for i, name in enumerate(COMMANDS) if name in used & set(table.names)}
    scope = table.rules.scope.tolist()
    step = {i: banks // size[scope[table.names.index(COMMANDS[i])]] for i in opcode.values()}
    records: list[list[tuple[int, ...]]] = [[] for _ in COMMANDS]
    hist = slot = 0
    for row in rule_rows(table.rules):
        following = [opcode[c] for c in row.before if c in opcode]
        for c in (opcode[c] for c in row.after if c in opcode):
            for n in following:
                push = n == following[0]
                records[c].append((n, row.level, row.sibling, row.wait, row.window, hist, slot, push, step[n]))
        if row.window > 1:
            hist, slot = hist + size[row.level] * row.window, slot + size[row.level]
    records = [_needed(rules) for rules in records]
    rule = np.zeros((len(COMMANDS), max(map(len, records)), 9), np.int64)
    for c, rules in enumerate(records):
        rule[c, : len(rules)] = np.array(rules, np.int64).reshape(-1, 9)
    span = [banks // n for n in size]
    return Device(
        free=np.zeros(len(COMMANDS) * banks, np.int64),
        rule=rule,
        n_rules=np.array([len(rules) for rules in records], np.int64),
        low=np.array([[b // s * s for b in range(banks)] for s in span], np.int64),
        span=np.array(span, np.int64),
        hist=np.full(max(hist, 1), NEVER),
        slot=np.zeros(max(slot, 1), np.int64),
    )


def _needed(rules: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The records without those that another one of the same command implies."""

    def implied(a: tuple[int, ...], i: int) -> bool:
        return a[WINDOW] == 1 and (a[WAIT] <= 0 or any(_implies(b, a, j < i) for j, b in enumerate(rules) if j != i))

    return [a for i, a in enumerate(rules) if not implied(a, i)]


def _implies(b: tuple[int, ...], a: tuple[int, ...], earlier: bool) -> bool:
    if b[WINDOW] > 1 or b[NEXT] != a[NEXT] or b[WAIT] < a[WAIT]:
        return False
    if (b[LEVEL], b[SIBLING]) == (a[LEVEL], a[SIBLING]):
        return b[WAIT] > a[WAIT] or earlier
    return not b[SIBLING] and b[LEVEL] < a[LEVEL]
