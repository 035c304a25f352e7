"""The compiled kernels behind `cycle_sim.dram.issue`, in one file because numba caches file by file. Those on plain
arrays that allocate nothing are `bare`: without reference counts (`_nrt=False`), which took 0.3 µs of 0.4 µs."""

from typing import Any

import numba
import numpy as np

from pimloom.arch.command import POSTPONED_MAX, Row

FAR = np.int64(1) << 60
NEVER = -FAR
ANY, OPEN, CLOSED = int(Row.ANY), int(Row.OPEN), int(Row.CLOSED)
OK, STUCK, STARVED, LOG_FULL = range(4)

bare: Any = numba.njit(cache=True, _nrt=False)  # type: ignore[call-overload]
full: Any = numba.njit(cache=True)

# cmds[opcode]; SPAN: banks in the scope; BEFORE, AFTER: length of its lists of rules; DEPTH: longest window it fills
SCOPE, NEEDS, LEAVES, BUFFER, BUS, DONE, GAP, SPAN, BEFORE, AFTER, DEPTH = range(11)
LEVEL, WINDOW, WAIT, HIST, SLOT = range(5)  # before[opcode, k]; HIST, SLOT: where its nodes begin in hist and slot
CMD, PCH, RANK, BG, BANK, ROW, COUNT, RELEASE = range(8)  # stream[row]
# banks[buffer, bank]: open row (-1 closed), opcode and clock of its last change. After the last bank: the row of all.
OPENED, OPENER, SINCE, MIXED = 0, 1, 2, -2  # MIXED: the row of all, when the banks may differ
DUE, N_OPEN = range(2)  # refs[node]
HEAD, LEFT, END = range(3)  # heads[stream]: row at its head, commands left of it, end of the stream
NOW, TURN, IDLE, LOGGED, FREE = range(5)  # clock; TURN: who issued last in clock NOW; FREE on: per bus
# Whoever may issue has a row in `nodes` (its node of each level): first the refresh nodes, then the streams.


@bare
def load(stream, cmd, pch, rank, bg, bank, row, col, count, release, limits, needs, leaves):
    """Fill `stream` [rows, 8]; returns the first row with a field out of bounds, or -1."""
    for i in range(cmd.size):
        stream[i, CMD], stream[i, PCH], stream[i, RANK], stream[i, BG] = cmd[i], pch[i], rank[i], bg[i]
        stream[i, BANK], stream[i, ROW], stream[i, COUNT], stream[i, RELEASE] = bank[i], row[i], count[i], release[i]
        for k in range(6):
            if not 0 <= stream[i, k] < limits[k]:
                return i
        outside = needs[cmd[i]] == OPEN and not 0 <= col[i] <= limits[6] - count[i]
        if outside or count[i] < 1 or (count[i] > 1 and leaves[cmd[i]] != ANY):
            return i
    return -1


@bare
def _bound(c, o, cmds, before, nodes, hist, slot):
    """First clock in which no rule binds command c of asker o."""
    t = np.int64(0)
    for k in range(cmds[c, BEFORE]):
        n, w = nodes[o, before[c, k, LEVEL]], before[c, k, WINDOW]
        if w == 1:
            at = hist[before[c, k, HIST] + n]
        else:  # the place to be written next holds the oldest
            at = hist[before[c, k, HIST] + n * w + slot[before[c, k, SLOT] + n]]
        t = max(t, at + before[c, k, WAIT])
    return t


@bare
def _arm(c, o, at, cmds, after, nodes, hist, slot):
    """Note that command c of asker o issued at clock `at`."""
    for k in range(cmds[c, AFTER]):
        n, w = nodes[o, after[c, k, LEVEL]], after[c, k, WINDOW]
        if w == 1:
            hist[after[c, k, HIST] + n] = at
        else:
            x = after[c, k, SLOT] + n
            hist[after[c, k, HIST] + n * w + slot[x]] = at
            slot[x] = slot[x] + 1 if slot[x] + 1 < w else 0


@bare
def _misfit(c, o, row, cmds, nodes, banks):
    """First bank whose row is not as command c needs it; -1 if all are."""
    need = cmds[c, NEEDS]
    if need != ANY:
        want = row if need == OPEN else -1
        n_banks = banks.shape[1] - 1
        if cmds[c, SPAN] == n_banks and banks[cmds[c, BUFFER], n_banks, OPENED] == want:
            return -1
        bank = nodes[o, cmds[c, SCOPE]] * cmds[c, SPAN]
        for b in range(bank, bank + cmds[c, SPAN]):
            if banks[cmds[c, BUFFER], b, OPENED] != want:
                return b
    return -1


