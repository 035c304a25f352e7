"""A legality monitor: whether a trace of single commands obeys every rule of its table.

It shares nothing with the engine: where that walks from event to event, this sorts the commands of each node and
compares, for one rule at a time, all of them with what came before. It checks timing rules with their windows, one
command a clock on each bus, the rows that commands need, and that refresh is never starved.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Level, Row
from pimloom.arch.table import Rules, Table

TRACE = np.dtype(
    [
        ("cmd", np.int16),
        ("pch", np.int16),
        ("rank", np.int16),
        ("bg", np.int16),
        ("bank", np.int16),
        ("row", np.int32),
        ("clock", np.int64),
    ],
    align=True,
)
"""One command of a channel, issued in `clock` [CK]; coordinates as in STREAM. Sorted by clock; commands of one clock
(on different buses) stand in the order in which they took effect."""

COORDINATES = ("pch", "rank", "bg", "bank")
POSTPONED_MAX = 8  # refreshes; JESD79, JESD250
PIECE = 1 << 20  # commands looked at together; bounds the memory
SHUT = -1  # the row of a bank in which none is open


class Violation(NamedTuple):
    """One broken rule: `at`, the command's place in the trace; `rule`, its number in the table, else -1."""

    at: int
    kind: str  # "rule", "bus", "row" or "refresh"
    rule: int
    sentence: str


def check_trace(table: Table, trace: np.ndarray, *, due_ck: int | None = None, limit: int = 1000) -> list[Violation]:
    """All violations of a TRACE that starts with every bank closed, in trace order; of each rule the first `limit`.

    due_ck: clock in which the first refresh falls due; None: nobody has to refresh. ValueError for what is no trace:
    clocks that run backwards, unknown commands, coordinates outside the channel.
    """
    rules, clock = table.rules, trace["clock"]
    _check_fields(table, trace)
    found: list[Violation] = []
    opened = np.full((int(rules.buffer.max()) + 1, rules.size[-1], 2), SHUT)  # row, and the command that left it so
    reach = int(rules.wait.max(initial=0))
    for start in range(0, len(trace), PIECE):
        base = int(np.searchsorted(clock, clock[start] - reach))  # what may still bind the commands of this piece
        piece = trace[base : start + PIECE]
        for one in (_timing(table, piece, start - base), _buses(table, piece, start - base)):
            found += [v._replace(at=v.at + base) for v in one]
        found += _row_states(table, trace, start, opened)
    if due_ck is not None and len(trace):
        found += _starved(table, trace, due_ck)
    counts: Counter[tuple[str, int]] = Counter()
    kept = []
    for violation in sorted(found):
        counts[violation.kind, violation.rule] += 1
        if counts[violation.kind, violation.rule] <= limit:
            kept.append(violation)
    return kept


def raise_if_illegal(table: Table, trace: np.ndarray, *, due_ck: int | None = None) -> None:
    """RuntimeError with the first sentences, unless `check_trace` finds nothing: a fault of the simulator."""
    if found := check_trace(table, trace, due_ck=due_ck):
        first = "; ".join(v.sentence for v in found[:3])
        raise RuntimeError(f"illegal command trace, {len(found)} violations: {first}")


def expand(
    table: Table,
    streams: Sequence[np.ndarray],
    issue_ck: Sequence[np.ndarray],
    end_ck: Sequence[np.ndarray],
    refresh_ck: np.ndarray,
) -> np.ndarray:
    """The TRACE of STREAM arrays and the first three results of `issue` on them.

    A row of `count` commands must have issued them `gap` apart, but for the refreshes between them. ValueError where
    anything else came between: then the stream has to be issued with every command on a row of its own.
    """
    rules, parts = table.rules, [_refreshes(table.rules, refresh_ck)]
    for number, (rows, first, end) in enumerate(zip(streams, issue_ck, end_ck, strict=True)):
        cmd, count = rows["cmd"], rows["count"].astype(np.int64)
        last, start = end - rules.done[cmd], np.cumsum(count) - count
        of = np.repeat(np.arange(len(rows)), count)
        part = np.zeros(len(of), TRACE)
        for name in ("cmd", *COORDINATES, "row"):
            part[name] = rows[name][of]
        clock = first[of] + (np.arange(len(of)) - start[of]) * rules.gap[cmd][of]
        for i in np.flatnonzero(clock[start + count - 1] != last):
            run = clock[start[i] : start[i] + count[i]]
            _make_way(run, refresh_ck[:, 0], _waits_behind(rules, refresh_ck[:, 1], rows[i]))
            if run[-1] != last[i] or rules.gap[cmd[i]] == 0:
                raise ValueError(
                    f"row {i} of stream {number}: its {count[i]} {table.names[cmd[i]]} from CK {first[i]} to "
                    f"CK {last[i]} are not {rules.gap[cmd[i]]} CK apart; issue the stream with one command a row"
                )
        part["clock"] = clock
        parts.append(part)
    trace = np.concatenate(parts)
    trace = trace[np.argsort(trace["clock"], kind="stable")]
    return trace[~_logged_twice(rules, trace)]


