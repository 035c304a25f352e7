"""NPU and PIM channels together: windows of clocks in which no channel affects another, and the core between them.

In a clock the core goes before the channels. It sees a response a clock after it was due, and what leaves it comes to a
channel a clock later, or later still with an interconnect.
"""

from pimloom.cycle_sim.compiled.kernel import bare, entry
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.blocks import arrives, leaves, send, send_block
from pimloom.cycle_sim.npu_pim.kernels.clocks import PASSAGE, clock_after, extend, steps_before
from pimloom.cycle_sim.npu_pim.kernels.crew import ALONE, TOGETHER, assist, call, collect_all, go_on, is_long
from pimloom.cycle_sim.npu_pim.kernels.tasks import (
    find_full,
    find_store,
    group_ends,
    is_complete,
    issue,
    land,
    next_landing,
    store_next,
)
from pimloom.cycle_sim.npu_pim.kernels.window import window

ALL_DONE, STUCK, FULL, WAITING, ASLEEP, PAUSED = range(6)  # what `run_all` returns
PATIENCE = 1 << 18  # clocks without any response or task after which nothing will come: some sixty refreshes of a rank
AHEAD = 16  # clocks that are added up beyond those that are needed
WINDOWS = 512  # before `run_all` pauses, for Python to look at signals: some 0.1 s


@entry
def run_all(p, chs, crew, helps):
    """Run all operators of a program, or help the thread that does. STUCK: a READRES finds a bank closed, or a log is
    full; FULL: a channel has no place left; WAITING: requests of a channel wait for one another for ever; ASLEEP: some
    of the crew; to be called again when it is awake. PAUSED: to be called again."""
    if helps:
        assist(chs, crew)
        return ALL_DONE
    _fits(p, chs)
    npu, windows = p.npu, 0
    while windows < WINDOWS:
        if not npu[k.IN_WINDOW]:
            if not _core(p, chs, _known(p, chs)):
                return FULL
            if npu[k.N_ENDED] == p.op.shape[0]:
                npu[k.UNTIL] = npu[k.CORE] - 1  # in which the core saw the last end
                if npu[k.TIME] >= npu[k.UNTIL]:
                    _close(p, chs)
                    return ALL_DONE
            elif npu[k.TIME] >= npu[k.WATCHED] + PATIENCE and not _is_alive(p, chs):
                return WAITING
            else:
                npu[k.UNTIL] = window(p, chs)
            npu[k.IN_WINDOW] = TOGETHER if is_long(chs, crew, npu[k.UNTIL]) else ALONE
            if npu[k.IN_WINDOW] == TOGETHER and call(crew, npu[k.UNTIL]):
                return ASLEEP
        if not go_on(chs, crew, npu[k.UNTIL], npu[k.IN_WINDOW]):
            return STUCK
        _has_come(p, chs, npu[k.UNTIL])
        _in_time(chs, npu[k.SEEN])
        windows += 1
    return PAUSED


@bare
def _fits(p, chs):
    """As `engine._fits`, for the core."""
    assert p.op.shape[1] == k.N_OP
    assert p.block.shape[1] == k.N_BLOCK
    assert p.task.shape[1] == k.N_TASK
    assert p.store.shape[1] == k.N_STORE
    assert p.flight.shape[1] == k.N_FLIGHT
    assert chs.order.shape[3] == f.N_ORDER
    assert chs.port.shape[2] == f.N_PORT
    assert chs.state.shape[1] == f.N_ROW


@bare
def _known(p, chs):
    """The last clock of the core of which all responses are known."""
    t, steps = p.npu[k.TIME], chs.state[0, f.PATH]
    if not steps:
        return t
    extend(chs.drift, p.sums, steps, t + p.npu[k.LONGEST] + AHEAD)
    return clock_after(chs.drift, steps, steps_before(chs.drift, steps, t) + PASSAGE, t) - 1


@bare
def _has_come(p, chs, t):
    """All channels have come to clock t."""
    collect_all(chs)
    p.npu[k.TIME], p.npu[k.IN_WINDOW] = t, 0


@bare
def _is_alive(p, chs):
    """Whether anything has happened since the last look, or is about to."""
    npu, answered = p.npu, 0
    for c in range(chs.state.shape[0]):
        answered += chs.state[c, f.ANSWERED]
    alive = answered > npu[k.ANSWERED] or next_landing(p) < FAR or npu[k.N_COMING] > 0
    npu[k.WATCHED], npu[k.ANSWERED] = npu[k.TIME], answered
    return alive


