"""Columns of a channel as numbers: what requests are compared by."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.npu_pim.kernels import fields as f


@bare
def word_of(write, bank, row, column):
    """A read or write as one number: its key, which tells its column, and whether it writes."""
    return key_at(bank, row, column) << 1 | write


@bare
def next_word(word, columns, banks):
    """The same access to the next column of a row, or to the first one of the next bank or row."""
    bank, row, column = column_at(word >> 1)
    if column + 1 < columns:
        return word + 2
    if bank + 1 < banks:
        return word_of(word & 1, bank + 1, row, 0)
    return word_of(word & 1, 0, row + 1, 0)


@bare
def key_at(bank, row, column):
    """One number for a column."""
    return (row << f.BANK_BITS | bank) << f.COLUMN_BITS | column


@bare
def column_at(key):
    """(bank, row, column) of a key."""
    node = key >> f.COLUMN_BITS
    return node & (f.MOST_BANKS - 1), node >> f.BANK_BITS, key & ((1 << f.COLUMN_BITS) - 1)
