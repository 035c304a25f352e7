"""Blocks of the NPU's memory: where they lie, in which order their lines leave, and how requests enter a channel.

Lines of 64 B go to the channels in turn; in a channel, to the columns of a row, then to the next bank, then to the next
row. NeuPIMs' simulator sends the lines of one block in the order in which its hash set happens to hold them.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels import hash_set
from pimloom.cycle_sim.npu_pim.kernels.clocks import PASSAGE, clock_after, steps_before
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom
from pimloom.cycle_sim.npu_pim.kernels.words import word_of


@bare
def send_block(p, chs, b, t):
    """The lines of block b leave the core at clock t; returns whether they found room."""
    block, npu = p.block[b], p.npu
    op, group, write = p.op[block[k.BLOCK_OP]], block[k.BLOCK_GROUP], block[k.ACCESS] == f.WR
    if block[k.SIZE] == 0:
        op[k.LEFT] -= 1
        return True
    start = op[k.BASE] + block[k.AT]
    if npu[k.IN_ORDER]:
        start = npu[k.NEXT_BYTE]
        npu[k.NEXT_BYTE] = (start + block[k.SIZE]) % npu[k.WRAP]
    first, n = lines_of(npu, start, block[k.SIZE])
    lines = npu[k.WRAP] // npu[k.LINE]
    if npu[k.HASHED]:
        n = min(n, lines)  # a set holds each once
        order_lines(p, first, n, lines)
    to = op[k.STORES if write else k.PORT], leaves(chs, t), arrives(chs, t), group
    if npu[k.HASHED] or chs.state[0, f.PATH]:  # an interconnect takes them one by one
        found_room = _send_lines(p, chs, first, n, write, to)
    else:
        found_room = _send_runs(npu, chs, first, n, write, to)
    if not found_room:
        return False
    chs.left[group] += n
    chs.open[block[k.BLOCK_OP]] += n
    op[k.REQUESTS] += n
    return True


@bare
def _send_lines(p, chs, first, n, write, to):
    """n lines from line `first` on leave, one by one in the order of `order_lines` or their own; returns whether they
    found room. to: port, see `leaves` and `arrives`, group."""
    npu, words = p.npu, p.packed
    lines, bits = npu[k.WRAP] // npu[k.LINE], npu[k.CHANNEL_BITS]
    start, channels = first % lines, (1 << bits) - 1
    before, behind = start & channels, _words_of(p, start, min(n, lines), write) - (lines - start)
    for i in range(n):
        line = p.order[i] if npu[k.HASHED] else i
        while line >= lines:
            line -= lines
        line += before if line < lines - start else behind
        if not send(chs, line & channels, to, words[line >> bits], 0):
            return False
    return True


@bare
def _words_of(p, line, n, write):
    """Put the words of n lines from a line on into `packed`, one for all channels, as they differ in nothing else.
    Returns where among the lines that they stand for the first line of all is, if they come to it."""
    npu, words, to, again = p.npu, p.packed, 0, 0
    lines, bits = npu[k.WRAP] // npu[k.LINE], bits_of(npu)
    while n > 0:
        c, node, column = node_of(bits, line)
        words[to] = word_of(write, node % npu[k.BANKS], node // npu[k.BANKS], column)
        to += 1
        here = min((1 << bits[0]) - c, lines - line)
        line, n = line + here, n - here
        if line == lines:
            line, again = 0, to << bits[0]
    return again


@bare
def _send_runs(npu, chs, first, n, write, to):
    """As `_send_lines`, in their own order, those of a channel at once."""
    lines, channels = npu[k.WRAP] // npu[k.LINE], 1 << npu[k.CHANNEL_BITS]
    first %= lines
    while n > 0:
        here = min(n, lines - first)
        for i in range(min(here, channels)):
            c, node, column = node_of(bits_of(npu), first + i)
            word = word_of(write, node % npu[k.BANKS], node // npu[k.BANKS], column)
            if not send(chs, c, to, word, (here - i - 1) // channels):
                return False
        n -= here
        first = 0
    return True


@bare
def lines_of(npu, start, size):
    """(first line, lines) of `size` bytes at byte `start`, or SHIFT bytes later."""
    first = (start + npu[k.SHIFT]) // npu[k.LINE]
    return first, (start + npu[k.SHIFT] + size - 1 - max(npu[k.SHIFT] - 1, 0)) // npu[k.LINE] - first + 1


@bare
def order_lines(p, first, n, lines):
    """Put the lines first … first + n - 1, modulo `lines`, into p.order as a hash set would hold their addresses, in
    which channel and column have changed places."""
    line, bits, line_bytes, i = first % lines, bits_of(p.npu), p.npu[k.LINE], 0
    while i < n:
        c, above, column = node_of(bits, line)
        end = min(i + (1 << bits[0]) - c, i + lines - line, n)
        line += end - i
        while i < end:  # of all channels
            p.keys[i] = hash_set.mixed(((above << bits[0] | c) << bits[1] | column) * line_bytes)
            i, c = i + 1, c + 1
        if line == lines:
            line = 0
    hash_set.order(p.keys, n, p.packed, p.ends, p.order)


@bare
def bits_of(npu):
    """Bits of a line that tell its channel, and its column."""
    return npu[k.CHANNEL_BITS], npu[k.COLUMN_BITS]


@bare
def node_of(bits, line):
    """(channel, node, column) of a line; nodes are the rows of a channel: those of the banks in turn."""
    rest = line >> bits[0]
    return line & ((1 << bits[0]) - 1), rest >> bits[1], rest & ((1 << bits[1]) - 1)


@bare
def leaves(chs, t):
    """When the channels may take what leaves the core at clock t: a clock later or, with an interconnect, the step in
    which it comes there."""
    steps = chs.state[0, f.PATH]
    return steps_before(chs.drift, steps, t) if steps else t + 1


@bare
def arrives(chs, t):
    """The first clock in which a channel may take what leaves the core at clock t."""
    steps = chs.state[0, f.PATH]
    return clock_after(chs.drift, steps, leaves(chs, t) + PASSAGE, t) if steps else t + 1


@bare
def send(chs, c, to, word, more):
    """A request for channel c, behind earlier ones, and as many more of the next columns. to: port, see `leaves` and
    `arrives`, group. Returns whether it fits."""
    port, when, soonest, group = to
    order, ends, size = chs.order[c, port], chs.port[c, port], chs.order.shape[2] - f.BEYOND + 1
    if seldom(ends[f.OFFERED] == ends[f.LAST_ONE]):  # empty: what was used last is near in memory
        ends[f.OFFERED] = ends[f.LAST_ONE] = ends[f.PASSED] = 0
    at = ends[f.LAST_ONE]
    if seldom(at - ends[f.OFFERED] >= size):
        return False
    ends[f.LAST_ONE] = at + 1
    first = ends[f.PASSED if chs.state[0, f.PATH] else f.OFFERED]
    while seldom(at > first and order[(at - 1) & (size - 1), f.WHEN] > when):
        for x in range(f.N_ORDER):
            order[at & (size - 1), x] = order[(at - 1) & (size - 1), x]
        at -= 1
    sent = order[at & (size - 1)]
    sent[f.WORD], sent[f.WHEN], sent[f.OF], sent[f.MORE] = word, when, group, more
    if at > first:
        return True  # it comes behind another, of which the channel knows
    chs.state[c, f.PORTS] |= 1 << port
    chs.state[c, f.NOW] = min(chs.state[c, f.NOW], soonest)
    chs.state[c, f.OFFER_AT] = min(chs.state[c, f.OFFER_AT], soonest)
    return True