@bare
def _close(p, chs):
    """All channels have come to the clock in which the core saw the last end."""
    for o in range(p.op.shape[0]):
        if p.op[o, k.END] == p.npu[k.CORE] - 1 + p.npu[k.LATE]:
            _account(p, chs, o)


@bare
def _core(p, chs, last):
    """The core goes on to clock `last`, of which all responses are known; returns whether all requests found room."""
    npu = p.npu
    while npu[k.CORE] <= last and npu[k.N_ENDED] < p.op.shape[0]:
        acted = _clock(p, chs, npu[k.CORE])
        if acted < 0:
            return False
        soonest = npu[k.CORE] + 1
        npu[k.CORE] = soonest if acted else max(min(_next_clock(p, chs), last + 1), soonest)
    if npu[k.SEEN] == chs.ended[0]:
        npu[k.SEEN] = chs.ended[0] = 0
    return True


@bare
def _clock(p, chs, t):
    """Clock t of the core; returns how much happened, -1 if requests found no room."""
    npu, acted = p.npu, 0
    npu[k.WAKE] = FAR
    while npu[k.SEEN] < chs.ended[0] and chs.done[chs.ended[1 + npu[k.SEEN]]] <= t:
        npu[k.SEEN] += 1
        group_ends(p, chs, chs.ended[npu[k.SEEN]], t)
        acted += 1
    if npu[k.IN_ORDER]:
        acted += land(p, chs, t)
    for i in range(npu[k.N_RUNNING]):
        o = p.running[i]
        if p.op[o, k.NEXT_LOAD] < p.op[o, k.LOADS_END]:
            sent = _load(p, chs, o, t)
            if sent < 0:
                return -1
            acted += sent
            npu[k.WAKE] = min(npu[k.WAKE], _let_load(p, chs, o, t))
        if npu[k.IN_ORDER]:
            sent = store_next(p, chs, o, t)
            if sent < 0:
                return -1
            acted += sent
        acted += issue(p, chs, o, t)
    if not npu[k.IN_ORDER]:
        landed = land(p, chs, t)
        if landed < 0:
            return -1
        acted += landed
    acted += _ends(p, chs, t)
    begun = _begin(p, chs, t)
    return acted + begun if begun >= 0 else -1


@bare
def _next_clock(p, chs):
    """The next clock in which anything may happen in the core, as far as it is known."""
    npu, t = p.npu, min(next_landing(p), p.npu[k.WAKE])
    if npu[k.SEEN] < chs.ended[0]:
        t = min(t, chs.done[chs.ended[1 + npu[k.SEEN]]])
    for i in range(npu[k.N_COMING]):
        t = min(t, p.op[p.coming[i], k.START])
    return t


@bare
def _later(chs, group, other):
    return chs.done[group] > chs.done[other] or (
        chs.done[group] == chs.done[other] and chs.turn[group] > chs.turn[other]
    )


@bare
def _in_time(chs, seen):
    """The groups that ended and that the core has not seen, in order of their clocks."""
    for i in range(seen + 2, chs.ended[0] + 1):
        group, j = chs.ended[i], i
        while j > seen + 1 and _later(chs, chs.ended[j - 1], group):
            chs.ended[j] = chs.ended[j - 1]
            j -= 1
        chs.ended[j] = group


@bare
def _join(p, operators, count, o):
    """Operator o takes its place in a list of operators, of which npu[count] are there."""
    i = p.npu[count]
    p.npu[count] += 1
    while i > 0 and operators[i - 1] > o:
        operators[i] = operators[i - 1]
        i -= 1
    operators[i] = o


@bare
def _begin(p, chs, t):
    """The operators start whose clock has come; returns how many, -1 if a request found no room."""
    npu, n, left = p.npu, 0, 0
    for i in range(npu[k.N_COMING]):
        o = p.coming[i]
        if p.op[o, k.START] > t:
            p.coming[left] = o
            left += 1
            continue
        if not _start(p, chs, o, t):
            return -1
        n += 1
    npu[k.N_COMING] = left
    return n


@bare
def _start(p, chs, o, t):
    """Operator o starts at clock t; returns whether its requests found room."""
    op, npu = p.op[o], p.npu
    op[k.START], op[k.NEXT_TASK], op[k.NEXT_LOAD], op[k.NEXT_OUT] = t, op[k.TASKS], op[k.LOADS], op[k.OUTS]
    npu[k.N_BEGUN] += 1
    _join(p, p.running, k.N_RUNNING, o)
    op[k.BASE], op[k.LATEST] = npu[k.NEXT_BYTE], t
    op[k.TO_DO] = op[k.TASKS_END] - op[k.TASKS]
    find_store(p, op)
    find_full(p, op)
    if not npu[k.IN_ORDER]:
        npu[k.NEXT_BYTE] = (npu[k.NEXT_BYTE] + op[k.BYTES]) % npu[k.WRAP]
    return _load(p, chs, o, t) >= 0 and _send_dots(p, chs, o, t)


