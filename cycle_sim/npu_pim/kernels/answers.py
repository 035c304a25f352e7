"""Responses between a channel and the core: the channel notes what it answered, the core counts it.

A channel writes only what is its own, so that channels may go on side by side.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.fields import LAST_AT, LAST_TURN, MANY, WHOSE

NUMBER_BITS = 48  # of the number of a response in its channel


@bare
def note(ch, group, t):
    """The core sees a response of a group at clock t, no earlier than the one before it."""
    g = ch.state
    g[f.ANSWERED] += 1
    i = g[f.N_ANSWERS]
    if i == 0 or ch.answer[i - 1, WHOSE] != group:
        assert i < ch.answer.shape[0]
        g[f.N_ANSWERS] = i + 1
        ch.answer[i, WHOSE], ch.answer[i, MANY] = group, 0
    else:
        i -= 1
    ch.answer[i, MANY] += 1
    ch.answer[i, LAST_AT], ch.answer[i, LAST_TURN] = t, g[f.NUMBER] << NUMBER_BITS | g[f.ANSWERED]


@bare
def collect(ch):
    """Count what the channel has noted: of the responses of one clock, in order of channels, the last counts."""
    for i in range(ch.state[f.N_ANSWERS]):
        answer = ch.answer[i]
        group, t, turn = answer[WHOSE], answer[LAST_AT], answer[LAST_TURN]
        ch.left[group] -= answer[MANY]
        ch.open[ch.owner[group]] -= answer[MANY]
        if t > ch.done[group] or (t == ch.done[group] and turn > ch.turn[group]):
            ch.done[group], ch.turn[group] = t, turn
        if ch.left[group] == 0:
            ch.ended[0] += 1
            ch.ended[ch.ended[0]] = group
    ch.state[f.N_ANSWERS] = 0
