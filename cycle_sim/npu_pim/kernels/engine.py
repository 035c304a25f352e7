"""A PIM channel from event to event: in each clock, in this order, responses that were due are collected, requests are
accepted, responses fall due, a refresh falls due, a command issues, and a request moves to its command queue.

Clocks in which nothing of that can happen are jumped over.
"""

from pimloom.cycle_sim.compiled.kernel import bare, entry
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.answers import collect
from pimloom.cycle_sim.npu_pim.kernels.banks import dots_wait, first_dot, reserve, set_row, take
from pimloom.cycle_sim.npu_pim.kernels.data import choose, next_data
from pimloom.cycle_sim.npu_pim.kernels.dots import (
    WAIT,
    head,
    next_dot,
    next_refresh_command,
    refresh_command,
)
from pimloom.cycle_sim.npu_pim.kernels.ports import next_offer, offer, offer_by_steps
from pimloom.cycle_sim.npu_pim.kernels.requests import (
    copies_alike,
    end_write,
    free,
    hand_over,
    key_of,
    move,
    next_response,
    respond,
    respond_read,
)  # fmt: skip
from pimloom.cycle_sim.npu_pim.kernels.row import opened
from pimloom.cycle_sim.npu_pim.kernels.rules import arm
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom

DONE, STUCK, FLUSH = range(3)  # what `run` returns


@bare
def run(ch, until):
    """Go on to clock `until`; to FAR: until no request is left.

    STUCK: a READRES finds a bank closed; FLUSH: empty the log of commands.
    """
    _fits(ch)
    g = ch.state
    while g[f.NOW] < until:
        if seldom(g[f.N_COMMANDS] >= ch.command.shape[0]):
            return FLUSH
        t = g[f.NOW]
        g[f.ACTED] = 0
        if not _tick(ch, t):
            return STUCK
        g[f.NOW] = t + 1
        if seldom(g[f.ACTED] == 0):
            after = _next_event(ch, t)
            if after == FAR:
                if until == FAR:
                    return DONE
                after = g[f.NEXT_REFRESH]
            g[f.NOW] = max(after, t + 1)
    return DONE


@entry
def run_alone(ch, until):
    """As `run`, for a channel without a core: what it answers is counted at once."""
    code = run(opened(ch), until)
    collect(ch)
    return code


@bare
def _fits(ch):
    """The rows of the arrays are as long as `fields` says, and known to be from here on: no product has to be made to
    find a place."""
    assert ch.device.path.shape[1] == f.PATH_PLACES
    assert ch.device.place.shape[1] == f.MOST_BANKS
    assert ch.request.shape[1] == f.N_REQUEST
    assert ch.list.shape[2] == f.N_LIST
    assert ch.line.shape[2] == f.N_LINE
    assert ch.order.shape[2] == f.N_ORDER
    assert ch.port.shape[1] == f.N_PORT
    assert ch.queued.shape[1] == f.N_QUEUED
    assert ch.answer.shape[1] == f.N_ANSWER


@bare
def _tick(ch, t):
    """One clock; returns whether the channel can go on."""
    g = ch.state
    if seldom(g[f.REMAIN] > 0) and ch.policy[f.EXACT_SLACK]:
        g[f.REMAIN], g[f.AGED] = max(g[f.REMAIN] - (t - g[f.AGED]), 0), t
    step = t
    if ch.policy[f.PATH]:
        if t >= g[f.OFFER_AT] or t >= g[f.SOONEST] or g[f.LEAVING]:
            step = offer_by_steps(ch, t)
    else:
        if g[f.HANDED]:
            _collected(ch)
        if t >= g[f.OFFER_AT]:
            offer(ch, t)
    hand_over(ch, t, step)
    if seldom(t >= g[f.NEXT_REFRESH]):
        g[f.DUE] += 1
        g[f.NEXT_REFRESH] += ch.policy[f.REFRESH_CK]
    c, b, what = -1, 0, 0
    if seldom(g[f.DUE] > 0):
        g[f.IN_REFRESH] = g[f.NEXT_RANK]
        c, b = refresh_command(ch, g[f.NEXT_RANK], t)
        if c == f.REFAB:
            g[f.DUE] -= 1
            g[f.NEXT_RANK] = g[f.NEXT_RANK] + 1 if g[f.NEXT_RANK] + 1 < ch.policy[f.RANKS] else 0
            g[f.IN_REFRESH], g[f.SKIP], g[f.REMAIN] = -1, 0, 0
            reserve(ch, -1)
    if c < 0:
        c, b, what = _select(ch, t)
        if seldom(c == WAIT):
            return False
    if c >= 0:
        _issue(ch, t, c, b, what)
        g[f.ACTED] = 1
    if move(ch):
        g[f.ACTED] = 1
    return True


@bare
def _collected(ch):
    """The core has collected what was handed over in the clock before."""
    g = ch.state
    if g[f.HELD] >= ch.policy[f.WINDOW]:
        g[f.OFFER_AT] = 0
    g[f.HELD] -= g[f.HANDED]
    g[f.HANDED] = 0
    g[f.ACTED] = 1


