"""Operators of a decoder layer as blocks of memory requests and tasks: what the machine runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pimloom.arch.pim_stream import PIM_ROLES
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.hash_set import FIRST_PLACES, N_SHAPE, SPARE
from pimloom.cycle_sim.npu_pim.places import PLACE


@dataclass
class Operator:
    """One operator while it is built.

    port: by which its loads and PIM commands enter a channel, stores_port: and its stores.
    together: number of the first of those that may run beside each other; bytes: of its addresses so far; singly: its
    loads and PIM commands leave one by one, for all channels together; pause: clocks between the end of those in
    `after` and its start, or before it starts first of all.
    """

    name: str
    port: int
    in_order: bool
    after: tuple[int, ...]
    least: int
    index: int
    together: int
    stores_port: int
    pause: int = 0
    bytes: int = 0
    loads: list[tuple[int, int, int]] = field(default_factory=list)  # at, size, group
    stores: list[tuple[int, int, int]] = field(default_factory=list)
    tasks: list[tuple[int, int, tuple[int, ...], int]] = field(default_factory=list)  # cycles, loaded, needs, store
    wide: set[int] = field(default_factory=set)  # tasks that take all vector units
    follows: dict[int, tuple[int, int]] = field(default_factory=dict)  # of a task: step before, pause
    entry: dict[int, int] = field(default_factory=dict)  # of a task: store to which it adds
    bias: dict[int, int] = field(default_factory=dict)  # of a store that leaves early: group of its bias, -1: none
    gates: dict[int, int] = field(default_factory=dict)  # of a load: store that must have been answered before
    dots: list[np.ndarray] = field(default_factory=list)
    groups: int = 0
    singly: bool = False


class Builder:
    """Operators one after the other; `finish` packs them."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.owners: list[int] = []

    def operator(
        self,
        name: str,
        after: Sequence[int],
        *,
        port: int = 0,
        in_order: bool = False,
        least: int = 0,
        together: int = -1,
        stores_port: int = -1,
        pause: int = 0,
    ) -> Operator:
        """A new operator, which waits for those in `after`. least: of the cycles of its tasks.

        stores_port: where its stores enter a channel, -1: as all else. together: an operator beside which it may run,
        -1: none. Of those that may not, only two ever run at once.
        """
        index = len(self.operators)
        first = self.operators[together].together if together >= 0 else index
        found = Operator(
            name, port, in_order, tuple(after), least, index, first, port if stores_port < 0 else stores_port, pause
        )
        self.operators.append(found)
        return found

    def group(self, op: Operator) -> int:
        """A new group of requests."""
        self.owners.append(op.index)
        op.groups += 1
        return len(self.owners) - 1

    def load(self, op: Operator, size: int, gate: int = -1) -> int:
        """Reads of `size` bytes at the operator's start; returns their group. gate: a store of this operator that must
        have been answered before, and before the loads behind this one."""
        group = self.group(op)
        if gate >= 0:
            op.gates[len(op.loads)] = gate
        op.loads.append((op.bytes, size, group))
        op.bytes += size
        return group

    def store(self, op: Operator, size: int) -> int:
        """Writes of `size` bytes, to be sent by a task; returns their place among the operator's stores."""
        op.stores.append((op.bytes, size, self.group(op)))
        op.bytes += size
        return len(op.stores) - 1

    def task(self, op: Operator, cycles: int, needs: Sequence[int], store: int = -1, *, wide: bool = False) -> None:
        """Work on a vector unit, or wide on all of them, when the groups in `needs` are complete."""
        if wide:
            op.wide.add(len(op.tasks))
        op.tasks.append((cycles, k.NOTHING, tuple(needs), store))

    def step(
        self,
        op: Operator,
        cycles: int,
        needs: Sequence[int],
        loaded: int = k.NOTHING,
        *,
        store: int = -1,
        follows: int = -1,
        pause: int = 0,
        entry: int = -1,
    ) -> int:
        """A step of the arrays, in order: rows stream for `cycles` (GEMM: as in one) when all `needs` are complete.

        loaded: into the arrays first (NOTHING, TILE, VECTOR). follows: a step of this operator that must have ended
        `pause` cycles before. entry: a store that may leave whenever no step that adds to it is under way. Returns its
        place among the operator's steps.
        """
        if entry >= 0:
            op.entry[len(op.tasks)] = entry
        if follows >= 0:
            op.follows[len(op.tasks)] = follows, pause
        op.tasks.append((cycles, loaded, tuple(needs), store))
        return len(op.tasks) - 1

    def vector_step(self, op: Operator, cycles: int, follows: int, *, wide: bool = True) -> int:
        """Work on a vector unit, or wide on all of them, in the order of the steps of the arrays: it begins when the
        step `follows` has ended and a unit is free, and holds up no step behind it. Returns its place."""
        if wide:
            op.wide.add(len(op.tasks))
        return self.step(op, cycles, (), k.ON_UNIT, follows=follows)

    def dots(self, op: Operator, channel: int, stream: np.ndarray, groups: np.ndarray) -> None:
        """PIM commands (PIM_STREAM) for a channel at the operator's start; the group of each."""
        rows = np.zeros((len(stream), f.N_DOT), np.int64)
        rows[:, f.KIND] = np.array([PLACE[role] for role in PIM_ROLES])[stream["cmd"]]
        for place, name in (
            (f.BANK, "bank"),
            (f.ROW, "row"),
            (f.COLUMN, "col"),
            (f.COUNT, "count"),
            (f.COMPS, "comps"),
            (f.RESULTS, "results"),
            (f.LAST, "last"),
        ):
            rows[:, place] = stream[name]
        rows[:, f.GROUP], rows[:, f.CHANNEL] = groups, channel
        op.dots.append(rows)

    @property
    def ports(self) -> int:
        """Ways into a channel, by the highest one that is used."""
        return 1 + max((max(o.port, o.stores_port) for o in self.operators), default=0)

    @property
    def widest(self) -> int:
        """Bytes of the largest block."""
        return max((size for o in self.operators for _, size, _ in (*o.loads, *o.stores)), default=0)

    @property
    def narrowest(self) -> int:
        """Bytes of the smallest block that is loaded."""
        return min((size for o in self.operators for _, size, _ in o.loads), default=0)

    def most_at_once(self, channels: int, line_bytes: int) -> int:
        """Requests that a channel may hold at once: those of the two largest operators, or sets of operators that run
        together, lines dealt out in turn."""
        found: dict[int, np.ndarray] = {}
        for o in self.operators:
            blocks = sum(ceil_div(ceil_div(size, line_bytes) + 2, channels) for _, size, _ in (*o.loads, *o.stores))
            mine = found.setdefault(o.together, np.zeros(channels, np.int64))
            mine += blocks
            for dots in o.dots:
                mine += np.bincount(dots[:, f.CHANNEL], minlength=channels)
        return sum(sorted(int(each.max()) for each in found.values())[-2:])

    def finish(
        self, npu: np.ndarray, widest_lines: int, vector_units: int
    ) -> tuple[k.Program, np.ndarray, np.ndarray]:
        """The program, all PIM commands, and the operator of each group.

        npu: see `core`; widest_lines: of a block.
        """
        tables = _Tables(
            np.zeros((len(self.operators), k.N_OP), np.int64), int(npu[k.CLOCK_TICKS]), int(npu[k.CYCLE_TICKS])
        )
        for o in self.operators:
            tables.add(o)
        after = [(before, o.index) for o in self.operators for before in o.after]
        after_ptr, after_op = _csr(after, len(self.operators))
        task_ptr, task_of = _csr(tables.needed, len(self.owners))
        reach_ptr, reached = _csr([(o.index, c) for o in self.operators for c in _channels(o)], len(self.operators))
        places = 4 * widest_lines + FIRST_PLACES + SPARE  # a set is at least two fifths full
        program = k.Program(
            op=tables.op,
            block=np.array(tables.blocks, np.int64).reshape(-1, k.N_BLOCK),
            task=np.array(tables.tasks, np.int64).reshape(-1, k.N_TASK),
            store=np.array(tables.stores, np.int64).reshape(-1, k.N_STORE),
            after_ptr=after_ptr,
            after_op=after_op,
            task_ptr=task_ptr,
            task_of=task_of,
            reach_ptr=reach_ptr,
            reach=np.stack([reached, np.zeros_like(reached)], axis=1),
            running=np.zeros(len(self.operators), np.int64),
            coming=np.zeros(len(self.operators), np.int64),
            flight=np.zeros((len(tables.tasks) + 1, 2), np.int64),
            array=np.array([-1, 0, -1, 0, 0], np.int64),
            unit=np.zeros(vector_units, np.int64),
            npu=npu,
            order=np.zeros(widest_lines, np.int64),
            keys=np.zeros(widest_lines, np.int64),
            shape=np.zeros(N_SHAPE, np.int64),
            byte=np.zeros(places, np.int64),
            held=np.zeros(places, np.int64),
            sums=np.zeros(4),
            account=np.zeros((len(self.operators), k.COMMAND + len(f.COMMANDS)), np.int64),
        )
        commands = np.concatenate([np.zeros((0, f.N_DOT), np.int64), *tables.dots])
        return program, commands, np.array(self.owners, np.int64)


