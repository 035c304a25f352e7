"""What a command makes other commands wait for: as `cycle_sim.dram.kernels.device`, with plain rules first."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import COLUMNS, DEPTH, FIELDS, NEXT, WAIT, arm_rule


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
        arm_rule(dev, i * FIELDS, bank, at)
