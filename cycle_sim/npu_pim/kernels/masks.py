"""Masks of banks, a bit each."""

from pimloom.cycle_sim.compiled.kernel import bare
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
def free_from(ch, c, b):
    """First clock in which no rule binds command c for bank b."""
    dev, d, depths = ch.device, 1, ch.policy[f.DEPTHS]
    t, path = dev.bound[c], dev.path[b]
    while d < depths:
        t = max(t, dev.bound[path[d] + c])
        d += 1
    return t


@bare
def is_free(ch, c, b, t):
    """Whether no rule binds command c for bank b at clock t: `free_from(ch, c, b) <= t`, which looks on."""
    return ch.device.bound[c] <= t and _is_free_below(ch, c, b, t, 1)


@bare
def is_free_inside(ch, c, b, t):
    """The same, where `ranks_free` says that no rule of channel or rank binds the command."""
    return _is_free_below(ch, c, b, t, 2 if ch.policy[f.RANKS] > 1 else 1)


@bare
def _is_free_below(ch, c, b, t, depth):
    """Whether no rule of a depth or a deeper one binds command c for bank b at clock t."""
    dev = ch.device
    path, depths = dev.path[b], ch.policy[f.DEPTHS]
    while depth < depths:
        if dev.bound[path[depth] + c] > t:
            return False
        depth += 1
    return True


@bare
def ranks_free(ch, c, t):
    """Mask of the banks of the ranks in which no rule of channel or rank binds command c at clock t."""
    bound, ranks, each, free = ch.device.bound, ch.policy[f.RANKS], ch.policy[f.PER_RANK], 0
    if bound[c] > t:
        return free
    mask, n = (1 << each) - 1, 1
    if ranks == 1:
        return mask
    while n <= ranks:
        if bound[n * f.NODE_PLACES + c] <= t:
            free |= mask
        mask <<= each
        n += 1
    return free
