"""A legality monitor: whether a trace of single commands obeys every rule of its table.

It shares nothing with the engine: where that walks from event to event, this sorts the commands of each node and
compares, for one rule at a time, all of them with what came before. It checks timing rules with their windows, one
command a clock on each bus, the rows that commands need, and that refresh is never starved.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Level, Row
from pimloom.arch.table import Rules, Table
from pimloom.cycle_sim.dram.trace import COORDINATES

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
        for one in (_timing(table, piece, start - base, limit), _buses(table, piece, start - base)):
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


def _timing(table: Table, trace: np.ndarray, start: int, limit: int) -> Iterator[Violation]:
    """Broken timing rules of the commands from `start` on; of each at least the first `limit`, if there are as many."""
    rules, cmd = table.rules, trace["cmd"]
    total = len(rules.wait)
    afters = _members(rules.after_ptr, rules.after_rule, total)
    befores = _members(rules.before_ptr, rules.before_rule, total)
    present = np.bincount(cmd, minlength=len(table.names)) > 0
    alive = (rules.wait > 0) & (afters & present).any(axis=1) & (befores & present).any(axis=1)
    nodes, scope = _nodes(rules, trace), rules.scope[cmd]
    wide = (befores & (rules.scope < rules.level[:, None]) & present).any(axis=1)
    for rule in np.flatnonzero(alive & (wide | (rules.sibling > 0))).tolist():
        pairs = _far_apart(rules, rule, nodes, scope, trace["clock"], afters[rule][cmd], befores[rule][cmd])
        for i, j in _first(np.array(list(pairs), np.int64).reshape(-1, 2), start, limit):
            said = _waited(table, trace[i], trace[j], int(rules.window[rule]), int(rules.wait[rule]))
            yield Violation(i, "rule", rule, said)
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
            if not broken.any():
                continue
            for i, j in _first(np.stack([order[b[broken]], order[a[broken]]], axis=1), start, limit):
                yield Violation(i, "rule", int(r), _waited(table, trace[i], trace[j], window, wait))


def _first(pairs: np.ndarray, start: int, limit: int) -> list[tuple[int, int]]:
    """Those of [command, what it follows] whose command is one of the first `limit` from `start` on."""
    pairs = pairs[pairs[:, 0] >= start]
    if 0 < limit < len(pairs):
        pairs = pairs[pairs[:, 0] <= np.partition(pairs[:, 0], limit - 1)[limit - 1]]
    return [(i, j) for i, j in pairs.tolist()]


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
    if not len(at):
        return []
    cmd, row = trace["cmd"][at], trace["row"][at].astype(np.int64)
    scope = rules.scope[cmd]
    own = _nodes(rules, trace[at])[scope, np.arange(len(at))]
    needs, leaves = rules.needs[cmd], rules.leaves[cmd]
    opens, shuts, moving = needs == Row.OPEN, needs == Row.CLOSED, leaves != Row.ANY
    after = np.where(leaves == Row.OPEN, row, SHUT)
    found: dict[int, Violation] = {}
    banks, touched = rules.size[-1] // rules.size, np.zeros(opened.shape[:2], bool)
    nodes = np.zeros((*touched.shape, len(banks)), bool)  # which a command acts on, at their first bank
    lowest, highest = (each[cmd] for each in rules.needed)
    for buf in range(len(nodes)):
        its = (lowest <= buf) & (buf <= highest)
        nodes[buf, (own * banks[scope])[its], scope[its]] = True
    for buf, first, level in np.argwhere(nodes).tolist():
        touched[buf, first : first + banks[level]] = True
    like = dict[tuple[int, bytes, bytes], np.ndarray]()  # banks that stood alike and saw the same commands: at the end
    for buf, bank in np.argwhere(touched).tolist():
        above = bank // banks  # the bank's node at each level
        here = np.flatnonzero((own == above[scope]) & (lowest <= buf) & (buf <= highest))
        if not len(here):
            continue
        key = buf, blake2b(here.tobytes(), digest_size=16).digest(), opened[buf, bank].tobytes()
        if key in like:  # what is wrong has been said of the first of them
            opened[buf, bank] = like[key]
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
        like[key] = opened[buf, bank].copy()
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
