"""The ways into a channel: requests that the core has sent are offered to the controller.

Without an interconnect each port offers a few of its requests in a clock. With one, as in NeuPIMs' simulator
(casys-kaist/NeuPIMs@f299af3, Interconnect.cc), there are PATH steps at the end of each clock: in a step one request of
each port comes into the core's buffer, and one of all leaves it; in the next step it may be offered, one of each port.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.clocks import clock_after, steps_at
from pimloom.cycle_sim.npu_pim.kernels.lowest import lowest
from pimloom.cycle_sim.npu_pim.kernels.requests import accept, is_held_up, list_is_full
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom
from pimloom.cycle_sim.npu_pim.kernels.words import next_word

LACKS_PLACE, NOT_YET, LATER, ENTERED = range(4)


@bare
def offer(ch, t):
    """Requests that are offered at clock t without an interconnect; says when the next may enter, unless a place that
    one of them lacks becomes free."""
    again = FAR
    for p in range(ch.port.shape[0]):
        left = ch.policy[f.OFFERS]
        while ch.port[p, f.OFFERED] < ch.port[p, f.LAST_ONE]:
            sent = ch.order[p, ch.port[p, f.OFFERED] & (ch.order.shape[1] - f.BEYOND)]
            if sent[f.WHEN] > t or left == 0:
                again = min(again, max(sent[f.WHEN], t + 1))
                break
            if list_is_full(ch, sent[f.WORD]) or is_held_up(ch, sent[f.WORD], ch.state[f.HELD]):
                break
            _enters(ch, p, sent, t)
            left -= 1
    ch.state[f.OFFER_AT] = again


@bare
def offer_by_steps(ch, t):
    """Requests that are offered in the steps of the interconnect before clock t; returns the first step after these."""
    g = ch.state
    first, end = steps_at(ch, t)
    if t >= g[f.OFFER_AT]:
        _offer_from(ch, t, first, end)
    if g[f.RETURN] > first:
        g[f.ACTED] = 1  # responses left the controller only now
    else:
        g[f.LEAVING] = 0
    return end


@bare
def _offer_from(ch, t, step, end):
    """Requests that are offered in the steps from `step` to `end`, before clock t."""
    g, window = ch.state, ch.policy[f.WINDOW]
    ports, lacking, has_headers = g[f.PORTS], True, ch.dot.shape[0] > 0
    while ports:
        if not has_headers:  # which alone enter a full window
            if g[f.HELD] >= window:
                g[f.OFFER_AT] = FAR
                return
            step = max(step, g[f.RETURN] + g[f.HELD] - window + 1)
        if step >= end:
            break
        rest = ports
        while rest:
            p = lowest(rest)
            rest &= rest - 1
            offered = _offered(ch, p, t, step, end)
            if offered == NOT_YET:
                lacking = False
            if offered < LATER:
                ports &= ~(1 << p)
        step += 1
    g[f.OFFER_AT] = FAR if lacking and not ports else t + 1


@bare
def _offered(ch, p, t, step, end):
    """What becomes of the next request of a port in a step before step `end`. LACKS_PLACE: there is none, or no place
    for it before a response falls due; NOT_YET: it does not come before step `end`; neither changes in these steps.
    LATER: it may enter in the next one; ENTERED."""
    g, at = ch.state, ch.port[p, f.OFFERED]
    if at == ch.port[p, f.LAST_ONE]:
        g[f.PORTS] &= ~(1 << p)
        return LACKS_PLACE
    if at == ch.port[p, f.PASSED] and not _pass_on(ch, p, end - 1):
        return NOT_YET
    sent = ch.order[p, at & (ch.order.shape[1] - f.BEYOND)]
    if list_is_full(ch, sent[f.WORD]):
        return LACKS_PLACE
    if sent[f.WHEN] > step:
        return LATER if sent[f.WHEN] < end else NOT_YET
    if is_held_up(ch, sent[f.WORD], g[f.HELD] + max(g[f.RETURN] - step, 0)):
        return LACKS_PLACE if g[f.HELD] >= ch.policy[f.WINDOW] else LATER
    _enters(ch, p, sent, t)
    return ENTERED


@bare
def _enters(ch, p, sent, t):
    """The controller takes the next request of a port."""
    accept(ch, sent[f.WORD], sent[f.OF], t)
    if seldom(sent[f.MORE] > 0):
        sent[f.MORE] -= 1
        sent[f.WORD] = next_word(sent[f.WORD], ch.policy[f.COLUMNS], ch.bank.shape[0])
    else:
        ch.port[p, f.OFFERED] += 1
    ch.state[f.ACTED] = 1


@bare
def _comes(ch, p):
    """Step in which the next request of a port comes into the core's buffer."""
    at = ch.port[p, f.PASSED] & (ch.order.shape[1] - f.BEYOND)
    return max(ch.order[p, at, f.WHEN], ch.port[p, f.CAME] + 1)


@bare
def _pass_on(ch, wanted, end):
    """Requests leave the core's buffer, those first that came first, until one of port `wanted` does; returns whether
    it does before step `end`."""
    g, port = ch.state, ch.port
    while True:
        first, came = -1, FAR
        rest = g[f.PORTS]
        while rest:
            p = lowest(rest)
            rest &= rest - 1
            if port[p, f.PASSED] < port[p, f.LAST_ONE]:
                step = _comes(ch, p)
                if step < came:
                    first, came = p, step
        leaves = max(came, g[f.BUFFER]) + 1
        if first < 0 or leaves >= end:
            return False
        ch.order[first, port[first, f.PASSED] & (ch.order.shape[1] - f.BEYOND), f.WHEN] = leaves + 1
        port[first, f.PASSED] += 1
        port[first, f.CAME], g[f.BUFFER] = came, leaves
        if first == wanted:
            return True


@bare
def next_offer(ch, t):
    """After clock t, in which nothing happened, the next one in which a request may be offered that was not yet."""
    after, steps = FAR, ch.policy[f.PATH]
    if ch.dot.shape[0] == 0 and ch.state[f.HELD] >= ch.policy[f.WINDOW]:
        return after  # a response comes first
    for p in range(ch.port.shape[0]):
        at, end = ch.port[p, f.OFFERED], ch.port[p, f.LAST_ONE]
        if at == end:
            continue
        when = ch.order[p, at & (ch.order.shape[1] - f.BEYOND), f.WHEN]
        if not steps:
            when = when if when > t else FAR
        elif at == ch.port[p, f.PASSED]:
            when = max(clock_after(ch.drift, steps, max(_comes(ch, p), ch.state[f.BUFFER]) + 2, t), t + 1)
        else:
            when = clock_after(ch.drift, steps, when, t)
            when = when if when > t else FAR
        after = min(after, when)
    return after
