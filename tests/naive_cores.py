"""The two kinds of core: tasks and stores when they are ready, or in the order of the program."""

from collections import deque
from typing import Any

from tests.naive_npu import Machine


class OutOfOrder(Machine):
    """Tasks that wait for nothing more start; one step of the systolic arrays starts, if its operands are there; tasks
    end and send their stores.

    Where tasks wait for vector units they do so in a row, in the order in which they were ready, until one unit, or for
    wide tasks all of them, has ended its work.
    """

    def __init__(self, rules, *more, **options):
        super().__init__(rules, *more, **options)
        self.busy = [0] * rules.units  # end of its work
        self.in_row: deque[Any] = deque()  # (operator, task) that wait for a unit
        self.ending: list[Any] = []  # (clock, operator, task)

    def answer(self, t, group):
        super().answer(t, group)
        op = self.owner[group]
        if group not in self.complete or op.on_arrays:
            return
        ready = [task for task in op.waiting if self.complete.keys() >= set(task.needs)]
        op.waiting = [task for task in op.waiting if task not in ready]
        self.in_row.extend((op, task) for task in ready)

    def work(self, t):
        self.start_vectors(t)
        self.send_one(t)
        for op in self.ops:
            if op.runs:
                self.load(t, op)
        self.issue_step(t)
        ending = [(op, task) for clock, op, task in self.ending if clock == t]
        self.ending = [x for x in self.ending if x[0] != t]
        for op, task in ending:
            op.ended_tasks += 1
            if task.store >= 0:
                self.send_block(t, op, "WRITE", *op.stores[task.store])

    def start_vectors(self, t):
        while self.in_row:
            op, task = self.in_row[0]
            free = [u for u, end in enumerate(self.busy) if end <= t]
            needed = len(self.busy) if task.wide else 1
            if self.rules.waits and len(free) < needed:
                return
            self.in_row.popleft()
            for u in free[:needed]:
                self.busy[u] = t + self.clocks(task.cycles)
            self.ending.append((t + self.clocks(task.cycles), op, task))

    def issue_step(self, t):
        for op in self.ops:
            if op.on_arrays and op.waiting and self.may_issue(t, op, op.waiting[0]):
                task = op.waiting.pop(0)
                task.end = self.reserve(t, op, task) if task.on_unit else self.push(t, task)
                self.ending.append((task.end, op, task))
                return

    def may_issue(self, t, op, task):
        """Work for vector units goes to them at once; a step waits for the end of the one that it follows."""
        if not self.complete.keys() >= set(task.needs):
            return False
        before = self.before(op, task)
        return task.on_unit or before is None or 0 <= before.end <= t - self.clocks(task.pause)

    def before(self, op, task):
        return op.tasks[task.follows] if task.follows >= 0 else None

    def reserve(self, t, op, task):
        """The unit that is free first, or all, does the work from when that before it has ended: when it ends."""
        while self.in_row:
            op_before, task_before = self.in_row.popleft()
            self.ending.append((self.occupy(t, task_before, 0), op_before, task_before))
        before = self.before(op, task)
        start = t if before is None else max(t, before.end + self.clocks(task.pause))
        return self.occupy(start, task, 1)

    def occupy(self, start, task, least):
        """Units do a task from `start` on, or from when they are free: when it ends."""
        cycles = self.clocks(task.cycles)
        if self.rules.waits:
            units = range(len(self.busy)) if task.wide else [self.busy.index(min(self.busy))]
            start = max(start, *(self.busy[u] for u in units))
            for u in units:
                self.busy[u] = start + cycles
        return start + max(cycles, least)


class InOrder(Machine):
    """The arrays retire a step and every vector unit a task, if it is due; then, for each operator, loads leave, and at
    most the first store and the first task of its queues."""

    def __init__(self, rules, *more, **options):
        super().__init__(rules, *more, **options)
        self.in_arrays: deque[Any] = deque()  # (due, operator, task)
        self.units: list[deque[Any]] = [deque() for _ in range(rules.units)]
        self.issued = -1  # when the last step was

    def work(self, t):
        self.retire(t)
        self.send_one(t)
        for op in self.ops:
            if op.runs:
                self.load(t, op)
                self.store(t, op)
                self.issue(t, op)

    def retire(self, t):
        if self.in_arrays and self.in_arrays[0][0] <= t:
            _, op, task = self.in_arrays.popleft()
            self.ends(t, op, task)
        heads = [unit[0] if unit else None for unit in self.units]
        for head in {id(head): head for head in heads if head and head[0] <= t}.values():
            holds = [unit for unit in self.units if any(x is head for x in unit)]
            if len(holds) == sum(x is head for x in heads):
                for unit in holds:
                    unit.popleft()
                self.ends(t, *head[1:])

    def ends(self, t, op, task):
        task.end = t
        op.ended_tasks += 1
        if task.entry >= 0:
            op.sums[task.entry] -= 1

    def store(self, t, op):
        if op.stored < len(op.stores) and self.is_there(op, op.stored):
            op.stored += 1
            self.send_block(t, op, "WRITE", *op.stores[op.stored - 1])

    def is_there(self, op, store):
        """Whether the result of a store is in the pad: its task has ended or, where sums are counted, nothing is on its
        way to its sum now."""
        if store in op.summed:
            return store in op.begun and not op.sums[store]
        return op.makers[store].end >= 0

    def issue(self, t, op):
        if not op.waiting:
            return
        task = op.waiting[0]
        if not self.complete.keys() >= set(task.needs):
            return
        if op.on_arrays:
            if self.issued == t:
                return
            self.issued = t
            self.in_arrays.append((self.push(t, task), op, task))
        else:
            empty = [unit for unit in self.units if not unit]
            if self.rules.waits and len(empty) < (len(self.units) if task.wide else 1):
                return
            entry = max(t + task.cycles, t + 1), op, task
            for unit in self.units if task.wide else [*empty, self.units[0]][:1]:
                unit.append(entry)
        op.waiting.pop(0)
        if task.entry >= 0:
            op.sums[task.entry] += 1
            op.begun.add(task.entry)
