"""What a command makes other commands wait for: as `cycle_sim.dram.kernels.device`, but each rule binds one node, which
is known for each bank.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import DEPTH, FIELDS, NEXT_IN, PUSH, RING, WAIT, WINDOW
from pimloom.cycle_sim.npu_pim.kernels.fields import NODE_PLACES


@bare
def arm(dev, c, bank, at):
    """Note that command c issued at clock `at`; bank: any bank of its scope.

    first_rule[2 * c]: where its rules begin that bind from the last issue on; first_rule[2 * c + 1]: those that count.
    """
    rule, place, first = dev.rule, dev.place, dev.first_rule
    i, counting, end = first[2 * c], first[2 * c + 1], first[2 * c + 2]
    while i < counting:
        _bind(dev.bound, place[i, bank], at + rule[i * FIELDS + WAIT])
        i += 1
    while i < end:
        r = i * FIELDS
        counted = _counted(dev, r, dev.path[bank, rule[r + DEPTH]] // NODE_PLACES, at)
        _bind(dev.bound, place[i, bank], counted + rule[r + WAIT])
        i += 1


@bare
def _bind(bound, place, ready):
    """A node lets a command pass at clock `ready` or later."""
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
