"""NPU and PIM channels together: windows of clocks in which no channel affects another, and the core between them."""

from pimloom.cycle_sim.memory.kernels.compiled import bare, rare
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.fields import Channel, Device
from pimloom.cycle_sim.npu_pim.kernels.lines import lines_of, order_lines, place, send, word_of
from pimloom.cycle_sim.npu_pim.kernels.window import window

ALL_DONE, STUCK, FULL = range(3)  # what `run_all` returns


@bare
def channel(chs, c):
    """Channel c of the stack."""
    d = chs.device
    return Channel(
        Device(d.path, d.bound[c], d.aside, d.beside[c], d.rule, d.first_rule, d.ring[c]),
        chs.policy, chs.request[c], chs.spare[c], chs.bank[c], chs.list[c], chs.first[c], chs.length[c], chs.dots[c],
        chs.line[c], chs.head[c], chs.tail[c], chs.order[c], chs.dot, chs.port[c], chs.left, chs.done, chs.turn,
        chs.ended, chs.owner, chs.open, chs.seen[c], chs.alike[c], chs.queued[c], chs.command[c], chs.tally[c],
        chs.rank[c], chs.state[c],
    )  # fmt: skip


@rare
def advance(chs, c, until):
    """Channel c goes on to clock `until`; returns a code of `engine`."""
    return engine.run(channel(chs, c), until)


@bare
def run_all(p, chs):
    """Run all operators of a program. STUCK: a READRES finds a bank closed; FULL: a channel has no place left."""
    npu = p.npu
    for o in range(p.op.shape[0]):
        if p.op[o, k.WAITS] == 0 and not start(p, chs, o, npu[k.TIME]):
            return FULL
    while npu[k.N_ENDED] < p.op.shape[0]:
        t = npu[k.TIME]
        until = t + window(p, chs, t)
        for c in range(chs.state.shape[0]):
            if chs.state[c, f.NOW] < until and advance(chs, c, until) == engine.STUCK:
                return STUCK
        npu[k.TIME] = until
        n = chs.ended[0]
        chs.ended[0] = 0
        _in_time(chs, n)
        for i in range(1, n + 1):
            if not _group_ends(p, chs, chs.ended[i]):
                return FULL
        for i in range(npu[k.N_RUNNING]):
            o = p.running[i]
            if p.op[o, k.IN_ORDER] and not _steps(p, chs, o):
                return FULL
        if not _ends(p, chs):
            return FULL
    return ALL_DONE


@bare
def _later(chs, group, other):
    return chs.done[group] > chs.done[other] or (
        chs.done[group] == chs.done[other] and chs.turn[group] > chs.turn[other]
    )


@bare
def _in_time(chs, n):
    """The groups that ended, in order of their clocks."""
    for i in range(2, n + 1):
        group, j = chs.ended[i], i
        while j > 1 and _later(chs, chs.ended[j - 1], group):
            chs.ended[j] = chs.ended[j - 1]
            j -= 1
        chs.ended[j] = group


@bare
def start(p, chs, o, t):
    """Operator o starts at clock t; returns whether its requests found room."""
    op = p.op[o]
    op[k.START], op[k.END], op[k.NEXT_TASK] = t, t, op[k.TASKS]
    p.npu[k.N_BEGUN] += 1
    _runs(p, o)
    op[k.BASE], op[k.LATEST] = p.npu[k.NEXT_BYTE], t
    op[k.TO_DO] = op[k.TASKS_END] - op[k.TASKS]
    _find_store(p, o)
    p.npu[k.NEXT_BYTE] = (p.npu[k.NEXT_BYTE] + op[k.BYTES]) % p.npu[k.WRAP]
    for b in range(op[k.LOADS], op[k.LOADS_END]):
        if not _send_block(p, chs, b, t + 1 + (b - op[k.LOADS] if op[k.SINGLY] else 0)):
            return False
    for i in range(op[k.DOTS], op[k.DOTS_END]):
        c, group = chs.dot[i, f.CHANNEL], chs.dot[i, f.GROUP]
        op[k.LATEST] = t + 1
        if op[k.SINGLY]:
            op[k.LATEST] = p.npu[k.DISPATCHED] = max(t, p.npu[k.DISPATCHED]) + 1
        chs.state[c, f.DOTS_SENT] += 1
        if not send(chs, c, op[k.PORT], -1 - i, op[k.LATEST], group, op[k.LATEST] > t + 1):
            return False
        if chs.dot[i, f.KIND] != f.HEADER:
            chs.left[group] += 1
            chs.open[o] += 1
    for x in range(p.reach_ptr[o], p.reach_ptr[o + 1]):
        p.reach[x, k.SENT] = chs.state[p.reach[x, k.REACHED], f.DOTS_SENT]
    return True