@dataclass
class _Tables:
    """Rows of `kernels.program` as operators are added; needed: group and task, where a task waits for the group."""

    op: np.ndarray
    clock_ticks: int
    cycle_ticks: int
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    tasks: list[tuple[int, ...]] = field(default_factory=list)
    stores: list[tuple[int, ...]] = field(default_factory=list)
    dots: list[np.ndarray] = field(default_factory=list)
    needed: list[tuple[int, int]] = field(default_factory=list)
    n_dots: int = 0

    def add(self, o: Operator) -> None:
        """An operator, its blocks, tasks and PIM commands."""
        row = self.op[o.index]
        row[k.STORES] = o.stores_port
        least = o.least * self.cycle_ticks // self.clock_ticks
        row[[k.PORT, k.ON_ARRAYS, k.BYTES, k.WAITS, k.LEAST]] = o.port, o.in_order, o.bytes, len(o.after), least
        row[k.PAUSE] = o.pause
        row[k.START] = 0 if o.after else o.pause
        row[k.LEFT] = len(o.tasks) + o.groups
        loaded = {group for _, _, group in o.loads}
        row[k.JOINT] = bool(loaded) and all(loaded <= set(needs) for _, _, needs, *_ in o.tasks)
        if o.tasks and not o.in_order:
            row[k.LEAST] = min(self._clocks(cycles) for cycles, *_ in o.tasks)
        row[k.SINGLY], row[k.LOADS] = o.singly, len(self.blocks)
        gates = {load: o.stores[store][2] for load, store in o.gates.items()}
        for i, (at, size, group) in enumerate(o.loads):
            self.blocks.append((at, size, f.RD, group, o.index, gates.get(i, -1)))
        row[k.LOADS_END], row[k.OUTS], first_task = len(self.blocks), len(self.stores), len(self.tasks)
        first_store = len(self.stores)
        makes = {store: first_task + x for x, (*_, store) in enumerate(o.tasks)}
        begins = {store: first_task + x for x, store in reversed(o.entry.items())}
        for i, (at, size, group) in enumerate(o.stores):
            self.stores.append((len(self.blocks), makes[i], begins.get(i, -1), o.bias.get(i, -1), 0, 0))
            self.blocks.append((at, size, f.WR, group, o.index, -1))
        row[k.OUTS_END] = len(self.stores)
        row[k.TASKS] = first_task
        for place, (cycles, enters, needs, store) in enumerate(o.tasks):
            sends = first_store + store if store >= 0 else -1
            three = (*needs, -1, -1, -1)[:3]
            if not o.in_order:
                self.needed += [(group, len(self.tasks)) for group in needs]
            wide, (follows, pause) = place in o.wide, o.follows.get(place, (-1 - first_task, 0))
            entry = o.entry.get(place, -1 - first_store)
            ends = len(needs), 0, sends, o.index, first_task + follows, self._clocks(pause), first_store + entry
            on_arrays = o.in_order and enters != k.ON_UNIT and cycles >= 0
            length = cycles if cycles < 0 else cycles * self.cycle_ticks if on_arrays else self._clocks(cycles)
            self.tasks.append((length, enters, wide, *three, *ends))
        row[k.TASKS_END] = len(self.tasks)
        row[k.DOTS], row[k.DOTS_END] = self.n_dots, self.n_dots + sum(map(len, o.dots))
        self.n_dots = int(row[k.DOTS_END])
        self.dots += o.dots

    def _clocks(self, cycles: int) -> int:
        """Cycles of the NPU in whole clocks of the memory."""
        return ceil_div(cycles * self.cycle_ticks, self.clock_ticks)


def _channels(o: Operator) -> list[int]:
    """Those to which an operator sends PIM commands."""
    return np.unique(np.concatenate([dots[:, f.CHANNEL] for dots in o.dots])).tolist() if o.dots else []


def _csr(pairs: Sequence[tuple[int, int]], n: int) -> tuple[np.ndarray, np.ndarray]:
    ordered = sorted(pairs)
    ptr = np.searchsorted([a for a, _ in ordered], np.arange(n + 1))
    return ptr.astype(np.int64), np.array([b for _, b in ordered], np.int64)
