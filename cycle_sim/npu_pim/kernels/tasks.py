"""Tasks of the core: steps of the systolic arrays, work of the vector units, and the stores that they make."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels.blocks import send_block


@bare
def is_complete(chs, group, t):
    """Whether the core has seen all responses of a group by clock t."""
    return chs.left[group] == 0 and 0 < chs.done[group] <= t


@bare
def issue(p, chs, o, t):
    """The next task of operator o in the program's order starts at clock t, if it can; returns whether it did."""
    op = p.op[o]
    if op[k.NEXT_TASK] >= op[k.TASKS_END]:
        return False
    if op[k.ON_ARRAYS]:
        return _issue_step(p, chs, o, t)
    return p.npu[k.IN_ORDER] != 0 and _issue_vector(p, o, t)


@bare
def _issue_step(p, chs, o, t):
    """A step of the arrays, at most one in a clock for all operators, when its operands are there."""
    op, array, npu = p.op[o], p.array, p.npu
    x = op[k.NEXT_TASK]
    task = p.task[x]
    if array[k.ISSUED] >= t:
        return False
    for need in range(k.NEED_A, k.NEED_C + 1):
        if task[need] >= 0 and not is_complete(chs, task[need], t):
            return False
    if task[k.PRELOADS] == k.ON_UNIT:
        array[k.ISSUED] = t
        _starts(p, op, x, _reserve(p, task, t))
        return True
    if task[k.FOLLOWS] >= 0:
        soonest = p.task[task[k.FOLLOWS], k.READY] + task[k.PAUSED]
        if soonest > t:
            npu[k.WAKE] = min(npu[k.WAKE], soonest)
            return False
    began, streams = _begins(npu, array, task[k.PRELOADS], t), npu[k.STEP] if task[k.CYCLES] < 0 else task[k.CYCLES]
    leaves = npu[k.LATENCY] + streams
    if npu[k.BY_OUTPUT]:
        began = max(began, t * npu[k.CLOCK_TICKS])
        if task[k.SENDS] >= 0:  # a tile's results go down behind those of the tile before
            began = max(began, array[k.DRAINED])
            array[k.DRAINED] = began + npu[k.ROWS]
            leaves += npu[k.ROWS]
    array[k.ISSUED], array[k.STARTED], array[k.STREAMS] = t, began, streams
    array[k.ENDED] = max(began + leaves, array[k.ENDED] + npu[k.CYCLE_TICKS])
    _starts(p, op, x, clock_of(npu, array[k.ENDED]))
    return True


@bare
def clock_of(npu, ticks):
    """The first clock of the memory at or after a tick."""
    return (ticks + npu[k.CLOCK_TICKS] - 1) // npu[k.CLOCK_TICKS]


@bare
def _reserve(p, task, t):
    """Work for a vector unit in the queue of the arrays: it holds up none behind it, and takes the unit that is free
    first from when the step before it has ended; returns the clock in which it ends."""
    if task[k.FOLLOWS] >= 0:
        t = max(t, p.task[task[k.FOLLOWS], k.READY] + task[k.PAUSED])
    return _takes_units(p, task, t) + max(task[k.CYCLES], 1)


@bare
def _begins(npu, array, loaded, t):
    """The tick in which a step starts whose operands are there at clock t, and which loads `loaded` first."""
    now = t * npu[k.CLOCK_TICKS]
    if array[k.ENDED] <= now:
        return now + npu[k.EMPTY + loaded]
    if npu[k.DRAINS] and loaded != k.NOTHING:
        return array[k.ENDED]
    began = array[k.STARTED] + max(array[k.STREAMS], npu[k.BEHIND + loaded])
    return max(began, now) if npu[k.CLAMPED] else began


@bare
def _issue_vector(p, o, t):
    """Work for a vector unit: the first that is idle, or else the first of all, whose tasks end in their order. Wide
    work takes all of them."""
    op, unit, npu = p.op[o], p.unit, p.npu
    x = op[k.NEXT_TASK]
    task = p.task[x]
    if task[k.MISSING] > 0:
        return False
    first, idle = -1, 0
    for u in range(unit.shape[0]):
        if unit[u] <= t:
            idle += 1
            if first < 0:
                first = u
    if npu[k.WAITS_FOR_UNIT] and idle < (unit.shape[0] if task[k.WIDE] else 1):
        return False
    first = max(first, 0)
    ends = t + max(task[k.CYCLES], 1)
    for u in range(unit.shape[0]):
        if u == first or task[k.WIDE]:
            ends = max(ends, unit[u] + 1)
    for u in range(unit.shape[0]):
        if u == first or task[k.WIDE]:
            unit[u] = ends
    _starts(p, op, x, ends)
    return True


@bare
def _starts(p, op, x, ends):
    """Task x, the next of its operator, has started and ends at clock `ends`."""
    task = p.task[x]
    op[k.NEXT_TASK] = x + 1
    find_store(p, op)
    if task[k.ENTRY] >= 0:
        p.store[task[k.ENTRY], k.PENDING] += 1
        p.store[task[k.ENTRY], k.BEGUN] = 1
    fly(p, x, ends)