@bare
def _runs(p, o):
    """Operator o runs: its place among those that do."""
    i = p.npu[k.N_RUNNING]
    p.npu[k.N_RUNNING] += 1
    while i > 0 and p.running[i - 1] > o:
        p.running[i] = p.running[i - 1]
        i -= 1
    p.running[i] = o


@bare
def _send_block(p, chs, b, when):
    block, npu = p.block[b], p.npu
    group, write = block[k.BLOCK_GROUP], block[k.ACCESS] == f.WR
    op = p.op[block[k.BLOCK_OP]]
    first, n = lines_of(npu, op[k.BASE] + block[k.AT], block[k.SIZE])
    if npu[k.HASHED]:
        order_lines(p, first, n, npu[k.LINE])
    lines = npu[k.WRAP] // npu[k.LINE]
    for i in range(n):
        line = (first + (p.order[i] if npu[k.HASHED] else i)) % lines
        c, bank, row, column = place(npu, line)
        word = word_of(f.WR if write else f.RD, bank, row, column)
        if not send(chs, c, op[k.STORES if write else k.PORT], word, when, group, False):
            return False
    chs.left[group] += n
    chs.open[block[k.BLOCK_OP]] += n
    op[k.LATEST] = max(op[k.LATEST], when)
    return True


@bare
def _find_store(p, o):
    """The next task in order that stores."""
    op = p.op[o]
    i = max(op[k.NEXT_STORE], op[k.NEXT_TASK])
    while i < op[k.TASKS_END] and p.task[i, k.SENDS] < 0:
        i += 1
    op[k.NEXT_STORE] = i


@bare
def _group_ends(p, chs, group):
    """A group is complete: tasks out of order may start."""
    op, t = p.op[chs.owner[group]], chs.done[group]
    op[k.LEFT] -= 1
    op[k.END] = max(op[k.END], t)
    for i in range(p.task_ptr[group], p.task_ptr[group + 1]):
        x = p.task_of[i]
        task = p.task[x]
        task[k.MISSING] -= 1
        task[k.READY] = max(task[k.READY], t)
        if task[k.MISSING] == 0 and not _task_ends(p, chs, x, _takes_units(p, x) + task[k.CYCLES]):
            return False
    return True


@bare
def _takes_units(p, x):
    """Clock in which task x begins: the last to be ready, it takes the vector units that are free first."""
    task, unit = p.task[x], p.unit
    t, first = task[k.READY], 0
    for u in range(unit.shape[0]):
        if task[k.WIDE]:
            t = max(t, unit[u])
        elif unit[u] < unit[first]:
            first = u
    if unit.shape[0] and not task[k.WIDE]:
        t = max(t, unit[first])
    for u in range(unit.shape[0]):
        if task[k.WIDE] or u == first:
            unit[u] = t + task[k.CYCLES]
    return t


@bare
def _task_ends(p, chs, x, t):
    """Task x ends at clock t, and sends its block."""
    task = p.task[x]
    op = p.op[task[k.TASK_OP]]
    op[k.LEFT] -= 1
    op[k.TO_DO] -= 1
    op[k.END] = max(op[k.END], t)
    return task[k.SENDS] < 0 or _send_block(p, chs, task[k.SENDS], t + 1)


