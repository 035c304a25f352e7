"""Threads that bring the channels through a window together: each takes one that nobody has taken."""

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.answers import collect
from pimloom.cycle_sim.npu_pim.kernels.atomic import add, swap
from pimloom.cycle_sim.npu_pim.kernels.fields import Channel, Device
from pimloom.cycle_sim.npu_pim.kernels.row import opened

# crew[…], each where no other is near: channels that are taken, those that have come through, clock that they go to,
# how many stopped before, threads that look for work, threads beside the first, clocks of all channels together for
# which they are called, channels that these have taken
NEXT, THROUGH, UNTIL, N_STOPPED, AWAKE, HELPERS, LONG, FROM_END = range(0, 128, 16)
N_CREW = 128
ALONE, TOGETHER = 1, 2  # how channels go on
LOOKS = 20_000  # for work, before a thread sleeps: some 0.1 ms


@bare
def channel(chs, c):
    """Channel c of the stack."""
    d = chs.device
    return Channel(
        Device(d.path, d.bound[c], d.place, d.rule, d.first_rule, d.ring[c]),
        chs.request[c], chs.spare[c], chs.list[c], chs.dots[c], chs.line[c], chs.order[c], chs.dot, chs.port[c],
        chs.left, chs.done, chs.turn, chs.ended, chs.owner, chs.open, chs.answer[c], chs.seen[c], chs.alike[c],
        chs.queued[c], chs.command[c], chs.tally[c], chs.rank[c], chs.drift, chs.state[c],
    )  # fmt: skip


@rare
def sweep(chs, crew, how):
    """Channels go on to the end of the window: ALONE all of them; TOGETHER, while any is left, the first; beyond it, of
    a thread that helps, the last, so that a channel mostly stays with its thread.

    One loop with the engine inside: a call would copy what is known of all arrays, for each channel. For how to be a
    number that is found as the program runs keeps it one.
    """
    taken, n = 0, chs.state.shape[0]
    while (taken if how == ALONE else add(crew, NEXT, 1)) < n:
        c = n - 1 - add(crew, FROM_END, 1) if how > TOGETHER else taken
        taken += 1
        if chs.state[c, f.NOW] < crew[UNTIL] and engine.run(opened(channel(chs, c)), crew[UNTIL]) != engine.DONE:
            add(crew, N_STOPPED, 1)  # it is stuck, or its log is full
        if how != ALONE:
            add(crew, THROUGH, 1)


@rare
def assist(chs, crew):
    """A further thread works in each window that begins, until none has begun for a while."""
    looks, how = 0, TOGETHER + 1 + add(crew, AWAKE, 1)
    while looks < LOOKS:
        looks += 1
        if add(crew, NEXT, 0) < chs.state.shape[0]:
            sweep(chs, crew, how)
            looks = 0
    add(crew, AWAKE, -1)
    sweep(chs, crew, how)  # of a window that began before the thread was known to sleep


@bare
def is_long(chs, crew, until):
    """Whether there is so much to do before clock `until` that other threads should help."""
    if crew[HELPERS] == 0:
        return False
    clocks = 0
    for c in range(chs.state.shape[0]):
        clocks += max(until - chs.state[c, f.NOW], 0)
    return clocks >= crew[LONG]


@bare
def call(crew, until):
    """All channels are to go on to clock `until`; returns whether a thread sleeps that could help."""
    crew[UNTIL], crew[THROUGH], crew[FROM_END] = until, 0, 0
    swap(crew, NEXT, 0)
    return add(crew, AWAKE, 0) < crew[HELPERS]


@bare
def go_on(chs, crew, until, how):
    """All channels go on to clock `until`, ALONE or TOGETHER; returns whether they can."""
    crew[UNTIL] = until
    sweep(chs, crew, how)
    while how == TOGETHER and add(crew, THROUGH, 0) < chs.state.shape[0]:
        pass
    return crew[N_STOPPED] == 0


@bare
def collect_all(chs):
    """Count what the channels have answered."""
    for c in range(chs.state.shape[0]):
        if chs.state[c, f.N_ANSWERS]:
            collect(channel(chs, c))