@bare
def find_store(p, op):
    """The next task in order that makes a store."""
    i = max(op[k.NEXT_STORE], op[k.NEXT_TASK])
    while i < op[k.TASKS_END] and p.task[i, k.SENDS] < 0:
        i += 1
    op[k.NEXT_STORE] = i


@bare
def fly(p, x, t):
    """Task x has started and ends at clock t."""
    npu, flight, task = p.npu, p.flight, p.task[x]
    o, stores = task[k.TASK_OP], 1 if task[k.SENDS] >= 0 else 0
    p.op[o, k.FLYING] += 1
    p.op[o, k.STORING] += stores
    task[k.READY] = t
    at = npu[k.FLIGHT_END]
    npu[k.FLIGHT_END] += 1
    while at > npu[k.FLIGHT] and flight[at - 1, k.LANDS] > t:
        for field in range(k.N_FLIGHT):
            flight[at, field] = flight[at - 1, field]
        at -= 1
    flight[at, k.LANDS], flight[at, k.FLIES], flight[at, k.OWNER], flight[at, k.STORES_TOO] = t, x, o, stores


@bare
def land(p, chs, t):
    """Tasks that end by clock t; out of order each sends its store at once. Returns how many, -1 if one has no room."""
    npu, n = p.npu, 0
    while npu[k.FLIGHT] < npu[k.FLIGHT_END] and p.flight[npu[k.FLIGHT], k.LANDS] <= t:
        x = p.flight[npu[k.FLIGHT], k.FLIES]
        npu[k.FLIGHT] += 1
        n += 1
        task = p.task[x]
        op = p.op[task[k.TASK_OP]]
        op[k.LEFT] -= 1
        op[k.TO_DO] -= 1
        op[k.FLYING] -= 1
        op[k.STORING] -= 1 if task[k.SENDS] >= 0 else 0
        if task[k.ENTRY] >= 0:
            p.store[task[k.ENTRY], k.PENDING] -= 1
        if not npu[k.IN_ORDER] and task[k.SENDS] >= 0 and not send_block(p, chs, p.store[task[k.SENDS], k.BLOCK], t):
            return -1
    if npu[k.FLIGHT] == npu[k.FLIGHT_END]:  # what was used last is near in memory
        npu[k.FLIGHT] = npu[k.FLIGHT_END] = 0
    return n


@bare
def store_next(p, chs, o, t):
    """The head of an operator's queue of stores leaves at clock t, if its result is there; returns whether it did, -1
    if it has no room."""
    op = p.op[o]
    s = op[k.NEXT_OUT]
    if s >= op[k.OUTS_END] or not _is_there(p, chs, op, s, t):
        return 0
    op[k.NEXT_OUT] = s + 1
    find_full(p, op)
    return 1 if send_block(p, chs, p.store[s, k.BLOCK], t) else -1


@bare
def _is_there(p, chs, op, s, t):
    """Whether store s may leave at clock t: its task has ended or, where steps are counted, none adds to it now."""
    store = p.store[s]
    if store[k.FIRST_TASK] < 0:
        return store[k.TASK] < op[k.NEXT_TASK] and p.task[store[k.TASK], k.READY] <= t
    if store[k.PENDING] > 0:
        return False
    if store[k.BIAS] >= 0:
        return is_complete(chs, store[k.BIAS], t)
    return store[k.BEGUN] > 0


@bare
def find_full(p, op):
    """The next store of the queue that writes anything."""
    i = max(op[k.NEXT_FULL], op[k.NEXT_OUT])
    while i < op[k.OUTS_END] and p.block[p.store[i, k.BLOCK], k.SIZE] == 0:
        i += 1
    op[k.NEXT_FULL] = i


@bare
def group_ends(p, chs, group, t):
    """The core sees the last response of a group at clock t: out of order, tasks on vector units may start."""
    p.op[chs.owner[group], k.LEFT] -= 1
    for i in range(p.task_ptr[group], p.task_ptr[group + 1]):
        x = p.task_of[i]
        task = p.task[x]
        task[k.MISSING] -= 1
        if task[k.MISSING] == 0 and not p.npu[k.IN_ORDER]:
            fly(p, x, _takes_units(p, task, t) + task[k.CYCLES])


@bare
def _takes_units(p, task, t):
    """Clock from t on in which a task begins: the last to be ready, it takes the vector units that are free first."""
    unit, first = p.unit, 0
    if not p.npu[k.WAITS_FOR_UNIT]:
        return t
    for u in range(unit.shape[0]):
        if task[k.WIDE]:
            t = max(t, unit[u])
        elif unit[u] < unit[first]:
            first = u
    if not task[k.WIDE]:
        t = max(t, unit[first])
    for u in range(unit.shape[0]):
        if task[k.WIDE] or u == first:
            unit[u] = t + task[k.CYCLES]
    return t


@bare
def next_landing(p):
    """Clock in which the next task ends."""
    npu = p.npu
    return p.flight[npu[k.FLIGHT], k.LANDS] if npu[k.FLIGHT] < npu[k.FLIGHT_END] else FAR
