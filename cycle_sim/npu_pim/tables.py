"""Operators as the arrays that the machine reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import numpy as np

from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.operator import Operator

Cycles = TypeVar("Cycles", int, np.ndarray)
NEEDS = 3  # groups of a task that its row names


@dataclass
class Tables:
    """Rows of `kernels.core` as operators are added."""

    op: np.ndarray
    clock_ticks: int
    cycle_ticks: int
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    stores: list[tuple[int, ...]] = field(default_factory=list)
    dots: list[np.ndarray] = field(default_factory=list)
    operators: list[tuple[Operator, int, int]] = field(default_factory=list)  # its first task and first store
    n_tasks: int = 0
    n_dots: int = 0

    def add(self, o: Operator) -> None:
        """An operator, its blocks and PIM commands."""
        row, first_load, first_store = [0] * k.N_OP, len(self.blocks), len(self.stores)
        tasks, first_task, first_dot = o.tasks, self.n_tasks, self.n_dots
        self.operators.append((o, first_task, first_store))
        self.n_tasks += len(tasks)
        self.n_dots += sum(map(len, o.dots))
        self.dots += o.dots
        self._blocks(o)
        row[k.PORT], row[k.STORES], row[k.ON_ARRAYS], row[k.BYTES] = o.port, o.stores_port, o.in_order, o.bytes
        row[k.WAITS], row[k.PAUSE], row[k.START] = len(o.after), o.pause, 0 if o.after else o.pause
        row[k.LEFT], row[k.SINGLY] = len(tasks) + o.groups, o.singly
        row[k.LEAST] = o.least * self.cycle_ticks // self.clock_ticks
        if tasks and not o.in_order:
            least = min(cycles for cycles, *_ in tasks)
            row[k.LEAST] = least if least < 0 else self._clocks(least)
        loaded = {group for _, _, group in o.loads}
        row[k.JOINT] = bool(loaded) and all(loaded <= set(needs) for _, _, needs, *_ in tasks)
        row[k.LOADS], row[k.LOADS_END] = first_load, first_load + len(o.loads)
        row[k.OUTS], row[k.OUTS_END] = first_store, len(self.stores)
        row[k.TASKS], row[k.TASKS_END] = first_task, self.n_tasks
        row[k.DOTS], row[k.DOTS_END] = first_dot, self.n_dots
        self.op[o.index] = row

    def _blocks(self, o: Operator) -> None:
        """Loads and stores of an operator, whose tasks are those that were added last."""
        first_task = self.operators[-1][1]
        gates = {load: o.stores[store][2] for load, store in o.gates.items()}
        for i, (at, size, group) in enumerate(o.loads):
            self.blocks.append((at, size, f.RD, group, o.index, gates.get(i, -1)))
        makes = {store: first_task + x for x, (*_, store) in enumerate(o.tasks) if store >= 0}
        begins = {store: first_task + x for x, store in reversed(o.entry.items())}
        for i, (at, size, group) in enumerate(o.stores):
            self.stores.append((len(self.blocks), makes[i], begins.get(i, -1), o.bias.get(i, -1), 0, 0))
            self.blocks.append((at, size, f.WR, group, o.index, -1))

    def tasks(self) -> tuple[np.ndarray, np.ndarray]:
        """The tasks of all operators, column by column, as prompts have hundreds of thousands and decoding has
        thousands of operators; group and task, where work on a vector unit waits for the group."""
        rows = np.full((self.n_tasks, k.N_TASK), -1)
        if not self.n_tasks:
            return rows, pairs_of(())
        cycles, enters, needs, stores = zip(*chain.from_iterable(o.tasks for o, *_ in self.operators), strict=True)
        length, rows[:, k.PRELOADS], store = np.array(cycles), enters, np.array(stores)
        each = [len(o.tasks) for o, *_ in self.operators]
        in_order = np.repeat([o.in_order for o, *_ in self.operators], each)
        on_arrays = in_order & (rows[:, k.PRELOADS] != k.ON_UNIT)
        rows[:, k.CYCLES] = np.where(on_arrays, length * self.cycle_ticks, self._clocks(length))
        rows[length < 0, k.CYCLES] = length[length < 0]
        many = np.fromiter(map(len, needs), np.int64, len(needs))
        group = np.fromiter(chain.from_iterable(needs), np.int64, int(many.sum()))
        first = np.cumsum(many) - many
        for place in range(NEEDS):
            has = many > place
            rows[has, k.NEED_A + place] = group[first[has] + place]
        rows[:, k.MISSING], rows[:, k.TASK_OP] = many, np.repeat([o.index for o, *_ in self.operators], each)
        rows[:, [k.WIDE, k.READY, k.PAUSED]] = 0
        first_store = np.repeat([outs for *_, outs in self.operators], each)
        rows[store >= 0, k.SENDS] = (first_store + store)[store >= 0]
        self._further(rows)
        waits, task = np.repeat(~in_order, many), np.repeat(np.arange(self.n_tasks), many)
        return rows, np.stack([group[waits], task[waits]], axis=1)

    def _further(self, rows: np.ndarray) -> None:
        """What few tasks have: all vector units, a step that they follow, a store that they add to."""
        wide = [first + x for o, first, _ in self.operators for x in o.wide]
        rows[wide, k.WIDE] = 1
        follows = [(first + x, first + y, z) for o, first, _ in self.operators for x, (y, z) in o.follows.items()]
        if follows:
            x, before, pause = np.array(follows).T
            rows[x, k.FOLLOWS], rows[x, k.PAUSED] = before, self._clocks(pause)
        entry = [(first + x, outs + store) for o, first, outs in self.operators for x, store in o.entry.items()]
        if entry:
            x, added = np.array(entry).T
            rows[x, k.ENTRY] = added

    def _clocks(self, cycles: Cycles) -> Cycles:
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
