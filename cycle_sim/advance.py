"""The compiled loop of PIM-GPT's state machine, `cycle_sim.machine`: from step to step until a run is unknown."""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry

FAR = 1 << 60
LONGEST_PS = 1 << 61  # 26 days; keeps every sum below 2^63
# state; END in ps, others in clocks; STEPS: how many are done, of TOTAL, which are COUNT steps again and again
END, DUE, READY, REFRESHED, REFRESHES, CODE, WANT_DUE, WANT_RUNNING, STEPS, TOTAL, COUNT, N_STATE = range(12)
TCK, CLOCK, REFI, AGAIN, REFRESHING, POSTPONED = range(6)  # fixed
PIM, ARG, SLOT, DURATION = range(4)  # steps[i]: PIM or not, its entry; where its time is added; of an ASIC step [ps]
IDLE, SETTLED, FIRST, LAST = range(4)  # entries[i]: of the quiet run; its rows in `runs`
RUNNING, LOW, HIGH, RUN_IDLE, RUN_READY, RUN_REFRESHED, RUN_REFRESHES = range(7)  # runs[i], rising by RUNNING and LOW
GOING, UNKNOWN, TOO_LATE, TOO_LONG = range(4)


@entry
def refresh_until(start, fixed, state):
    """Issue the refreshes that fall due while PIM is idle, up to and in clock `start`; TOO_LATE in CODE if one is."""
    while fixed[REFRESHING]:
        at = max(state[DUE], state[READY])
        if at > start:
            return
        if at >= state[DUE] + fixed[POSTPONED] * fixed[REFI]:
            state[CODE], state[WANT_DUE] = TOO_LATE, at
            return
        n = np.int64(1)
        if at == state[DUE] and fixed[AGAIN] <= fixed[REFI]:  # all that follow are in time
            n += (start - at) // fixed[REFI]
        state[DUE] += n * fixed[REFI]
        state[REFRESHED] = at + (n - 1) * fixed[REFI]
        state[READY] = state[REFRESHED] + fixed[AGAIN]
        state[REFRESHES] += n


@bare
def _find(runs, first, last, due, running):
    """Row of the run with this refresh due and that one running, or -1."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if runs[middle, RUNNING] < running or (runs[middle, RUNNING] == running and runs[middle, LOW] <= due):
            low = middle + 1
        else:
            high = middle
    at = low - 1
    if at < first or runs[at, RUNNING] != running or runs[at, HIGH] < due:
        return -1
    return at


@entry
def advance(steps, entries, runs, fixed, state, time_ps, quiet_ps, ends):
    """Go on to the last of the steps, or as far as it goes: STEPS says where it stopped, CODE why.

    ends: takes the end of each [ps], if it has room.

    UNKNOWN: WANT_DUE and WANT_RUNNING say which run of the step's entry is needed; call again from there.
    """
    state[CODE], tck, clock = GOING, fixed[TCK], fixed[CLOCK]
    while state[STEPS] < state[TOTAL]:
        step = state[STEPS] % state[COUNT]
        slot = steps[step, SLOT]
        if not steps[step, PIM]:
            start = (state[END] + clock - 1) // clock * clock
            end, quiet = start + steps[step, DURATION], steps[step, DURATION]
        else:
            start = (state[END] + tck - 1) // tck
            refresh_until(start, fixed, state)
            if state[CODE] != GOING:
                return
            entry = steps[step, ARG]
            idle, settled = entries[entry, IDLE], entries[entry, SETTLED]
            due, running = state[DUE] - start, state[REFRESHED] - start
            quiet = idle * tck
            rest = max(running + fixed[AGAIN], 0)  # clocks that an earlier REFab may still hold the step up
            if due > settled and rest == 0:
                state[READY] = max(state[READY], start + idle)
            else:
                due, running = min(due, settled + rest + 1), running if rest else -FAR
                at = _find(runs, entries[entry, FIRST], entries[entry, LAST], due, running)
                if at < 0:
                    state[CODE], state[WANT_DUE], state[WANT_RUNNING] = UNKNOWN, due, running
                    return
                idle, n = runs[at, RUN_IDLE], runs[at, RUN_REFRESHES]
                if n:
                    state[DUE] += n * fixed[REFI]
                    state[REFRESHED] = start + runs[at, RUN_REFRESHED]
                    state[REFRESHES] += n
                state[READY] = start + runs[at, RUN_READY]
            if start + idle > LONGEST_PS // tck:
                state[CODE] = TOO_LONG
                return
            end = (start + idle) * tck
        if end > LONGEST_PS:
            state[CODE] = TOO_LONG
            return
        time_ps[slot] += end - state[END]
        quiet_ps[slot] += quiet
        state[END] = end
        if state[STEPS] < len(ends):
            ends[state[STEPS]] = end
        state[STEPS] += 1
