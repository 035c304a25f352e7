"""What a command makes other commands wait for: as `cycle_sim.dram.kernels.device`, with plain rules first."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import (
    CHILD,
    COLUMNS,
    COUNTS,
    DEPTH,
    FIELDS,
    KIND,
    MOST,
    NEXT,
    NEXT_IN,
    PUSH,
    REST,
    RING,
    SIBLINGS,
    WAIT,
    WINDOW,
)


@bare
def arm(dev, c, bank, at):
    """Note that command c issued at clock `at`; bank: any bank of its scope.

    first_rule[2 * c]: where its plain rules begin, which bind nodes from the last issue on; first_rule[2 * c + 1]: the
    others.
    """
    bound, path, rule = dev.bound, dev.path, dev.rule
    for i in range(dev.first_rule[2 * c], dev.first_rule[2 * c + 1]):
        r = i * FIELDS
        place, ready = path[bank, rule[r + DEPTH]] * COLUMNS + rule[r + NEXT], at + rule[r + WAIT]
        if bound[place] < ready:
            bound[place] = ready
    for i in range(dev.first_rule[2 * c + 1], dev.first_rule[2 * c + 2]):
        _arm_other(dev, i * FIELDS, bank, at)


@bare
def _arm_other(dev, r, bank, at):
    """As `arm`, of the rule at r."""
    bound, path, rule = dev.bound, dev.path, dev.rule
    d, ready = rule[r + DEPTH], at + rule[r + WAIT]
    n = path[bank, d]
    if rule[r + KIND] & COUNTS:
        ready = _count(dev, r, n, at) + rule[r + WAIT]
    if rule[r + KIND] & SIBLINGS:
        _bind_siblings(dev.beside, path[bank, d - 1] * COLUMNS + rule[r + NEXT], n, ready)
    else:
        place = n * COLUMNS + rule[r + NEXT]
        bound[place] = max(bound[place], ready)


@bare
def _count(dev, r, n, at):
    """Note an issue of a rule that counts; returns the oldest that it looks back to."""
    rule, ring = dev.rule, dev.ring
    first, x = rule[r + RING] + n * rule[r + WINDOW], rule[r + NEXT_IN] + n
    if rule[r + PUSH]:
        ring[first + ring[x]] = at
        ring[x] = ring[x] + 1 if ring[x] + 1 < rule[r + WINDOW] else 0
    return ring[first + ring[x]]  # the place to be written next


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
