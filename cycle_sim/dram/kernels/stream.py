"""The kernels of `cycle_sim.dram.issue`: the heads of several in-order streams, and refresh, on one channel.

Rules are those of `device`, rows those of `rows`. Whoever may issue has a place in `low`, the first bank of the scope
of its command: first the refresh nodes, then the streams.
"""

from typing import NamedTuple

import numpy as np

from pimloom.arch.command import POSTPONED_MAX
from pimloom.cycle_sim.compiled.kernel import bare, entry, rare
from pimloom.cycle_sim.dram.kernels.device import FAR, NEVER, Device, arm, free_above, settled
from pimloom.cycle_sim.dram.kernels.rows import ANY, OPEN, OPENED, OPENER, SINCE, misfit, move_rows

OK, STUCK, STARVED, LOG_FULL = range(4)
# phase[…]: clock in which the first refresh falls due, that of an earlier REFab; then what was found: code, idle clock,
# the latest end of a command, refreshes, clock of the last of them, first clock in which a REFab would be legal
DUE, RUNNING, CODE, IDLE_AT, ENDED, REFRESHES, LAST_REFRESH, READY, N_PHASE = range(9)

# cmds[opcode]; SPAN: banks in the scope; DEPTHS: depths of nodes at which rules bind it; EACH: banks of its scope at
# which they do so; DEPTH: longest window it fills; FIRST to LAST: row buffers whose rows it needs
NEEDS, LEAVES, BUFFER, BUS, DONE, GAP, SPAN, DEPTHS, EACH, DEPTH, FIRST, LAST = range(12)
CMD, PCH, RANK, BG, BANK, ROW, COUNT, RELEASE = range(8)  # stream[row]
HEAD, LEFT, END = range(3)  # heads[stream]: row at its head, commands left of it, end of the stream
NOW, TURN, IDLE, LOGGED, FREE = range(5)  # clock; TURN: who issued last in clock NOW; FREE on: per bus


class Walk(NamedTuple):
    """All that `run` reads and changes but its results.

    fan[l]: nodes of a level within one of the level above. due, open_banks: of each refresh node, clock in which the
    next one falls due, and banks with an open row.
    """

    device: Device
    cmds: np.ndarray
    fan: np.ndarray
    stream: np.ndarray
    rows: np.ndarray
    due: np.ndarray
    open_banks: np.ndarray
    heads: np.ndarray
    low: np.ndarray
    clock: np.ndarray


@entry
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
def _bound(w, c, low):
    """First clock in which no rule binds command c whose scope begins at bank `low`."""
    t = free_above(w.device, c, low, w.cmds[c, DEPTHS])
    for b in range(low + 1, low + w.cmds[c, EACH]):
        t = max(t, free_above(w.device, c, b, w.cmds[c, DEPTHS]))
    return t


@bare
def _misfit(w, i, low):
    """(row buffer, first bank) whose row is not as row i of the stream needs it; (-1, -1) if all are."""
    c = w.stream[i, CMD]
    for buffer in range(w.cmds[c, FIRST], w.cmds[c, LAST] + 1):
        b = misfit(w.rows[buffer], w.cmds[c, NEEDS], w.stream[i, ROW], low, w.cmds[c, SPAN])
        if b >= 0:
            return buffer, b
    return -1, -1