@bare
def _load(p, chs, o, t):
    """An operator asks for its next blocks at clock t, or for one if they leave singly, until one of them waits;
    returns for how many, -1 if there is no room."""
    op, n = p.op[o], 0
    while op[k.NEXT_LOAD] < op[k.LOADS_END] and (n == 0 or not op[k.SINGLY]):
        b = op[k.NEXT_LOAD]
        if p.block[b, k.GATE] >= 0 and not is_complete(chs, p.block[b, k.GATE], t - p.npu[k.LATE]):
            break
        op[k.NEXT_LOAD] = b + 1
        if not send_block(p, chs, b, t):
            return -1
        n += 1
    return n


@bare
def _let_load(p, chs, o, t):
    """The next clock after t in which an operator's next block may leave, as far as it is known."""
    op = p.op[o]
    if op[k.NEXT_LOAD] == op[k.LOADS_END]:
        return FAR
    gate = p.block[op[k.NEXT_LOAD], k.GATE]
    if gate < 0:
        return t + 1
    return FAR if chs.left[gate] > 0 or chs.done[gate] == 0 else max(chs.done[gate] + p.npu[k.LATE], t + 1)


@bare
def _send_dots(p, chs, o, t):
    """PIM commands of operator o leave at clock t, or one in a clock for all channels; returns whether all fit."""
    op, npu = p.op[o], p.npu
    for i in range(op[k.DOTS], op[k.DOTS_END]):
        c, group = chs.dot[i, f.CHANNEL], chs.dot[i, f.GROUP]
        if op[k.SINGLY]:
            op[k.LATEST] = npu[k.DISPATCHED] = max(t, npu[k.DISPATCHED] + 1)
        chs.state[c, f.DOTS_SENT] += 1
        extend(chs.drift, p.sums, chs.state[0, f.PATH], op[k.LATEST] + AHEAD)
        to = op[k.PORT], leaves(chs, op[k.LATEST]), arrives(chs, op[k.LATEST]), group
        if not send(chs, c, to, -1 - i, 0):
            return False
        if chs.dot[i, f.KIND] != f.HEADER:
            chs.left[group] += 1
            chs.open[o] += 1
    op[k.REQUESTS] += op[k.DOTS_END] - op[k.DOTS]
    for x in range(p.reach_ptr[o], p.reach_ptr[o + 1]):
        p.reach[x, k.SENT] = chs.state[p.reach[x, k.REACHED], f.DOTS_SENT]
    return True


@bare
def _ends(p, chs, t):
    """Operators that have nothing left end, and those that waited for them are about to start; returns how many end."""
    npu, left = p.npu, 0
    for i in range(npu[k.N_RUNNING]):
        o = p.running[i]
        op = p.op[o]
        if op[k.LEFT] > 0:
            p.running[left] = o
            left += 1
            continue
        op[k.END] = t + npu[k.LATE]
        npu[k.N_ENDED] += 1
        _account(p, chs, o)
        for x in range(p.after_ptr[o], p.after_ptr[o + 1]):
            _lets_go(p, p.after_op[x], op[k.END])
    ended, npu[k.N_RUNNING] = npu[k.N_RUNNING] - left, left
    return ended


@bare
def _lets_go(p, o, t):
    """One of those that operator o waits for ends at clock t. Of several that end at once one is noticed a clock late
    where ends are."""
    after = p.op[o]
    after[k.WAITS] -= 1
    after[k.TIE] = p.npu[k.LATE] if after[k.START] == t else (0 if after[k.START] < t else after[k.TIE])
    after[k.START] = max(after[k.START], t)
    if after[k.WAITS] == 0:
        after[k.START] += after[k.PAUSE] + after[k.TIE]
        _join(p, p.coming, k.N_COMING, o)


@bare
def _account(p, chs, o):
    """What all channels have done before now, when the end of operator o is noticed; each has come to this clock."""
    row, now, ranks = p.account[o], p.npu[k.TIME], chs.rank.shape[1] // 2
    row[:] = 0
    row[k.CLOCK] = now
    for c in range(chs.tally.shape[0]):
        for x in range(chs.tally.shape[1]):
            row[k.COMMAND + x] += chs.tally[c, x]
        for r in range(2 * ranks):
            rank = chs.rank[c, r]
            row[k.MEM_OPEN if r < ranks else k.PIM_OPEN] += rank[2] + (now - rank[1] if rank[0] > 0 else 0)
