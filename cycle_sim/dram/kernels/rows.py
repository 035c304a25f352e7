"""Rows: which one is open in each row buffer of each bank, and what commands need and leave of them.

rows[buffer, bank]: open row (-1: closed), opcode and clock of its last change; behind the last bank: the row of all.
"""

from pimloom.arch.command import Row
from pimloom.cycle_sim.compiled.kernel import bare

ANY, OPEN, CLOSED = int(Row.ANY), int(Row.OPEN), int(Row.CLOSED)
OPENED, OPENER, SINCE, MIXED = 0, 1, 2, -2  # MIXED: the row of all, when the banks may differ


@bare
def misfit(rows, need, row, low, span):
    """First bank of `span` from `low` on whose row is not as a command of this row needs it; -1 if all are."""
    if need != ANY:
        want = row if need == OPEN else -1
        n_banks = rows.shape[0] - 1
        if span == n_banks and rows[n_banks, OPENED] == want:
            return -1
        for b in range(low, low + span):
            if rows[b, OPENED] != want:
                return b
    return -1


@bare
def move_rows(rows, c, row, at, low, span, open_banks):
    """Command c opens `row` (-1: closes all) in `span` banks from `low` on.

    open_banks[node]: its open rows, over all buffers; as many nodes as share refresh, none where nobody refreshes.
    """
    n_banks, nodes = rows.shape[0] - 1, open_banks.shape[0]
    per = n_banks // nodes if nodes > 0 else n_banks
    rows[n_banks, OPENED] = row if span == n_banks else MIXED
    n = low // per
    for b in range(low, low + span):
        if b == (n + 1) * per:
            n += 1
        old = rows[b, OPENED]
        if old != row:
            if nodes > 0:
                open_banks[n] += int(row >= 0) - int(old >= 0)
            rows[b, OPENED], rows[b, OPENER], rows[b, SINCE] = row, c, at
