"""The rules of a channel as its kernels read them: few for each command, and each binds one node."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np

from pimloom.arch.table import Table
from pimloom.cycle_sim.dram.kernels.device import (
    COUNTS,
    DEPTH,
    FIELDS,
    KIND,
    NEXT,
    PLAIN,
    PUSH,
    SIBLINGS,
    WAIT,
    Shape,
    device,
    shape_of,
)
from pimloom.cycle_sim.npu_pim.kernels import fields as f

Rule = tuple[int, ...]
AWAY = FIELDS  # a rule's last place: how many places beyond its node the one that it binds is, in the ring of siblings


def device_of(table: Table, names: Sequence[str]) -> f.Device:
    """The rules of an idle channel between commands of these names."""
    arrays, shape = device(table, frozenset(names) & frozenset(table.names), {}, names), shape_of(table)
    records = [tuple(record) for record in arrays["rule"].reshape(-1, FIELDS).tolist()]
    each = [list(one_by_one(plainer(records[a:b]), shape)) for a, b in pairwise(arrays["first_rule"].tolist())]
    path = np.zeros((len(arrays["path"]), f.PATH_PLACES), np.uint32)
    path[:, : len(shape.sizes)] = arrays["path"] * f.NODE_PLACES
    ordered, first = _counting_last(each)
    rule = np.array([rule[:FIELDS] for rule in ordered] or [(0,) * FIELDS], np.int64)
    bound, place = np.zeros(shape.nodes * f.NODE_PLACES, np.int64), _places(ordered, arrays["path"], shape)
    return f.Device(path, bound, place, rule.ravel(), first, arrays["ring"])


def _places(rules: Sequence[Rule], path: np.ndarray, shape: Shape) -> np.ndarray:
    """uint32[rules, MOST_BANKS]: the place in `bound` that each rule binds when its command issues to each bank."""
    following, found = ring_of_siblings(shape), np.zeros((max(len(rules), 1), f.MOST_BANKS), np.uint32)
    for i, rule in enumerate(rules):
        node = path[:, rule[DEPTH]]
        for _ in range(rule[AWAY]):
            node = following[node]
        found[i, : len(path)] = node * f.NODE_PLACES + rule[NEXT]
    return found


def plainer(rules: Sequence[Rule]) -> list[Rule]:
    """The rules of a command with plain ones as far out as they go, and in place of those for siblings where they can
    be; those that others imply are left out. Each bank is bound as it was."""
    found = list(dict.fromkeys(rules))
    while further := next(_further_out(found), None):
        found = list(dict.fromkeys(further[1] if a is further[0] else a for a in found))
    plain = [a for a in found if a[KIND] == PLAIN]
    kept = [a for a in found if a[KIND] != PLAIN or _longest(plain, a, a[DEPTH] - 1) < a[WAIT]]
    return [a for a in kept if a[KIND] != PLAIN or _longest(plain, a, a[DEPTH]) == a[WAIT]]


def _further_out(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """A rule, and one for the parent of its node that may take its place: if node and siblings wait as long as it says,
    or longer, so may all that the parent holds."""
    plain, beside = ([a for a in rules if a[KIND] == kind] for kind in (PLAIN, SIBLINGS))
    for a in beside:
        if _longest(plain, a, a[DEPTH]) >= a[WAIT]:
            yield a, _changed(a, {DEPTH: a[DEPTH] - 1, KIND: PLAIN})
    for a in plain:
        if any(b[NEXT] == a[NEXT] and b[DEPTH] == a[DEPTH] and b[WAIT] >= a[WAIT] for b in beside):
            yield a, _changed(a, {DEPTH: a[DEPTH] - 1})


def _longest(plain: Sequence[Rule], rule: Rule, depth: int) -> int:
    """The longest wait for the command of a rule that plain rules of a depth or of one above it ask for; 0: none."""
    return max((a[WAIT] for a in plain if a[NEXT] == rule[NEXT] and a[DEPTH] <= depth), default=0)


def _changed(rule: Rule, to: dict[int, int]) -> Rule:
    return tuple(to.get(place, x) for place, x in enumerate(rule))


def one_by_one(rules: Sequence[Rule], shape: Shape) -> Iterator[Rule]:
    """The rules with AWAY behind them; one for a node's siblings is one for each of them. Counts are kept once."""
    for rule in rules:
        if not rule[KIND] & SIBLINGS:
            yield (*rule, 0)
            continue
        children = shape.sizes[rule[DEPTH]] // shape.sizes[rule[DEPTH] - 1]
        for away in range(1, children):
            yield (*_changed(rule, {PUSH: rule[PUSH] if away == 1 else 0}), away)


def ring_of_siblings(shape: Shape) -> np.ndarray:
    """uint32[nodes]: the node after each among the children of its parent, the first one after the last."""
    found = np.zeros(shape.nodes, np.uint32)
    for _, first, n in shape.children():
        found[first : first + n] = first + (np.arange(n) + 1) % n
    return found


def _counting_last(each: Sequence[Sequence[Rule]]) -> tuple[list[Rule], np.ndarray]:
    """The rules of all commands, and `first_rule` as `kernels.rules` reads it: those of a command that count behind."""
    ordered, where = list[Rule](), list[int]()
    for begin, rules in zip(accumulate(map(len, each), initial=0), each, strict=False):
        direct = [a for a in rules if not a[KIND] & COUNTS]
        ordered += [*direct, *(a for a in rules if a[KIND] & COUNTS)]
        where += [begin, begin + len(direct)]
    return ordered, np.array([*where, len(ordered)])