def _make_way(run: np.ndarray, refresh_ck: np.ndarray, waits: np.ndarray) -> None:
    """Move the clocks of a run so that none is at a refresh or less than its wait after it."""
    later_ones = refresh_ck > run[0]
    for clock, wait in zip(refresh_ck[later_ones], waits[later_ones], strict=True):
        later = run[np.searchsorted(run, clock) :]
        later += max(clock + wait - later[0], 0) if len(later) else 0


def _waits_behind(rules: Rules, nodes: np.ndarray, row: np.void) -> np.ndarray:
    """Longest wait [CK] of a stream row for a refresh of each of `nodes`: its own, or others."""
    command, node = row["cmd"], 0
    for level in range(1, int(rules.scope[rules.refresh]) + 1):
        node = node * int(rules.size[level] // rules.size[level - 1]) + int(row[COORDINATES[level - 1]])
    armed, binds = (
        found[ptr[c] : ptr[c + 1]]
        for c, ptr, found in (
            (rules.refresh, rules.after_ptr, rules.after_rule),
            (command, rules.before_ptr, rules.before_rule),
        )
    )
    between = np.intersect1d(armed, binds)
    between = between[rules.sibling[between] == 0]
    shared = between[rules.level[between] < rules.scope[rules.refresh]]  # of a node that holds several refresh nodes
    same_bus = int(rules.bus[command] == rules.bus[rules.refresh])
    own, other = (int(rules.wait[some].max(initial=same_bus)) for some in (between, shared))
    return np.where(nodes == node, own, other)


def _refreshes(rules: Rules, refresh_ck: np.ndarray) -> np.ndarray:
    """REFab as TRACE, from clocks and nodes."""
    found = np.zeros(len(refresh_ck), TRACE)
    found["cmd"], found["clock"] = rules.refresh, refresh_ck[:, 0]
    fan, node = rules.size[1:] // rules.size[:-1], refresh_ck[:, 1]
    for level in range(int(rules.scope[rules.refresh]), 0, -1):
        node, found[COORDINATES[level - 1]] = np.divmod(node, fan[level - 1])
    return found


def _logged_twice(rules: Rules, trace: np.ndarray) -> np.ndarray:
    """The log of refreshes also holds the REFab that a stream brought itself; a bus takes one a clock."""
    ref = trace["cmd"] == rules.refresh
    at, twice = np.flatnonzero(ref), np.zeros(len(trace), bool)
    twice[at[1:]] = trace["clock"][at[1:]] == trace["clock"][at[:-1]]
    return twice


def _check_fields(table: Table, trace: np.ndarray) -> None:
    rules, clock = table.rules, trace["clock"]
    if len(back := np.flatnonzero(clock[1:] < clock[:-1])):
        raise ValueError(f"the trace is not sorted: CK {clock[back[0] + 1]} follows CK {clock[back[0]]}")
    limits = (len(table.names), *(rules.size[1:] // rules.size[:-1]))
    for level, (name, limit) in enumerate(zip(("cmd", *COORDINATES), limits, strict=True)):
        value = trace[name]
        outside = (value < 0) | (value >= limit)
        if level:
            outside &= rules.scope[trace["cmd"]] >= level
        if outside.any():
            i = int(np.argmax(outside))
            raise ValueError(f"command {i}: {name} {value[i]} is outside 0 to {limit - 1}")


def _nodes(rules: Rules, trace: np.ndarray) -> np.ndarray:
    """Number of each command's node at every level, int64[5, n]; meaningless below the command's scope."""
    fan = rules.size[1:] // rules.size[:-1]
    nodes = np.zeros((5, len(trace)), np.int64)
    for level, name in enumerate(COORDINATES, start=1):
        nodes[level] = nodes[level - 1] * fan[level - 1] + trace[name]
    return nodes


def _members(ptr: np.ndarray, which: np.ndarray, rules: int) -> np.ndarray:
    """bool[rules, commands] of a CSR list by command."""
    found = np.zeros((rules, len(ptr) - 1), bool)
    found[which, np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))] = True
    return found


def _timing(table: Table, trace: np.ndarray, start: int) -> Iterator[Violation]:
    """Broken timing rules of the commands from `start` on."""
    rules, cmd = table.rules, trace["cmd"]
    total = len(rules.wait)
    afters = _members(rules.after_ptr, rules.after_rule, total)
    befores = _members(rules.before_ptr, rules.before_rule, total)
    present = np.bincount(cmd, minlength=len(table.names)) > 0
    alive = (rules.wait > 0) & (afters & present).any(axis=1) & (befores & present).any(axis=1)
    nodes, scope = _nodes(rules, trace), rules.scope[cmd]
    wide = (befores & (rules.scope < rules.level[:, None]) & present).any(axis=1)
    for r in np.flatnonzero(alive & (wide | (rules.sibling > 0))):
        for i, j in _far_apart(rules, r, nodes, scope, trace["clock"], afters[r][cmd], befores[r][cmd]):
            if i >= start:
                said = _waited(table, trace[i], trace[j], int(rules.window[r]), int(rules.wait[r]))
                yield Violation(i, "rule", int(r), said)
    alive &= ~wide & (rules.sibling == 0)
    for level in Level:
        mine = np.flatnonzero(alive & (rules.level == level))
        if not len(mine):
            continue
        inside = np.flatnonzero(scope >= level)
        order = inside[np.argsort(nodes[level, inside], kind="stable")]  # node by node, each in trace order
        c, t, node = cmd[order], trace["clock"][order], nodes[level, order]
        for r in mine:
            window, wait = int(rules.window[r]), int(rules.wait[r])
            is_after = afters[r][c]
            a, b = np.flatnonzero(is_after), np.flatnonzero(befores[r][c])
            nth = (np.cumsum(is_after) - is_after)[b] - window  # place in `a` of the window-th latest before b
            b, nth = b[nth >= 0], nth[nth >= 0]
            a = a[nth]
            broken = (t[b] - t[a] < wait) & (node[a] == node[b])
            for i, j in zip(order[b[broken]], order[a[broken]], strict=True):
                if i >= start:
                    yield Violation(int(i), "rule", int(r), _waited(table, trace[i], trace[j], window, wait))


def _far_apart(
    rules: Rules, rule: int, nodes: np.ndarray, scope: np.ndarray, clock: np.ndarray, after: np.ndarray,
    before: np.ndarray,
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """(command, the earlier one it follows too soon) of a rule between siblings, or of commands of several nodes.

    nodes, scope, clock: of each command; after, before: whether it arms the rule, or is bound by it.
    """
    level, window, wait = int(rules.level[rule]), int(rules.window[rule]), int(rules.wait[rule])
    own = np.minimum(scope, level)
    per = rules.size[level] // rules.size[own]
    first = nodes[own, np.arange(len(own))] * per
    last = first + per - 1
    fan = int(rules.size[level] // rules.size[level - 1]) if rules.sibling[rule] else 1
    for node in np.unique(first[after]):
        if rules.sibling[rule]:
            low, high = np.maximum(first, node // fan * fan), np.minimum(last, node // fan * fan + fan - 1)
            bound = (low <= high) & ~((low == node) & (high == node))
        else:
            bound = (first <= node) & (node <= last)
        a, b = np.flatnonzero(after & (first == node)), np.flatnonzero(before & bound)
        nth = np.searchsorted(a, b) - window  # place in `a` of the window-th latest before b
        b, nth = b[nth >= 0], nth[nth >= 0]
        broken = clock[b] - clock[a[nth]] < wait
        yield from zip(b[broken].tolist(), a[nth[broken]].tolist(), strict=True)


def _buses(table: Table, trace: np.ndarray, start: int) -> Iterator[Violation]:
    """Second commands of a clock on one bus, from `start` on."""
    bus = table.rules.bus[trace["cmd"]]
    for each in np.unique(bus):
        on = np.flatnonzero(bus == each)
        for k in np.flatnonzero(np.diff(trace["clock"][on]) == 0):
            if on[k + 1] >= start:
                first, second = trace[on[k]], trace[on[k + 1]]
                said = f"{_said(table, second)} at CK {second['clock']}: its bus carries {_said(table, first)}"
                yield Violation(int(on[k + 1]), "bus", -1, said)


def _row_states(table: Table, trace: np.ndarray, start: int, opened: np.ndarray) -> list[Violation]:
    """Commands of the piece at `start` whose rows are not as they need them; moves `opened` to the piece's end.

    opened: int64[buffers, banks, 2], the open row of each bank, and which command left it so.
    """
    rules = table.rules
    works = (rules.needs != Row.ANY) | (rules.leaves != Row.ANY)
    at = start + np.flatnonzero(works[trace["cmd"][start : start + PIECE]])
    cmd, row = trace["cmd"][at], trace["row"][at].astype(np.int64)
    scope = rules.scope[cmd]
    own = _nodes(rules, trace[at])[scope, np.arange(len(at))]
    needs, leaves, buffer = rules.needs[cmd], rules.leaves[cmd], rules.buffer[cmd]
    opens, shuts, moving = needs == Row.OPEN, needs == Row.CLOSED, leaves != Row.ANY
    after = np.where(leaves == Row.OPEN, row, SHUT)
    found: dict[int, Violation] = {}
    for buf, bank in np.ndindex(opened.shape[:2]):
        above = bank // (rules.size[-1] // rules.size)  # the bank's node at each level
        here = np.flatnonzero((own == above[scope]) & (buffer == buf))
        if not len(here):
            continue
        moves = moving[here]
        movers = np.concatenate([[-1], here[moves]])
        last = movers[np.cumsum(moves) - moves]  # the latest before each that moved the bank's row
        state = np.where(last < 0, opened[buf, bank, 0], after[last])
        wrong = (opens[here] & (state != row[here])) | (shuts[here] & (state != SHUT))
        for k in np.flatnonzero(wrong):
            i, by = here[k], at[last[k]] if last[k] >= 0 else opened[buf, bank, 1]
            if i not in found:
                said = _unfit(table, trace[at[i]], bank, int(state[k]), trace[by] if by >= 0 else None)
                found[i] = Violation(int(at[i]), "row", -1, said)
        if moves.any():
            opened[buf, bank] = after[movers[-1]], at[movers[-1]]
    return list(found.values())


def _starved(table: Table, trace: np.ndarray, due_ck: int) -> Iterator[Violation]:
    """Refreshes that issue, or have still not issued when the trace ends, while more than eight are due."""
    rules = table.rules
    at = np.flatnonzero(trace["cmd"] == rules.refresh)
    level = rules.scope[rules.refresh]
    node = _nodes(rules, trace[at])[level]
    for each in range(rules.size[level]):
        mine = np.append(at[node == each], len(trace) - 1)  # the one after the last would issue after the end
        due = due_ck + np.arange(len(mine)) * rules.refi
        for k in np.flatnonzero(trace["clock"][mine] >= due + POSTPONED_MAX * rules.refi):
            verb = "issues" if k < len(mine) - 1 else "has not issued"
            said = f"refresh {k + 1} of node {each}, due at CK {due[k]}, {verb} at CK {trace['clock'][mine[k]]}"
            yield Violation(int(mine[k]), "refresh", -1, f"{said}: more than {POSTPONED_MAX} are postponed")


def _said(table: Table, command: np.void) -> str:
    """A command with the coordinates its scope uses: `RD bg 2 bank 1`."""
    rules, words = table.rules, [table.names[command["cmd"]]]
    for level, name in enumerate(COORDINATES, start=1):
        several = rules.size[level] > rules.size[level - 1]
        if rules.scope[command["cmd"]] >= level and (several or name in ("bg", "bank")):
            words.append(f"{name} {command[name]}")
    return " ".join(words)


def _waited(table: Table, command: np.void, earlier: np.void, window: int, wait: int) -> str:
    gap, name, before = command["clock"] - earlier["clock"], table.names[command["cmd"]], table.names[earlier["cmd"]]
    nth = f"the {window} latest, first " if window > 1 else ""
    said = f"{_said(table, command)} at CK {command['clock']}: {gap} CK after {nth}{before} at CK {earlier['clock']}"
    return f'{said}, rule "{before} to {name}" needs {wait}'


def _unfit(table: Table, command: np.void, bank: int, state: int, by: np.void | None) -> str:
    where = f" in bank {bank} of the channel" if table.rules.scope[command["cmd"]] < Level.BANK else ""
    needs = "closed rows" if table.rules.needs[command["cmd"]] == Row.CLOSED else f"row {command['row']} open"
    if by is None:
        did = "nothing opened it"
    else:
        what = f"opened row {state}" if state != SHUT else "closed it"
        did = f"{table.names[by['cmd']]} {what} at CK {by['clock']}"
    return f"{_said(table, command)} at CK {command['clock']} needs {needs}{where}, but {did}"