@bare
def _held_from(c, o, cmds, nodes, banks, refs):
    """Clock from which a due refresh keeps command c from opening a row; FAR: never."""
    n_ref, due = refs.shape[0], FAR
    if n_ref == 0 or cmds[c, LEAVES] != OPEN:
        return due
    per = (banks.shape[1] - 1) // n_ref
    bank = nodes[o, cmds[c, SCOPE]] * cmds[c, SPAN]
    for n in range(bank // per, (bank + cmds[c, SPAN] - 1) // per + 1):
        due = min(due, refs[n, DUE])
    return due


@bare
def _take(s, o, stream, size, heads, nodes):
    """Make the row at the head of stream s current."""
    i = heads[s, HEAD]
    heads[s, LEFT] = stream[i, COUNT]
    node = np.int64(0)
    for level in range(1, 5):
        node = node * size[1, level] + stream[i, PCH - 1 + level]
        nodes[o, level] = node


@bare
def _next_command(stream, size, cmds, before, hist, slot, banks, refs, heads, nodes, clock):
    """(stream, clock, clock of the runner-up, clock from which the held are all held, first unfinished stream).

    -1, FAR: none; NEVER: none is held.
    """
    best, best_at, second_at, held_from, unfinished = -1, FAR, FAR, NEVER, -1
    for s in range(heads.shape[0]):
        i, o = heads[s, HEAD], refs.shape[0] + s
        if i == heads[s, END]:
            continue
        if unfinished < 0:
            unfinished = s
        if heads[s, LEFT] == 0:
            _take(s, o, stream, size, heads, nodes)
        c = stream[i, CMD]
        if _misfit(c, o, stream[i, ROW], cmds, nodes, banks) >= 0:
            continue
        at = max(stream[i, RELEASE], clock[FREE + cmds[c, BUS]], clock[NOW] + (o <= clock[TURN]))
        at = max(at, _bound(c, o, cmds, before, nodes, hist, slot))
        due = _held_from(c, o, cmds, nodes, banks, refs)
        if at >= due:
            held_from = max(held_from, due)
        elif at < best_at:
            best, best_at, second_at = s, at, best_at
        else:
            second_at = min(second_at, at)
    return best, best_at, second_at, held_from, unfinished


@bare
def _lift(held_from, stream, cmds, before, hist, slot, banks, refs, heads, nodes, clock):
    """(stream, clock) of the first held command that opens its row all the same; -1, FAR: a refresh is near."""
    best, best_at = -1, FAR
    for s in range(heads.shape[0]):
        i, o = heads[s, HEAD], refs.shape[0] + s
        if i == heads[s, END]:
            continue
        c = stream[i, CMD]
        if _misfit(c, o, stream[i, ROW], cmds, nodes, banks) < 0:
            # a clock in which something issued is no stop
            at = max(stream[i, RELEASE], clock[FREE + cmds[c, BUS]], clock[NOW] + (clock[TURN] >= 0), held_from)
            at = max(at, _bound(c, o, cmds, before, nodes, hist, slot))
            if at < best_at:
                best, best_at = s, at
    for n in range(refs.shape[0]):
        if refs[n, N_OPEN] == 0 and refs[n, DUE] <= best_at:
            return -1, FAR
    return best, best_at


@bare
def _next_refresh(c, horizon, cmds, before, hist, slot, refs, nodes, clock):
    """(node, clock) of the next REFab among the nodes that are due by `horizon` with all banks closed; -1, FAR."""
    node, node_at = -1, FAR
    for n in range(refs.shape[0]):
        if refs[n, N_OPEN] == 0 and refs[n, DUE] <= horizon:
            at = max(refs[n, DUE], clock[FREE + cmds[c, BUS]], clock[NOW] + (n <= clock[TURN]))
            at = max(at, _bound(c, n, cmds, before, nodes, hist, slot))
            if at < node_at:
                node, node_at = n, at
    return node, node_at


@bare
def _refresh(c, n, at, refi, cmds, after, hist, slot, refs, nodes, clock, log):
    _arm(c, n, at, cmds, after, nodes, hist, slot)
    log[clock[LOGGED], 0], log[clock[LOGGED], 1] = at, n
    clock[LOGGED] += 1
    refs[n, DUE] += refi
    clock[FREE + cmds[c, BUS]] = at + 1
    clock[NOW], clock[TURN] = at, n
    clock[IDLE] = max(clock[IDLE], at + cmds[c, DONE])


@bare
def _advance(s, at, stop, stream, cmds, after, hist, slot, banks, refs, heads, nodes, clock, first, last):
    """Issue the head of stream s at clock `at`, and as much of its count as comes before clock `stop`."""
    i, o = heads[s, HEAD], refs.shape[0] + s
    c, jump, gap = stream[i, CMD], np.int64(1), np.int64(1)
    if heads[s, LEFT] > 1 and cmds[c, GAP] > 0 and stop > at:
        gap = cmds[c, GAP]
        jump = min(heads[s, LEFT], (stop - at + gap - 1) // gap)
    for k in range(max(np.int64(0), jump - cmds[c, DEPTH]), jump):
        _arm(c, o, at + k * gap, cmds, after, nodes, hist, slot)
    end = at + (jump - 1) * gap
    if first[i] < 0:
        first[i] = at
    last[i] = end
    clock[FREE + cmds[c, BUS]] = end + 1
    clock[NOW], clock[TURN] = end, o
    clock[IDLE] = max(clock[IDLE], end + cmds[c, DONE])
    if cmds[c, LEAVES] != ANY:
        _move_rows(c, o, stream[i, ROW] if cmds[c, LEAVES] == OPEN else -1, end, cmds, nodes, banks, refs)
    heads[s, LEFT] -= jump
    if heads[s, LEFT] == 0:
        heads[s, HEAD] += 1


@bare
def _move_rows(c, o, row, at, cmds, nodes, banks, refs):
    n_ref, buffer = refs.shape[0], cmds[c, BUFFER]
    bank = nodes[o, cmds[c, SCOPE]] * cmds[c, SPAN]
    n_banks = banks.shape[1] - 1
    per = n_banks // n_ref if n_ref > 0 else n_banks
    banks[buffer, n_banks, OPENED] = row if cmds[c, SPAN] == n_banks else MIXED
    n = bank // per
    for b in range(bank, bank + cmds[c, SPAN]):
        if b == (n + 1) * per:
            n += 1
        old = banks[buffer, b, OPENED]
        if old != row:
            if n_ref > 0:
                refs[n, N_OPEN] += np.int64(row >= 0) - np.int64(old >= 0)
            banks[buffer, b, OPENED], banks[buffer, b, OPENER], banks[buffer, b, SINCE] = row, c, at


@full
def begin(ref, due, refreshed, ptr, size, cmds, after, total):
    """The state before the first clock: (hist, slot, banks, refs, heads, nodes, clock)."""
    hist, slot = np.full(total[0], NEVER), np.zeros(total[1], np.int64)
    banks = np.full((cmds[:, BUFFER].max() + 1, size[0, 4] + 1, 3), -1)
    refs = np.zeros((size[0, cmds[ref, SCOPE]] if ref >= 0 else 0, 2), np.int64)
    refs[:, DUE] = due
    heads = np.zeros((ptr.size - 1, 3), np.int64)
    heads[:, HEAD], heads[:, END] = ptr[:-1], ptr[1:]
    nodes = np.zeros((refs.shape[0] + heads.shape[0], 5), np.int64)
    for n in range(refs.shape[0]):
        for level in range(5):  # the ancestors of its first bank
            nodes[n, level] = n * (size[0, 4] // refs.shape[0]) // (size[0, 4] // size[0, level])
        if refreshed > NEVER:
            _arm(ref, n, refreshed, cmds, after, nodes, hist, slot)
    clock = np.zeros(FREE + cmds[:, BUS].max() + 1, np.int64)
    clock[TURN] = -1
    return hist, slot, banks, refs, heads, nodes, clock


@bare
def run(
    ref, refi, size, cmds, before, after, stream, hist, slot, banks, refs, heads, nodes, clock,
    first, last, log, who, ready,
):  # fmt: skip
    """Walk the streams to their end; returns (code, row the code is about, idle clock).

    With LOG_FULL, call again with a longer log: all state is in the arrays, and the walk goes on where it stopped.
    """
    code, where = OK, np.int64(0)
    while True:
        best, at, second_at, held_from, unfinished = _next_command(
            stream, size, cmds, before, hist, slot, banks, refs, heads, nodes, clock
        )
        if unfinished < 0:
            break
        if best < 0 and held_from > NEVER:  # nothing else could ever move
            best, at = _lift(held_from, stream, cmds, before, hist, slot, banks, refs, heads, nodes, clock)
        node, node_at = _next_refresh(ref, at, cmds, before, hist, slot, refs, nodes, clock)
        limit, stop = FAR, min(second_at, node_at)
        for n in range(refs.shape[0]):
            limit = min(limit, refs[n, DUE] + POSTPONED_MAX * refi)
            if refs[n, N_OPEN] == 0:
                stop = min(stop, refs[n, DUE])
        if best < 0 and held_from == NEVER:
            code, where = STUCK, heads[unfinished, HEAD]
            o, c = refs.shape[0] + unfinished, stream[where, CMD]
            x, b = cmds[c, BUFFER], _misfit(c, o, stream[where, ROW], cmds, nodes, banks)
            who[0], who[1], who[2] = banks[x, b, OPENED], banks[x, b, OPENER], banks[x, b, SINCE]
            break
        if min(at, node_at) >= limit:
            code, where = STARVED, heads[unfinished, HEAD]
            break
        if node_at <= at:
            if clock[LOGGED] == log.shape[0]:
                return LOG_FULL, where, np.int64(0)
            _refresh(ref, node, node_at, refi, cmds, after, hist, slot, refs, nodes, clock, log)
        else:
            _advance(
                best, at, min(stop, limit), stream,
                cmds, after, hist, slot, banks, refs, heads, nodes, clock, first, last,
            )  # fmt: skip
    idle = clock[IDLE]
    for c in range(after.shape[0]):
        for k in range(cmds[c, AFTER]):
            for x in range(size[0, after[c, k, LEVEL]] * after[c, k, WINDOW]):
                idle = max(idle, hist[after[c, k, HIST] + x] + after[c, k, WAIT])
    for n in range(refs.shape[0]):
        legal = max(clock[FREE + cmds[ref, BUS]], _bound(ref, n, cmds, before, nodes, hist, slot))
        ready[n] = legal if refs[n, N_OPEN] == 0 else FAR
    return code, where, idle
