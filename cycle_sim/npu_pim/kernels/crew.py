"""Threads that bring the channels through a window together: each takes the next one that nobody has taken."""

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.answers import collect
from pimloom.cycle_sim.npu_pim.kernels.atomic import add, swap
from pimloom.cycle_sim.npu_pim.kernels.fields import Channel, Device

# crew[…], each where no other is near: channel to be taken next, those that have come through, clock that they go to,
# how many stopped before, threads that look for work, threads beside the first, clocks of all channels together for
# which they are called
NEXT, THROUGH, UNTIL, N_STOPPED, AWAKE, HELPERS, LONG = range(0, 112, 16)
N_CREW = 112
LOOKS = 20_000  # for work, before a thread sleeps: some 0.1 ms


@bare
def channel(chs, c):
    """Channel c of the stack."""
    d = chs.device
    return Channel(
        Device(d.path, d.bound[c], d.aside, d.beside[c], d.rule, d.first_rule, d.ring[c]),
        chs.policy, chs.request[c], chs.spare[c], chs.bank[c], chs.list[c], chs.first[c], chs.length[c], chs.dots[c],
        chs.line[c], chs.head[c], chs.tail[c], chs.order[c], chs.dot, chs.port[c], chs.left, chs.done, chs.turn,
        chs.ended, chs.owner, chs.open, chs.answer[c], chs.seen[c], chs.alike[c], chs.queued[c], chs.command[c],
        chs.tally[c], chs.rank[c], chs.drift, chs.state[c],
    )  # fmt: skip


@rare
def advance(chs, c, until):
    """Channel c goes on to clock `until`; returns whether it can: else it is stuck, or its log is full."""
    return engine.run(channel(chs, c), until) == engine.DONE


@rare
def work(chs, crew):
    """Channels go on to the end of the window, until all are taken."""
    n = chs.state.shape[0]
    c = add(crew, NEXT, 1)
    while c < n:
        if chs.state[c, f.NOW] < crew[UNTIL] and not advance(chs, c, crew[UNTIL]):
            add(crew, N_STOPPED, 1)
        add(crew, THROUGH, 1)
        c = add(crew, NEXT, 1)


@rare
def assist(chs, crew):
    """A further thread works in each window that begins, until none has begun for a while."""
    looks = 0
    add(crew, AWAKE, 1)
    while looks < LOOKS:
        looks += 1
        if add(crew, NEXT, 0) < chs.state.shape[0]:
            work(chs, crew)
            looks = 0
    add(crew, AWAKE, -1)
    work(chs, crew)  # of a window that began before the thread was known to sleep


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
    crew[UNTIL], crew[THROUGH] = until, 0
    swap(crew, NEXT, 0)
    return add(crew, AWAKE, 0) < crew[HELPERS]


@bare
def go_on_together(chs, crew):
    """All channels go on to the end of the window; returns whether they can."""
    work(chs, crew)
    while add(crew, THROUGH, 0) < chs.state.shape[0]:
        pass
    return crew[N_STOPPED] == 0


@bare
def go_on_alone(chs, until):
    """As above, in one thread."""
    stopped = 0
    for c in range(chs.state.shape[0]):
        if chs.state[c, f.NOW] < until and not advance(chs, c, until):
            stopped += 1
    return stopped == 0


@bare
def collect_all(chs):
    """Count what the channels have answered."""
    for c in range(chs.state.shape[0]):
        if chs.state[c, f.N_ANSWERS]:
            collect(channel(chs, c))
