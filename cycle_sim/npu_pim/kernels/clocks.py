"""Steps of the interconnect between the clocks of core and channels.

NeuPIMs' simulator (casys-kaist/NeuPIMs@f299af3, Simulator.cc) adds up the periods of its clocks in double precision, in
microseconds; where the sums should be equal they sometimes are not, and from there on, or back from there, a step comes
before a clock that should come after it.
"""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.seldom import seldom

AT, AHEAD = range(2)  # drift[1 + i]: from this clock on, so many steps more have been than should; drift[0]: how many i
# sums[…]: time of the clock COUNT[0] and of the step COUNT[1], and the two periods [us]
CLOCK_US, STEP_US, PERIOD_US, STEP_PERIOD_US = range(4)
COUNTS = 2  # drift[0] has the numbers of entries; drift[1]: clocks and steps that have been added up
FIRST = 2  # entry of drift
PASSAGE = 2  # steps from one buffer through the next
NEAR = 8  # clocks: to step through fewer is quicker than to divide


@bare
def extend(drift, sums, steps, until):
    """Add up the clocks to `until` and beyond."""
    while steps and drift[1, 0] <= until:
        while sums[STEP_US] < sums[CLOCK_US]:
            sums[STEP_US] += sums[STEP_PERIOD_US]
            drift[1, 1] += 1
        ahead, n = drift[1, 1] - steps * drift[1, 0], drift[0, 0]
        if ahead != (drift[FIRST + n - 1, AHEAD] if n else 0) and FIRST + n < drift.shape[0]:
            drift[FIRST + n, AT], drift[FIRST + n, AHEAD] = drift[1, 0], ahead
            drift[0, 0] = n + 1
        sums[CLOCK_US] += sums[PERIOD_US]
        drift[1, 0] += 1


@bare
def _entry_at(drift, t):
    """The last entry of `drift` that counts at clock t; FIRST - 1: none does."""
    i = FIRST + drift[0, 0] - 1
    while i >= FIRST and drift[i, AT] > t:
        i -= 1
    return i


@bare
def steps_before(drift, steps, t):
    """Steps before clock t."""
    i = _entry_at(drift, t)
    return steps * t + (drift[i, AHEAD] if i >= FIRST else 0)


@bare
def steps_at(ch, t):
    """(first, end) of the steps before clock t that are not before the clock before it."""
    g, drift, steps = ch.state, ch.drift, ch.policy[f.PATH]
    if not seldom(t >= g[f.STEADY] or drift[0, 0] != g[f.DRIFTS]):
        end = steps * t + g[f.AHEAD_BY]
        return end - steps, end
    i = _entry_at(drift, t)
    g[f.DRIFTS], g[f.AHEAD_BY] = drift[0, 0], drift[i, AHEAD] if i >= FIRST else 0
    g[f.STEADY] = drift[i + 1, AT] if i + 1 < FIRST + drift[0, 0] else FAR
    end = steps * t + g[f.AHEAD_BY]
    return steps_before(drift, steps, t - 1) if i >= FIRST and drift[i, AT] == t else end - steps, end


@bare
def clock_soon(ch, step, t):
    """`clock_after`, quicker where `steps_at` has told of a clock not after t and the steps stay as they are."""
    g, steps = ch.state, ch.policy[f.PATH]
    if seldom(t + NEAR >= g[f.STEADY] or step >= steps * (t + NEAR) + g[f.AHEAD_BY]):
        return clock_after(ch.drift, steps, step, t)
    while steps * t + g[f.AHEAD_BY] <= step:
        t += 1
    return t


@bare
def clock_after(drift, steps, step, t):
    """The first clock of core and channels after a step that is clock t or later."""
    if step > steps * (t + NEAR):
        t = step // steps
    i, end = _entry_at(drift, t), FIRST + drift[0, 0]
    ahead = drift[i, AHEAD] if i >= FIRST else 0
    while steps * t + ahead <= step:
        t += 1
        if i + 1 < end and drift[i + 1, AT] == t:
            i += 1
            ahead = drift[i, AHEAD]
    return t
