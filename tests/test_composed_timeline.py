"""List scheduling on units that do one thing at a time, against a loop over time in plain Python."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.systems.devices.composed.timeline import Task, schedule


def naive(tasks):
    """Each picosecond: what has no length runs once it may; then each idle resource takes the first that may."""
    starts, running, now = dict[int, int](), dict[str, int](), 0

    def may(i):
        before = tasks[i].after
        return i not in starts and all(b in starts and starts[b] + tasks[b].ps + tasks[b].lag_ps <= now for b in before)

    while len(starts) < len(tasks):
        running = {r: i for r, i in running.items() if starts[i] + tasks[i].ps > now}
        while free := [i for i in range(len(tasks)) if not tasks[i].ps and may(i)]:
            for i in free:
                starts[i] = now
        for i, task in enumerate(tasks):
            if task.ps and task.resource not in running and may(i):
                starts[i], running[task.resource] = now, i
        now += 1
        assert now < 10_000
    return [starts[i] for i in range(len(tasks))]


@st.composite
def programs(draw):
    n = draw(st.integers(0, 14))
    each = []
    for i in range(n):
        after = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else []
        ps, lag = draw(st.integers(0, 6)), draw(st.sampled_from([0, 0, 1, 4]))
        each.append(Task(draw(st.sampled_from("abc")), ps, tuple(after), lag))
    return each


@settings(max_examples=80, deadline=None)
@given(programs())
def test_schedule_is_the_loop_over_time(tasks):
    found = schedule(tasks)
    assert found == naive(tasks)
    for resource in "abc":
        spans = sorted((at, at + t.ps) for at, t in zip(found, tasks, strict=True) if t.resource == resource and t.ps)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize(
    ("tasks", "starts"),
    [
        # npu |0--| |1----|      two units, the second waits for the first
        # pim      |2-|
        ([Task("npu", 3), Task("npu", 5, (0,)), Task("pim", 2, (0,))], [0, 3, 3]),
        ([Task("npu", 3, (), 4), Task("pim", 2, (0,))], [0, 7]),  # four more on the way
        (
            [Task("npu", 9), Task("pim", 1), Task("npu", 1, (1,)), Task("npu", 1)],
            [0, 0, 9, 10],
        ),  # the first of the list
        ([Task("npu", 4), Task("npu", 0)], [0, 0]),  # no length, no unit
    ],
)
def test_by_hand(tasks, starts):
    assert schedule(tasks) == naive(tasks) == starts
