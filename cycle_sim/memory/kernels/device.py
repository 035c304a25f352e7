"""The device as a controller sees it: for each command and bank the first clock in which no rule binds it.

A channel `ch` has of it: free[command * banks + bank], the first legal clock [CK]; of a command of a wider scope only
at its first bank. rule[command, k]: what issuing it delays. low[level, bank]: first bank of the node that holds the
bank; low[level, banks]: banks of a node. ring: the last issues, for rules that count more than one.
"""

import numpy as np

from pimloom.arch.table import Table, rule_rows
from pimloom.cycle_sim.memory.kernels.compiled import bare

FAR = np.int64(1) << 60
NEVER = -FAR

COMMANDS = ("ACT", "PRE", "RD", "WR", "RDA", "WRA", "REFab", "REFpb", "SRE", "SRX", "PREab")
ACT, PRE, RD, WR, RDA, WRA, REFAB, REFPB, SRE, SRX, PREAB = range(len(COMMANDS))
# rule[command, k]; RING: where the issues of its window begin, NEXT_IN: where the places to be written next; PUSH: it
# is the first record of its window; STEP: banks in the scope of NEXT. rule[command, 0, LENGTH]: how many there are
NEXT, LEVEL, SIBLING, WAIT, WINDOW, RING, NEXT_IN, PUSH, STEP, LENGTH = range(10)


@bare
def arm(ch, c, bank, at):
    """Note that command c issued at clock `at`; bank: any bank of its scope."""
    banks, rule, low = ch.low.shape[1] - 1, ch.rule, ch.low
    for k in range(rule[c, 0, LENGTH]):
        level, ready = rule[c, k, LEVEL], at + rule[c, k, WAIT]
        first, span, window = low[level, bank], low[level, banks], rule[c, k, WINDOW]
        if window > 1:
            node = first // span
            h, x = rule[c, k, RING] + node * window, rule[c, k, NEXT_IN] + node
            if rule[c, k, PUSH]:
                ch.ring[h + ch.ring[x]] = at
                ch.ring[x] = ch.ring[x] + 1 if ch.ring[x] + 1 < window else 0
            ready = ch.ring[h + ch.ring[x]] + rule[c, k, WAIT]  # the place to be written next holds the oldest
        n, sibling, step = rule[c, k, NEXT] * banks, rule[c, k, SIBLING], rule[c, k, STEP]
        begin, end = n + first, n + first + span
        for part in range(1 + sibling):
            if sibling:  # all of the parent but the node itself
                parent = low[level - 1, bank]
                begin = n + (first + span if part else parent)
                end = n + (parent + low[level - 1, banks] if part else first)
            if step == 1:
                for b in range(begin, end):
                    ch.free[b] = max(ch.free[b], ready)
            else:
                for b in range(begin, end, step):
                    ch.free[b] = max(ch.free[b], ready)


@bare
def free_from(ch, c, low):
    """First clock in which no rule binds command c, whose scope begins at bank `low`."""
    return ch.free[c * (ch.low.shape[1] - 1) + low]


def device(table: Table, used: frozenset[str]) -> dict[str, np.ndarray]:
    """free, rule, low and ring of a channel, idle and closed; rules of commands that are not `used` are left out."""
    size, scope = table.rules.size.tolist(), table.rules.scope.tolist()
    banks = size[-1]
    opcode = {table.names.index(name): i for i, name in enumerate(COMMANDS) if name in used & set(table.names)}
    step = {i: banks // size[scope[table.names.index(COMMANDS[i])]] for i in opcode.values()}
    records: list[list[tuple[int, ...]]] = [[] for _ in COMMANDS]
    rows = rule_rows(table.rules)
    ring, place = 0, sum(size[row.level] * row.window for row in rows if row.window > 1)
    length = place + sum(size[row.level] for row in rows if row.window > 1)
    for row in rows:
        following = [opcode[c] for c in row.before if c in opcode]
        for c in (opcode[c] for c in row.after if c in opcode):
            for n in following:
                where = (ring, place, n == following[0], step[n])
                records[c].append((n, row.level, row.sibling, row.wait, row.window, *where, 0))
        if row.window > 1:
            ring, place = ring + size[row.level] * row.window, place + size[row.level]
    records = [_needed(rules) for rules in records]
    rule = np.zeros((len(COMMANDS), max(1, *map(len, records)), 10), np.int64)
    for c, rules in enumerate(records):
        rule[c, : len(rules)] = np.array(rules, np.int64).reshape(-1, 10)
        rule[c, 0, LENGTH] = len(rules)
    held = np.full(max(length, 1), NEVER)
    held[ring:] = 0
    return {
        "free": np.zeros(len(COMMANDS) * banks, np.int64),
        "rule": rule,
        "low": np.array([[*(b // s * s for b in range(banks)), s] for s in (banks // n for n in size)], np.int64),
        "ring": held,
    }


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
