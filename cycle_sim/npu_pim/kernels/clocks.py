"""Steps of the interconnect between the clocks of core and channels.

NeuPIMs' simulator (casys-kaist/NeuPIMs@f299af3, Simulator.cc) adds up the periods of its clocks in double precision, in
microseconds; where the sums should be equal they sometimes are not, and from there on, or back from there, a step comes
before a clock that should come after it.
"""

from pimloom.cycle_sim.compiled.kernel import bare

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
def steps_before(drift, steps, t):
    """Steps before clock t."""
    i = FIRST + drift[0, 0] - 1
    while i >= FIRST and drift[i, AT] > t:
        i -= 1
    return steps * t + (drift[i, AHEAD] if i >= FIRST else 0)


@bare
def steps_at(drift, steps, t):
    """(first, end) of the steps before clock t that are not before the clock before it."""
    i = FIRST + drift[0, 0] - 1
    while i >= FIRST and drift[i, AT] > t:
        i -= 1
    end = steps * t + (drift[i, AHEAD] if i >= FIRST else 0)
    return steps_before(drift, steps, t - 1) if i >= FIRST and drift[i, AT] == t else end - steps, end


@bare
def clock_after(drift, steps, step, t):
    """The first clock of core and channels after a step that is clock t or later."""
    if step > steps * (t + NEAR):
        t = step // steps
    while steps_before(drift, steps, t) <= step:
        t += 1
    return t