@bare
def _steps(p, chs, o):
    """Steps of a systolic array start in order, at most one in a clock, when their operands are there."""
    op, array, npu = p.op[o], p.array, p.npu
    while op[k.NEXT_TASK] < op[k.TASKS_END]:
        task = p.task[op[k.NEXT_TASK]]
        t = max(array[k.ISSUED] + 1, op[k.START])
        for need in range(k.NEED_A, k.NEED_C + 1):
            group = task[need]
            if group >= 0:
                if chs.left[group] != 0 or chs.done[group] == 0:
                    return True
                t = max(t, chs.done[group])
        if task[k.FOLLOWS] >= 0:
            t = max(t, p.task[task[k.FOLLOWS], k.READY] + task[k.PAUSE])
        began, streams = _begins(npu, array, task[k.PRELOADS], t), task[k.CYCLES] or npu[k.STEP]
        leaves = npu[k.LATENCY] + streams
        if npu[k.BY_OUTPUT]:
            began = max(began, t)
            if task[k.SENDS] >= 0:  # a tile's results go down behind those of the tile before
                began = max(began, array[k.DRAINED])
                array[k.DRAINED] = began + npu[k.ROWS]
                leaves += npu[k.ROWS]
        array[k.ISSUED], array[k.STARTED], array[k.STREAMS] = t, began, streams
        array[k.ENDED] = task[k.READY] = max(began + leaves, array[k.ENDED] + 1)
        op[k.NEXT_TASK] += 1
        _find_store(p, o)
        if not _task_ends(p, chs, op[k.NEXT_TASK] - 1, array[k.ENDED]):
            return False
    return True


@bare
def _begins(npu, array, loaded, t):
    """When a step starts whose operands are there at clock t, and which loads `loaded` into the arrays first."""
    if array[k.ENDED] <= t:
        return t + npu[k.EMPTY + loaded]
    if npu[k.DRAINS] and loaded != k.NOTHING:
        return array[k.ENDED]
    began = array[k.STARTED] + max(array[k.STREAMS], npu[k.BEHIND + loaded])
    return max(began, t) if npu[k.CLAMPED] else began


@bare
def _ends(p, chs):
    """Operators that are complete end, the earliest first, and those that wait for them start."""
    while True:
        at = _first_to_end(p)
        if at < 0:
            return True
        o = p.running[at]
        op = p.op[o]
        p.npu[k.N_RUNNING] -= 1
        for i in range(at, p.npu[k.N_RUNNING]):
            p.running[i] = p.running[i + 1]
        p.npu[k.N_ENDED] += 1
        _account(p, chs, o)
        for i in range(p.after_ptr[o], p.after_ptr[o + 1]):
            after = p.op[p.after_op[i]]
            after[k.WAITS] -= 1
            after[k.START] = max(after[k.START], op[k.END])
            if after[k.WAITS] == 0 and not start(p, chs, p.after_op[i], after[k.START]):
                return False


@bare
def _first_to_end(p):
    """Among those that run, the place of the operator that has nothing left and ended first; -1: none."""
    first = -1
    for i in range(p.npu[k.N_RUNNING]):
        op = p.op[p.running[i]]
        if op[k.LEFT] <= 0 and (first < 0 or op[k.END] < p.op[p.running[first], k.END]):
            first = i
    return first


@bare
def _account(p, chs, o):
    """What all channels have done before now, when the end of operator o is noticed; each has come to this clock."""
    row, now, ranks = p.account[o], p.npu[k.TIME], chs.rank.shape[1] // 2
    row[k.CLOCK] = now
    for c in range(chs.tally.shape[0]):
        for x in range(chs.tally.shape[1]):
            row[k.COMMAND + x] += chs.tally[c, x]
        for r in range(2 * ranks):
            rank = chs.rank[c, r]
            row[k.MEM_OPEN if r < ranks else k.PIM_OPEN] += rank[2] + (now - rank[1] if rank[0] > 0 else 0)
