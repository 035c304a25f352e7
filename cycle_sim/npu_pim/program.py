"""Operators of a decoder layer as blocks of memory requests and tasks: what the machine runs."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from pimloom.arch.pim_stream import PIM_ROLES
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.hash_set import FIRST_PLACES, LEAST_COUNTERS
from pimloom.cycle_sim.npu_pim.operator import Operator as Operator
from pimloom.cycle_sim.npu_pim.places import PLACE
from pimloom.cycle_sim.npu_pim.tables import Tables, channels_of, csr, pairs_of


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

    def groups(self, op: Operator, n: int) -> list[int]:
        """So many new groups of requests."""
        first = len(self.owners)
        self.owners += [op.index] * n
        op.groups += n
        return list(range(first, first + n))

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
            sizes = Counter(size for _, size, _ in (*o.loads, *o.stores))
            blocks = sum(n * ceil_div(ceil_div(size, line_bytes) + 2, channels) for size, n in sizes.items())
            mine = found.setdefault(o.together, np.zeros(channels, np.int64))
            mine += blocks
            for dots in o.dots:
                mine += np.bincount(dots[:, f.CHANNEL], minlength=channels)
        return sum(sorted(int(each.max()) for each in found.values())[-2:])

    def finish(self, npu: np.ndarray, widest_lines: int, vector_units: int) -> tuple[k.Program, np.ndarray, np.ndarray]:
        """The program, all PIM commands, and the operator of each group.

        npu: see `core`; widest_lines: of a block.
        """
        tables = Tables(
            np.zeros((len(self.operators), k.N_OP), np.int64), int(npu[k.CLOCK_TICKS]), int(npu[k.CYCLE_TICKS])
        )
        for o in self.operators:
            tables.add(o)
        tasks, needed = tables.tasks()
        after = [(before, o.index) for o in self.operators for before in o.after]
        after_ptr, after_op = csr(pairs_of(after), len(self.operators))
        task_ptr, task_of = csr(needed, len(self.owners))
        reach = [(o.index, c) for o in self.operators for c in channels_of(o.dots)]
        reach_ptr, reached = csr(pairs_of(reach), len(self.operators))
        places = max(4 * widest_lines + FIRST_PLACES, LEAST_COUNTERS)  # a set is at least two fifths full
        program = k.Program(
            op=tables.op,
            block=np.fromiter(chain.from_iterable(tables.blocks), np.int64).reshape(-1, k.N_BLOCK),
            task=tasks,
            store=np.array(tables.stores, np.int64).reshape(-1, k.N_STORE),
            after_ptr=after_ptr,
            after_op=after_op,
            task_ptr=task_ptr,
            task_of=task_of,
            reach_ptr=reach_ptr,
            reach=np.stack([reached, np.zeros_like(reached)], axis=1),
            running=np.zeros(len(self.operators), np.int64),
            coming=np.zeros(len(self.operators), np.int64),
            flight=np.zeros((tables.n_tasks + 1, k.N_FLIGHT), np.int64),
            array=np.array([-1, 0, -1, 0, 0], np.int64),
            unit=np.zeros(vector_units, np.int64),
            npu=npu,
            order=np.zeros(widest_lines, np.int64),
            keys=np.zeros(widest_lines, np.int64),
            packed=np.zeros(widest_lines, np.int64),
            ends=np.zeros(places, np.int64),
            sums=np.zeros(4),
            account=np.zeros((len(self.operators), k.COMMAND + len(f.COMMANDS)), np.int64),
        )
        first = np.flatnonzero(tables.op[:, k.WAITS] == 0)
        program.coming[: len(first)], npu[k.N_COMING] = first, len(first)
        commands = np.concatenate([np.zeros((0, f.N_DOT), np.int64), *tables.dots])
        return program, commands, np.array(self.owners, np.int64)
