"""Memory requests of the NPU: bytes of its address space as lines, channel by channel.

Lines of 64 B go to the channels in turn; in a channel, to the columns of a row, then to the next bank, then to the next
row. NeuPIMs' simulator sends the lines of one block in the order in which its hash set happens to hold them.
"""

import numpy as np

from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f

# MurmurHash3's mixer and the table layout of robin_hood 3.11.5 [recalled], of an address before channels are dealt out
# [assumed]: home = bits 5 and up of the hash, modulo a power of two
MIX_A, MIX_B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
SHIFT, INFO_BITS = np.uint64(33), np.uint64(5)
LOAD = 80  # percent of a table that may be full
FIRST_TABLE = 8


@bare
def order_lines(p, first, n, line_bytes):
    """Put the lines first … first + n - 1 into p.order as a hash set would hold them."""
    size = FIRST_TABLE
    while size * LOAD // 100 < n:
        size *= 2
    for i in range(size + 1):
        p.marks[i] = 0
    for i in range(n):
        p.keys[i] = _key(np.uint64((first + i) * line_bytes), size)
        p.marks[(p.keys[i] >> 5) + 1] += 1
    for i in range(size):
        p.marks[i + 1] += p.marks[i]
    for i in range(n):
        home = p.keys[i] >> 5
        p.order[p.marks[home]] = i
        p.marks[home] += 1
    for i in range(1, n):
        line, at = p.order[i], i
        while at > 0 and p.keys[p.order[at - 1]] > p.keys[line]:
            p.order[at] = p.order[at - 1]
            at -= 1
        p.order[at] = line


@bare
def _key(x, size):
    """Home of an address in a table of `size` places, and below it what decides between equal homes."""
    x ^= x >> SHIFT
    x *= MIX_A
    x ^= x >> SHIFT
    x *= MIX_B
    x ^= x >> SHIFT
    return np.int64((x >> INFO_BITS) & np.uint64(size - 1)) * 32 + 31 - np.int64(x & np.uint64(31))


@bare
def place(npu, line):
    """(channel, bank, row, column) of a line: columns, then banks, then rows."""
    channel = line & ((1 << npu[k.CHANNEL_BITS]) - 1)
    rest = line >> npu[k.CHANNEL_BITS]
    column = rest & ((1 << npu[k.COLUMN_BITS]) - 1)
    node = rest >> npu[k.COLUMN_BITS]
    return channel, node % npu[k.BANKS], node // npu[k.BANKS], column


@bare
def word_of(kind, bank, row, column):
    """A read or write as one number: its key, which tells its column, and whether it writes."""
    return key_at(bank, row, column) << 1 | (kind == f.WR)


@bare
def key_at(bank, row, column):
    """One number for a column."""
    return (row << f.BANK_BITS | bank) << f.COLUMN_BITS | column


@bare
def column_at(key):
    """(bank, row, column) of a key."""
    node = key >> f.COLUMN_BITS
    return node & (f.MOST_BANKS - 1), node >> f.BANK_BITS, key & ((1 << f.COLUMN_BITS) - 1)


@bare
def lines_of(npu, start, size):
    """(first line, lines) of `size` bytes at byte `start`."""
    return start // npu[k.LINE], (start + size - 1) // npu[k.LINE] - start // npu[k.LINE] + 1


@bare
def send(chs, c, port, word, when, group, ahead):
    """A request enters channel c by a port at clock `when` or later, behind earlier ones; returns whether it fits.

    ahead: before reads and writes of the same clock, however early these were sent.
    """
    order, ends, size = chs.order, chs.port, chs.order.shape[2]
    if ends[c, port, 0] == ends[c, port, 1]:  # empty: what was used last is near in memory
        ends[c, port, 0] = ends[c, port, 1] = 0
    at = ends[c, port, 1]
    if at - ends[c, port, 0] >= size:
        return False
    ends[c, port, 1] = at + 1
    while at > ends[c, port, 0]:
        last = order[c, port, (at - 1) & (size - 1)]
        if last[f.WHEN] < when or (last[f.WHEN] == when and not (ahead and last[f.WORD] >= 0)):
            break
        for x in range(f.N_ORDER):
            order[c, port, at & (size - 1), x] = order[c, port, (at - 1) & (size - 1), x]
        at -= 1
    sent = order[c, port, at & (size - 1)]
    sent[f.WORD], sent[f.WHEN], sent[f.OF] = word, when, group
    chs.state[c, f.NOW] = min(chs.state[c, f.NOW], when)
    return True
