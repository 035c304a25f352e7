"""What a command makes other commands wait for: as `cycle_sim.dram.kernels.device`, with plain rules first.

A rule binds a node of the channel, of those that hold its bank or, AWAY, as many places further among the children of
the same parent, which follow each other in a ring.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import (
    COLUMNS,
    COUNTS,
    DEPTH,
    FIELDS,
    KIND,
    NEXT,
    NEXT_IN,
    PUSH,
    RING,
    WAIT,
    WINDOW,
)

AWAY, LONG = FIELDS, FIELDS + 1  # of a rule


@bare
def arm(dev, c, bank, at):
    """Note that command c issued at clock `at`; bank: any bank of its scope.

    first_rule[2 * c]: where its plain rules begin, which bind nodes that hold the bank from the last issue on;
    first_rule[2 * c + 1]: the others. sibling[n]: the node after n.
    """
    path, rule = dev.path, dev.rule
    for i in range(dev.first_rule[2 * c], dev.first_rule[2 * c + 1]):
        r = i * LONG
        _bind(dev.bound, path[bank, rule[r + DEPTH]], rule[r + NEXT], at + rule[r + WAIT])
    for i in range(dev.first_rule[2 * c + 1], dev.first_rule[2 * c + 2]):
        r = i * LONG
        n = path[bank, rule[r + DEPTH]]
        ready = (_counted(dev, r, n, at) if rule[r + KIND] & COUNTS else at) + rule[r + WAIT]
        for _ in range(rule[r + AWAY]):
            n = dev.sibling[n]
        _bind(dev.bound, n, rule[r + NEXT], ready)


@bare
def _bind(bound, n, k, ready):
    """Node n lets a command of column k pass at clock `ready` or later."""
    place = n * COLUMNS + k
    if bound[place] < ready:
        bound[place] = ready


@bare
def _counted(dev, r, n, at):
    """The clock from which the rule at r counts, if the last issue in node n is at clock `at`."""
    rule, ring = dev.rule, dev.ring
    first, x = rule[r + RING] + n * rule[r + WINDOW], rule[r + NEXT_IN] + n
    if rule[r + PUSH]:
        ring[first + ring[x]] = at
        ring[x] = ring[x] + 1 if ring[x] + 1 < rule[r + WINDOW] else 0
    return ring[first + ring[x]]  # the place to be written next holds the oldest
