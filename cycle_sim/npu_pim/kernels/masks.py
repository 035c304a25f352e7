"""Masks of banks, a bit each."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import CHILD, COLUMNS, MOST, REST
from pimloom.cycle_sim.npu_pim.kernels import fields as f

ONES = (1 << 32) - 1


@bare
def count(mask):
    """Bits of a mask that are set."""
    mask -= mask >> 1 & 0x55555555
    mask = (mask & 0x33333333) + (mask >> 2 & 0x33333333)
    mask = mask + (mask >> 4) & 0x0F0F0F0F
    return (mask * 0x01010101 & ONES) >> 24


@bare
def rank_mask(ch, r):
    """Mask of the banks of rank r."""
    each = ch.policy[f.PER_RANK]
    return ((1 << each) - 1) << (r * each)


@bare
def is_free(dev, c, b, t):
    """Whether no rule binds command c for bank b at clock t: `device.free_from(dev, c, b) <= t`, which looks on."""
    return dev.bound[c] <= t and _is_free_from(dev, c, b, t, 1)


@bare
def is_free_inside(ch, c, b, t):
    """The same, where `ranks_free` says that no rule of channel or rank binds the command."""
    return _is_free_from(ch.device, c, b, t, 2 if ch.policy[f.RANKS] > 1 else 1)


@bare
def _is_free_from(dev, c, b, t, depth):
    """Whether no rule of a depth or a deeper one binds command c for bank b at clock t."""
    parent = dev.path[b, depth - 1]
    for d in range(depth, dev.path.shape[1]):
        n = dev.path[b, d]
        if dev.bound[n * COLUMNS + c] > t or (dev.aside[parent] and _is_bound_beside(dev, parent, n, c, t)):
            return False
        parent = n
    return True


@bare
def _is_bound_beside(dev, parent, n, c, t):
    """Whether the siblings of node n bind command c at clock t."""
    place = 3 * (parent * COLUMNS + c)
    return dev.beside[place + MOST] > t and (dev.beside[place + CHILD] != n or dev.beside[place + REST] > t)


@bare
def ranks_free(ch, c, t):
    """Mask of the banks of the ranks in which no rule of channel or rank binds command c at clock t."""
    dev, ranks, each, free = ch.device, ch.policy[f.RANKS], ch.policy[f.PER_RANK], 0
    if dev.bound[c] > t:
        return free
    mask = (1 << each) - 1
    if ranks == 1:
        return mask
    aside = dev.aside[0] != 0 and dev.beside[3 * c + MOST] > t
    for n in range(1, ranks + 1):
        alone = not aside or (dev.beside[3 * c + CHILD] == n and dev.beside[3 * c + REST] <= t)
        if alone and dev.bound[n * COLUMNS + c] <= t:
            free |= mask
        mask <<= each
    return free