@bare
def _select(ch, t):
    """(command, bank, request or row) that issues at clock t; command -1: none."""
    g, p = ch.state, ch.policy
    waits = dots_wait(ch)
    if p[f.SINGLE]:
        if not g[f.SKIP] and (g[f.BLOCKED] or g[f.QUEUED] == 0):
            if g[f.IN_REFRESH] >= 0 or not waits:
                return -1, 0, 0
            return _dot(ch, t)
    elif waits and p[f.DUAL] and not g[f.SKIP] and g[f.IN_REFRESH] < 0:
        c, b, what = _dot(ch, t)
        if c != -1 or g[f.REMAIN] < p[f.FLOOR]:
            return c, b, what
    return choose(ch, t)


@bare
def _dot(ch, t):
    g = ch.state
    i = first_dot(ch)
    c, b = head(ch, t)
    row = ch.request[i, f.ROW]
    if c >= 0 and c == ch.request[i, f.KIND]:
        g[f.DOTS_FIRST] += 1
        g[f.TILES] -= ch.request[i, f.LAST]
        g[f.STILL], g[f.SETTLED] = -1, 0
        return c, b, i
    return c, b, row


@bare
def _issue(ch, t, c, b, what):
    """Command c issues. what: its request, for RD, WR and PIM commands; its row, for ACT and G_ACT."""
    g, p = ch.state, ch.policy
    ch.tally[c] += 1
    if c != f.PIM_PRE:
        arm(ch.device, c, b, t)
    if c == f.RD or c == f.WR:
        ch.bank[b, f.SERVED] += 1
        take(ch, what, b, c)
        if c == f.RD:
            respond_read(ch, what, t + p[f.READ_CK])
        else:
            end_write(ch, what)
    elif c == f.ACT:
        set_row(ch, b, f.MEM, what, t)
    elif c == f.PRE:
        set_row(ch, b, f.MEM, -1, t)
    elif c == f.PIM_PRE:
        low = b // p[f.CLOSED] * p[f.CLOSED]
        for i in range(low, low + p[f.CLOSED]):
            arm(ch.device, c, i, t)
            set_row(ch, i, f.PIM, -1, t)
    elif c == f.G_ACT:
        b = b // p[f.PER_GROUP] * p[f.PER_GROUP]
        for i in range(b, b + p[f.PER_GROUP]):
            set_row(ch, i, f.PIM if p[f.DUAL] else f.MEM, what, t)
    elif c != f.REFAB:
        _issue_dot(ch, t, c, b, what)
        free(ch, what)
    if seldom(p[f.LOGGING] != 0):
        n = g[f.N_COMMANDS]
        ch.command[n, 0], ch.command[n, 1], ch.command[n, 2] = t, c, b
        ch.command[n, 3] = what if c == f.ACT or c == f.G_ACT else ch.bank[b, f.MEM]
        g[f.N_COMMANDS] = n + 1


@bare
def _issue_dot(ch, t, c, b, i):
    """PIM command c, request i, issues."""
    g, p, request = ch.state, ch.policy, ch.request[i]
    if c == f.GWRITE:
        ch.alike[copies_alike(key_of(ch, i))] -= 1
        respond(ch, f.COPY, request[f.GROUP], t + p[f.COPY_CK])
    elif c == f.COMP:
        if g[f.FILL]:
            arm(ch.device, f.COMP_FIRST, b, t)
        g[f.FILL] = 0
        respond(ch, f.QUICK, request[f.GROUP], t)
    elif c == f.READRES:
        g[f.FILL] = 1
        respond(ch, f.LATE, request[f.GROUP], t + p[f.READ_CK])
        if request[f.LAST]:
            g[f.BLOCKED], g[f.REMAIN] = 0, 0
            reserve(ch, -1)
    elif c == f.GEMV:
        busy = max(request[f.COUNT] * p[f.COMP_CK], p[f.GEMV_CK])
        arm(ch.device, f.GEMV_END, b, t + busy)
        ch.tally[f.COMP] += request[f.COUNT]
        late = max(request[f.COUNT] * p[f.COMP_CK], p[f.TREE_CK]) if p[f.LATE_GEMV] else 0
        respond(ch, f.GEMVS, request[f.GROUP], t + p[f.READ_CK] + late)


@bare
def _next_event(ch, t):
    """The next clock in which anything can happen, after a clock t in which nothing did."""
    g, p = ch.state, ch.policy
    after = next_response(ch)
    after = min(after, next_offer(ch, t))
    waits = dots_wait(ch)
    held = g[f.QUEUED] > 0 or ch.length[0] > 0 or ch.length[1] > 0 or ch.length[2] > 0
    if after == FAR and not (waits or held or g[f.DUE]):
        return FAR
    after = min(after, g[f.NEXT_REFRESH])
    if after <= t + 1:
        return after
    if g[f.DUE]:
        after = min(after, next_refresh_command(ch, g[f.NEXT_RANK], t))
    elif waits and not g[f.SKIP] and (p[f.DUAL] or g[f.BLOCKED] or g[f.QUEUED] == 0):
        after = min(after, next_dot(ch, t))
    if g[f.BLOCKED] and (g[f.QUEUED] or g[f.SKIP]):  # the pointer goes on by a bank in each clock, requests or not
        after = t + 1
    elif g[f.QUEUED]:
        after = min(after, next_data(ch, t + 1))
    return after
