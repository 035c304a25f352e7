"""Operators as the arrays that the machine reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.operator import Operator

NEEDS = 3  # groups of a task that its row names


@dataclass
class Tables:
    """Rows of `kernels.core` as operators are added."""

    op: np.ndarray
    clock_ticks: int
    cycle_ticks: int
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    tasks: list[np.ndarray] = field(default_factory=list)
    stores: list[tuple[int, ...]] = field(default_factory=list)
    dots: list[np.ndarray] = field(default_factory=list)
    waiting: list[np.ndarray] = field(default_factory=list)
    n_tasks: int = 0
    n_dots: int = 0

    @property
    def needed(self) -> np.ndarray:
        """Group and task, where work on a vector unit waits for the group."""
        return np.concatenate([pairs_of(()), *self.waiting])

    def add(self, o: Operator) -> None:
        """An operator, its blocks, tasks and PIM commands."""
        row, first_store = self.op[o.index], len(self.stores)
        row[k.STORES] = o.stores_port
        least = o.least * self.cycle_ticks // self.clock_ticks
        row[[k.PORT, k.ON_ARRAYS, k.BYTES, k.WAITS, k.LEAST]] = o.port, o.in_order, o.bytes, len(o.after), least
        row[k.PAUSE] = o.pause
        row[k.START] = 0 if o.after else o.pause
        row[k.LEFT] = len(o.tasks) + o.groups
        loaded = {group for _, _, group in o.loads}
        row[k.JOINT] = bool(loaded) and all(loaded <= set(needs) for _, _, needs, *_ in o.tasks)
        tasks = self._tasks(o, first_store)
        if o.tasks and not o.in_order:
            row[k.LEAST] = tasks[:, k.CYCLES].min()
        row[k.SINGLY], row[k.LOADS] = o.singly, len(self.blocks)
        gates = {load: o.stores[store][2] for load, store in o.gates.items()}
        for i, (at, size, group) in enumerate(o.loads):
            self.blocks.append((at, size, f.RD, group, o.index, gates.get(i, -1)))
        row[k.LOADS_END], row[k.OUTS] = len(self.blocks), first_store
        sends = tasks[:, k.SENDS] - first_store
        makes = {int(sends[x]): self.n_tasks + int(x) for x in np.flatnonzero(sends >= 0)}
        begins = {store: self.n_tasks + x for x, store in reversed(o.entry.items())}
        for i, (at, size, group) in enumerate(o.stores):
            self.stores.append((len(self.blocks), makes[i], begins.get(i, -1), o.bias.get(i, -1), 0, 0))
            self.blocks.append((at, size, f.WR, group, o.index, -1))
        row[k.OUTS_END], row[k.TASKS] = len(self.stores), self.n_tasks
        self.tasks.append(tasks)
        self.n_tasks += len(tasks)
        row[k.TASKS_END] = self.n_tasks
        row[k.DOTS], row[k.DOTS_END] = self.n_dots, self.n_dots + sum(map(len, o.dots))
        self.n_dots = int(row[k.DOTS_END])
        self.dots += o.dots

    def _tasks(self, o: Operator, first_store: int) -> np.ndarray:
        """The tasks of an operator, column by column: prompts have hundreds of thousands."""
        rows = np.full((len(o.tasks), k.N_TASK), -1)
        if not o.tasks:
            return rows
        cycles, enters, needs, stores = zip(*o.tasks, strict=True)
        length, rows[:, k.PRELOADS], store = np.array(cycles), enters, np.array(stores)
        on_arrays = o.in_order & (rows[:, k.PRELOADS] != k.ON_UNIT)
        rows[:, k.CYCLES] = np.where(on_arrays, length * self.cycle_ticks, self._clocks(length))
        rows[length < 0, k.CYCLES] = length[length < 0]
        many = np.fromiter(map(len, needs), np.int64, len(needs))
        group = np.fromiter(chain.from_iterable(needs), np.int64, int(many.sum()))
        first = np.cumsum(many) - many
        for place in range(NEEDS):
            has = many > place
            rows[has, k.NEED_A + place] = group[first[has] + place]
        if not o.in_order:
            task = np.repeat(np.arange(self.n_tasks, self.n_tasks + len(rows)), many)
            self.waiting.append(np.stack([group, task], axis=1))
        rows[:, k.MISSING], rows[:, k.TASK_OP] = many, o.index
        rows[:, [k.WIDE, k.READY, k.PAUSED]] = 0
        rows[list(o.wide), k.WIDE] = 1
        rows[store >= 0, k.SENDS] = first_store + store[store >= 0]
        if o.follows:
            before, pause = np.array(list(o.follows.values())).T
            rows[list(o.follows), k.FOLLOWS] = self.n_tasks + before
            rows[list(o.follows), k.PAUSED] = self._clocks(pause)
        if o.entry:
            rows[list(o.entry), k.ENTRY] = first_store + np.array(list(o.entry.values()))
        return rows

    def _clocks(self, cycles: np.ndarray) -> np.ndarray:
        """Cycles of the NPU in whole clocks of the memory."""
        return -(-cycles * self.cycle_ticks // self.clock_ticks)


def channels_of(dots: Sequence[np.ndarray]) -> list[int]:
    """Those to which an operator sends PIM commands."""
    return np.unique(np.concatenate([some[:, f.CHANNEL] for some in dots])).tolist() if dots else []


def pairs_of(pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Pairs as rows."""
    return np.array(pairs, np.int64).reshape(-1, 2)


def csr(pairs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(where those of each of n firsts begin, the seconds) of pairs in order."""
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return np.searchsorted(ordered[:, 0], np.arange(n + 1)).astype(np.int64), ordered[:, 1].copy()
