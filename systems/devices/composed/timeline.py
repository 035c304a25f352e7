"""When each task runs: list scheduling on units that do one thing at a time."""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class Task(NamedTuple):
    """Work that holds `resource` for `ps`, once all tasks in `after` have ended; what waits for it waits `lag_ps`
    longer. Numbers in `after` are places in the list of tasks, all before its own."""

    resource: str
    ps: int
    after: tuple[int, ...] = ()
    lag_ps: int = 0


def schedule(tasks: Sequence[Task]) -> list[int]:
    """The start of each task [ps].

    A resource that is free takes, of the tasks that are ready, the first in the list; it never stops one that runs. A
    task of no length needs no resource: it runs as soon as it is ready.
    """
    starts, ready = [0] * len(tasks), [0] * len(tasks)
    missing = [len(set(task.after)) for task in tasks]
    behind: list[list[int]] = [[] for _ in tasks]
    for i, task in enumerate(tasks):
        for before in set(task.after):
            behind[before].append(i)
    events: list[tuple[int, int, str]] = []  # time, the task that is ready or -1, the resource that is free
    waiting: dict[str, list[int]] = {task.resource: [] for task in tasks}
    busy = set[str]()

    def start(i: int, at: int) -> None:
        task, starts[i] = tasks[i], at
        for then in behind[i]:
            missing[then] -= 1
            ready[then] = max(ready[then], at + task.ps + task.lag_ps)
            if not missing[then]:
                heappush(events, (ready[then], then, ""))

    for i, n in enumerate(missing):
        if not n:
            heappush(events, (0, i, ""))
    while events:
        at = events[0][0]
        while events and events[0][0] == at:
            _, i, free = heappop(events)
            if i < 0:
                busy.discard(free)
            elif tasks[i].ps:
                heappush(waiting[tasks[i].resource], i)
            else:
                start(i, at)
        for resource, found in waiting.items():
            if found and resource not in busy:
                i = heappop(found)
                busy.add(resource)
                heappush(events, (at + tasks[i].ps, -1, resource))
                start(i, at)
    return starts