@bare
def _held_from(w, c, low):
    """Clock from which a due refresh keeps command c from opening a row; FAR: never."""
    nodes, due = w.due.shape[0], FAR
    if nodes == 0 or w.cmds[c, LEAVES] != OPEN:
        return due
    per = (w.rows.shape[1] - 1) // nodes
    for n in range(low // per, (low + w.cmds[c, SPAN] - 1) // per + 1):
        due = min(due, w.due[n])
    return due


@bare
def _take(w, s, o):
    """Make the row at the head of stream s current."""
    i, bank = w.heads[s, HEAD], np.int64(0)
    w.heads[s, LEFT] = w.stream[i, COUNT]
    for level in range(1, 5):
        bank = bank * w.fan[level] + w.stream[i, PCH - 1 + level]
    w.low[o] = bank - bank % w.cmds[w.stream[i, CMD], SPAN]


@bare
def _next_command(w):
    """(stream, clock, clock of the runner-up, clock from which the held are all held, first unfinished stream).

    -1, FAR: none; NEVER: none is held.
    """
    heads, clock = w.heads, w.clock
    best, best_at, second_at, held_from, unfinished = -1, FAR, FAR, NEVER, -1
    for s in range(heads.shape[0]):
        i, o = heads[s, HEAD], w.due.shape[0] + s
        if i == heads[s, END]:
            continue
        if unfinished < 0:
            unfinished = s
        if heads[s, LEFT] == 0:
            _take(w, s, o)
        c, low = w.stream[i, CMD], w.low[o]
        if _misfit(w, i, low)[1] >= 0:
            continue
        at = max(w.stream[i, RELEASE], clock[FREE + w.cmds[c, BUS]], clock[NOW] + (o <= clock[TURN]))
        at = max(at, _bound(w, c, low))
        due = _held_from(w, c, low)
        if at >= due:
            held_from = max(held_from, due)
        elif at < best_at:
            best, best_at, second_at = s, at, best_at
        else:
            second_at = min(second_at, at)
    return best, best_at, second_at, held_from, unfinished


@rare
def _lift(w, held_from):
    """(stream, clock) of the first held command that opens its row all the same; -1, FAR: a refresh is near."""
    best, best_at, clock = -1, FAR, w.clock
    for s in range(w.heads.shape[0]):
        i, low = w.heads[s, HEAD], w.low[w.due.shape[0] + s]
        if i == w.heads[s, END]:
            continue
        c = w.stream[i, CMD]
        if _misfit(w, i, low)[1] < 0:
            # a clock in which something issued is no stop
            at = max(w.stream[i, RELEASE], clock[FREE + w.cmds[c, BUS]], clock[NOW] + (clock[TURN] >= 0), held_from)
            at = max(at, _bound(w, c, low))
            if at < best_at:
                best, best_at = s, at
    for n in range(w.due.shape[0]):
        if w.open_banks[n] == 0 and w.due[n] <= best_at:
            return -1, FAR
    return best, best_at


@bare
def _next_refresh(w, c, horizon):
    """(node, clock) of the next REFab among the nodes that are due by `horizon` with all banks closed; -1, FAR."""
    node, node_at = -1, FAR
    for n in range(w.due.shape[0]):
        if w.open_banks[n] == 0 and w.due[n] <= horizon:
            at = max(w.due[n], w.clock[FREE + w.cmds[c, BUS]], w.clock[NOW] + (n <= w.clock[TURN]))
            at = max(at, _bound(w, c, w.low[n]))
            if at < node_at:
                node, node_at = n, at
    return node, node_at


@rare
def _refresh(w, c, n, at, refi, log):
    """REFab of node n at clock `at`."""
    clock = w.clock
    arm(w.device, c, w.low[n], at)
    log[clock[LOGGED], 0], log[clock[LOGGED], 1] = at, n
    clock[LOGGED] += 1
    w.due[n] += refi
    clock[FREE + w.cmds[c, BUS]] = at + 1
    clock[NOW], clock[TURN] = at, n
    clock[IDLE] = max(clock[IDLE], at + w.cmds[c, DONE])


@bare
def _advance(w, s, at, stop, first, last):
    """Issue the head of stream s at clock `at`, and as much of its count as comes before clock `stop`."""
    heads, cmds, clock = w.heads, w.cmds, w.clock
    i, o = heads[s, HEAD], w.due.shape[0] + s
    c, low, jump, gap = w.stream[i, CMD], w.low[o], np.int64(1), np.int64(1)
    if heads[s, LEFT] > 1 and cmds[c, GAP] > 0 and stop > at:
        gap = cmds[c, GAP]
        jump = min(heads[s, LEFT], (stop - at + gap - 1) // gap)
    for k in range(max(np.int64(0), jump - cmds[c, DEPTH]), jump):
        arm(w.device, c, low, at + k * gap)
    end = at + (jump - 1) * gap
    if first[i] < 0:
        first[i] = at
    last[i] = end
    clock[FREE + cmds[c, BUS]] = end + 1
    clock[NOW], clock[TURN] = end, o
    clock[IDLE] = max(clock[IDLE], end + cmds[c, DONE])
    if cmds[c, LEAVES] != ANY:
        row = w.stream[i, ROW] if cmds[c, LEAVES] == OPEN else np.int64(-1)
        move_rows(w.rows[cmds[c, BUFFER]], c, row, end, low, cmds[c, SPAN], w.open_banks)
    heads[s, LEFT] -= jump
    if heads[s, LEFT] == 0:
        heads[s, HEAD] += 1


@entry
def refreshed(w, c, at):
    """A REFab, command c, of every node at clock `at`, before the first."""
    for n in range(w.due.shape[0]):
        arm(w.device, c, w.low[n], at)


@entry
def run(w, ref, refi, first, last, log, who, ready):
    """Walk the streams to their end; returns (code, row the code is about, idle clock).

    With LOG_FULL, call again with a longer log: all state is in `w`, and the walk goes on where it stopped.
    """
    code, where = OK, np.int64(0)
    while True:
        best, at, second_at, held_from, unfinished = _next_command(w)
        if unfinished < 0:
            break
        if best < 0 and held_from > NEVER:  # nothing else could ever move
            best, at = _lift(w, held_from)
        node, node_at = _next_refresh(w, ref, at)
        limit, stop = FAR, min(second_at, node_at)
        for n in range(w.due.shape[0]):
            limit = min(limit, w.due[n] + POSTPONED_MAX * refi)
            if w.open_banks[n] == 0:
                stop = min(stop, w.due[n])
        if best < 0 and held_from == NEVER:
            code, where = STUCK, w.heads[unfinished, HEAD]
            buffer, b = _misfit(w, where, w.low[w.due.shape[0] + unfinished])
            rows = w.rows[buffer]
            who[0], who[1], who[2] = rows[b, OPENED], rows[b, OPENER], rows[b, SINCE]
            break
        if min(at, node_at) >= limit:
            code, where = STARVED, w.heads[unfinished, HEAD]
            break
        if node_at <= at:
            if w.clock[LOGGED] == log.shape[0]:
                return LOG_FULL, where, np.int64(0)
            _refresh(w, ref, node, node_at, refi, log)
        else:
            _advance(w, best, at, min(stop, limit), first, last)
    for n in range(w.due.shape[0]):
        legal = max(w.clock[FREE + w.cmds[ref, BUS]], _bound(w, ref, w.low[n]))
        ready[n] = legal if w.open_banks[n] == 0 else FAR
    return code, where, max(w.clock[IDLE], settled(w.device))


@entry
def run_phase(w, start, ref, refi, done, first, last, log, who, ready, phase):
    """Walk the streams from the start on, w being made like `start` first, with a refresh that falls due and another
    that still runs as `phase` says, which takes what was found. done: clocks to the end of each command."""
    _make_like(w, start)
    for n in range(w.due.shape[0]):
        w.due[n] = phase[DUE]
    if phase[RUNNING] > NEVER:
        for n in range(w.due.shape[0]):
            arm(w.device, ref, w.low[n], phase[RUNNING])
    phase[CODE], _, phase[IDLE_AT] = run(w, ref, refi, first, last, log, who, ready)
    phase[ENDED] = phase[READY] = 0
    for i in range(last.shape[0]):
        phase[ENDED] = max(phase[ENDED], last[i] + done[w.stream[i, CMD]])
    for n in range(ready.shape[0]):
        phase[READY] = max(phase[READY], ready[n])
    phase[REFRESHES] = w.clock[LOGGED]
    phase[LAST_REFRESH] = log[w.clock[LOGGED] - 1, 0] if w.clock[LOGGED] else phase[RUNNING]


@bare
def _make_like(w, start):
    _copy(start.device.bound, w.device.bound)
    _copy(start.device.beside, w.device.beside)
    _copy(start.device.ring, w.device.ring)
    _copy(start.open_banks, w.open_banks)
    _copy(start.low, w.low)
    _copy(start.clock, w.clock)
    for s in range(w.heads.shape[0]):
        for k in range(3):
            w.heads[s, k] = start.heads[s, k]
    for r in range(w.rows.shape[0]):
        for b in range(w.rows.shape[1]):
            for k in range(3):
                w.rows[r, b, k] = start.rows[r, b, k]


@bare
def _copy(old, new):
    for i in range(old.shape[0]):
        new[i] = old[i]
