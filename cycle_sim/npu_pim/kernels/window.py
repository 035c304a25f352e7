"""How far the channels may go on before the core looks again."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.blocks import arrives
from pimloom.cycle_sim.npu_pim.kernels.tasks import clock_of


@bare
def window(p, chs):
    """The first clock in which something that the core does from now on can reach a channel, or an earlier one."""
    npu, sends, ends, t = p.npu, FAR, FAR, p.npu[k.CORE]
    for i in range(npu[k.N_COMING]):
        sends = min(sends, p.op[p.coming[i], k.START])
    for i in range(npu[k.N_RUNNING]):
        o = p.running[i]
        if _may_load(p, chs, o):
            sends = t
        elif npu[k.IN_ORDER]:
            sends = min(sends, _next_in_order(p, o, t))
        else:
            sends = min(sends, _next_store(p, chs, o, t))
    most, is_last = npu[k.TIME] + npu[k.LONGEST], npu[k.N_BEGUN] == p.op.shape[0]
    enough = most if is_last else min(max(sends, t), most) - npu[k.LATE]  # an end from here on changes nothing
    for i in range(npu[k.N_RUNNING]):
        ends = min(ends, _end(p, chs, p.running[i], t, enough))
    until = arrives(chs, min(max(min(sends, ends + npu[k.LATE]), t), most))
    if is_last:
        until = min(until, ends)  # not beyond the end of the last operator
    return min(until, most)


@bare
def _may_load(p, chs, o):
    """Whether an operator has loads that wait for no store that has yet to leave."""
    op = p.op[o]
    if op[k.NEXT_LOAD] == op[k.LOADS_END]:
        return False
    gate = p.block[op[k.NEXT_LOAD], k.GATE]
    return gate < 0 or chs.left[gate] > 0 or chs.done[gate] > 0


@bare
def _quiet(p, chs, o):
    """Clocks in which an operator surely does not see the last of its responses."""
    return max(chs.open[o] // (p.npu[k.ANSWERS] * chs.state.shape[0]), 1) - 1 if chs.open[o] else 0


@bare
def _end(p, chs, o, t, enough):
    """Operator o does not end before this clock; from clock `enough` on it is not told when."""
    op = p.op[o]
    ends, due = max(t, p.npu[k.TIME] + 1), p.npu[k.TIME]
    if chs.open[o] and ends < enough:
        ends = max(ends, p.npu[k.TIME] + 1 + _quiet(p, chs, o), op[k.LATEST] + 1)
        x, end = p.reach_ptr[o], p.reach_ptr[o + 1]
        while x < end and ends < enough:  # its PIM commands issue one a clock, behind others
            ends = max(ends, due + p.reach[x, k.SENT] - chs.state[p.reach[x, k.REACHED], f.DOTS_FIRST])
            x += 1
    if not op[k.TO_DO] or ends >= enough:
        return ends
    if op[k.ON_ARRAYS]:
        waits = op[k.NEXT_TASK] < op[k.TASKS_END]
        last = op[k.TASKS_END] - 1
        return max(ends, _step_ends(p, op, last, t) if waits else p.task[last, k.READY])
    return max(ends, min(_lands(p, o, False), t + op[k.LEAST]))


@bare
def _lands(p, o, stores):
    """The next clock in which a task of operator o ends that has started, or one that stores."""
    if p.op[o, k.STORING if stores else k.FLYING] == 0:
        return FAR
    i = p.npu[k.FLIGHT]
    while p.flight[i, k.OWNER] != o or (stores and not p.flight[i, k.STORES_TOO]):
        i += 1
    return p.flight[i, k.LANDS]


@bare
def _step_ends(p, op, x, t):
    """Step x, which has not started, does not end before this clock: steps of a GEMM end STEP or ROWS apart."""
    npu, ended = p.npu, p.array[k.ENDED]
    steps = x - op[k.NEXT_TASK] + 1
    if p.task[x, k.PRELOADS] == k.ON_UNIT:
        return t + steps
    now = t * npu[k.CLOCK_TICKS]
    if ended > now and not npu[k.BY_OUTPUT]:
        apart = min(npu[k.STEP], npu[k.ROWS]) if p.task[op[k.TASKS], k.CYCLES] < 0 else 0
        return max(clock_of(npu, ended + apart * steps), t + steps)
    return t + steps - 1 + (op[k.LEAST] if ended <= now or npu[k.CLAMPED] else 1)


@bare
def _next_store(p, chs, o, t):
    """Out of order, operator o stores nothing before this clock."""
    op = p.op[o]
    if not op[k.TO_DO]:
        return FAR
    soonest = _lands(p, o, True)
    if op[k.ON_ARRAYS]:
        if op[k.NEXT_STORE] < op[k.TASKS_END]:
            soonest = min(soonest, _step_ends(p, op, op[k.NEXT_STORE], t))
        return soonest
    ready = max(t, p.npu[k.TIME] + 1 + _quiet(p, chs, o)) if op[k.JOINT] else t
    return min(soonest, ready + op[k.LEAST])


@bare
def _next_in_order(p, o, t):
    """In order, operator o stores nothing before this clock."""
    op = p.op[o]
    s = op[k.NEXT_FULL]
    if s >= op[k.OUTS_END]:
        return FAR
    store, soonest = p.store[s], t + s - op[k.NEXT_OUT]  # one store leaves in a clock
    if store[k.FIRST_TASK] >= 0:
        if store[k.BIAS] < 0 and store[k.FIRST_TASK] >= op[k.NEXT_TASK]:
            soonest = max(soonest, t + store[k.FIRST_TASK] - op[k.NEXT_TASK] + 1)
        return soonest
    x = store[k.TASK]
    if x < op[k.NEXT_TASK]:
        return max(soonest, p.task[x, k.READY])
    if op[k.ON_ARRAYS]:
        return max(soonest, _step_ends(p, op, x, t))
    return max(soonest, t + x - op[k.NEXT_TASK] + max(op[k.LEAST], 1))
