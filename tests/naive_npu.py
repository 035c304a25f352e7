"""An NPU and its PIM channels, clock by clock in plain Python, from the specification's sections 3.5 to 3.7.

Every clock: the core sees answers, and its tasks go on (see `naive_cores`); operators end, and those that waited for
them start: they send their loads, then their PIM commands, or, behind those that wait to be sent, one PIM command of
all in each clock; then every channel goes on by a clock. What is between core and channels is in `naive_icnt`.
"""

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from tests.naive_blocks import hashed, place, touched
from tests.naive_icnt import Direct, Interconnect
from tests.naive_neupims import BANKS, GROUPS, RANKS, Channel, Request


@dataclass
class Task:
    """On a vector unit, or wide on all, for `cycles`; or a step of the arrays, with `preloads`. store: that it makes,
    -1: none; entry: store to whose sum it adds, -1: it is not counted. follows: the task of its operator that ends
    `pause` cycles before it starts; on_unit: in the row of the arrays, but it is work for vector units."""

    cycles: int
    preloads: bool
    needs: tuple[int, ...]
    store: int = -1
    wide: bool = False
    entry: int = -1
    follows: int = -1
    pause: int = 0
    on_unit: bool = False
    end: int = -1


@dataclass
class Operator:
    """loads: (at, bytes, group), gates: of a load, the group that was answered before; stores: (at, bytes, group),
    bias: of a store, the group of the bias that is added first; pim: (channel, request), whose tag is its group;
    groups: all of them."""

    name: str
    port: int
    on_arrays: bool
    after: tuple[int, ...]
    bytes: int
    loads: list[tuple[int, int, int]]
    gates: dict[int, int]
    tasks: list[Task]
    stores: list[tuple[int, int, int]]
    bias: dict[int, int]
    pim: list[tuple[int, Request]]
    groups: set[int]
    stores_port: int
    singly: bool = False
    pause: int = 0
    start: int = -1
    end: int = -1
    base: int = 0
    loaded: int = 0
    waiting: list[Task] = field(default_factory=list)
    ended_tasks: int = 0
    stored: int = 0
    sums: Counter[int] = field(default_factory=Counter)  # what is to be added yet, by store
    begun: set[int] = field(default_factory=set)  # stores whose sum has been begun

    def __post_init__(self):
        self.summed = {task.entry for task in self.tasks}
        self.makers = {task.store: task for task in self.tasks}

    @property
    def runs(self):
        return self.start >= 0 and self.end < 0


@dataclass(frozen=True)
class Rules:
    """rows: of an array; step: cycles between two of its steps; cycle: of the NPU, in clocks of the memory; wrap: bytes
    after which addresses begin again; waits: no task starts before its operands and its unit are there; see
    `machine.Npu` for the others."""

    rows: int
    step: int
    wrap: int
    hashed: bool = False
    units: int = 8
    waits: bool = False
    in_order: bool = False
    shift: int = 0
    steps: int = 0
    late: bool = False
    drained: bool = False
    cycle: Fraction = Fraction(1)


@dataclass
class Array:
    """The step that was issued last."""

    started: Fraction = Fraction(0)
    streams: Fraction = Fraction(0)
    finish: Fraction = Fraction(-1)


class Machine:
    """What both kinds of core have; `work` is the rest of a clock."""

    def __init__(self, rules, mode, fixes, operators, *, channels, ports, precharge="bank", window=None):
        self.rules, self.ops = rules, operators
        self.channels = [Channel(mode, fixes=fixes, precharge=precharge, window=window) for _ in range(channels)]
        paths = Interconnect(self.channels, ports, rules.steps) if rules.steps else Direct(self.channels, ports)
        self.paths = paths
        self.missing: Counter[int] = Counter()  # answers, by group
        self.complete: dict[int, int] = {}  # groups, and since when
        self.owner = {group: op for op in operators for group in op.groups}
        self.array = Array()
        self.next_byte = 0
        self.open_ck, self.open_rows = [0, 0], [(0, 0, 0)] * channels  # commands of a channel, and what is open then
        self.todo: deque = deque()  # PIM commands that leave one by one
        self.sent_one = -1  # when the last one left

    def run(self, most=60_000):
        """(operators' name, start, end), commands by name, clocks with an open row in the MEM and PIM buffers, clocks
        in all."""
        t = 0
        while True:
            self.core(t)
            if all(op.end >= 0 for op in self.ops):
                break
            self.paths.before_tick(t)
            for channel in self.channels:
                channel.tick(t)
            self.paths.after_tick(t)
            self.count_open()
            t += 1
            assert t < most, "it never ends"
        commands = Counter(name for channel in self.channels for _, name, _, _ in channel.log)
        commands["COMP"] += sum(x.count for op in self.ops for _, x in op.pim)  # of COMPS_READRES, all done by now
        ends = [(op.name, op.start, op.end) for op in self.ops]
        return ends, commands, tuple(self.open_ck), max(op.end for op in self.ops)

    def work(self, t):
        raise NotImplementedError  # each core, in order or not, has its own

    def count_open(self):
        """Of each rank; rows open and close where a channel issues."""
        for i, channel in enumerate(self.channels):
            if self.open_rows[i][0] != len(channel.log):
                ranks = [channel.banks[r * GROUPS * BANKS : (r + 1) * GROUPS * BANKS] for r in range(RANKS)]
                mem = sum(any(b.mem >= 0 for b in banks) for banks in ranks)
                pim = sum(any(b.pim >= 0 for b in banks) for banks in ranks)
                self.open_rows[i] = len(channel.log), mem, pim
            self.open_ck[0] += self.open_rows[i][1]
            self.open_ck[1] += self.open_rows[i][2]

    def core(self, t):
        for request in self.paths.answers():
            self.answer(t, request.tag)
        self.work(t)
        for op in self.ops:
            if op.runs and op.ended_tasks == len(op.tasks) and op.groups <= self.complete.keys():
                op.end = t + self.rules.late
        for op in self.ops:
            if op.start < 0 and self.starts(op) == t:
                self.begin(t, op)

    def starts(self, op):
        """When an operator starts, if all those before it have ended. Of two that end in one clock, one is noticed a
        clock late where ends are late at all."""
        ends = [self.ops[i].end for i in op.after]
        if not ends:
            return op.pause
        if min(ends) < 0:
            return None
        return max(ends) + op.pause + (self.rules.late and ends.count(max(ends)) > 1)

    def answer(self, t, group):
        op = self.owner[group]
        for store, bias in op.bias.items():
            op.sums[store] -= bias == group
        self.missing[group] -= 1
        if not self.missing[group]:
            self.complete[group] = t

    def begin(self, t, op):
        op.start, op.base, op.waiting = t, self.next_byte, list(op.tasks)
        if not self.rules.in_order:
            self.next_byte = (self.next_byte + op.bytes) % self.rules.wrap
        self.load(t, op)
        for _, request in op.pim:
            self.missing[request.tag] += request.kind != "P_HEADER"
        if op.singly:
            self.todo.extend((op, *command) for command in op.pim)
            self.send_one(t)
        else:
            for channel, request in op.pim:
                self.send_pim(t, op, channel, request)

    def load(self, t, op):
        """Loads leave, one by one or all; none before the answer that the head waits for."""
        while op.loaded < len(op.loads):
            gate = op.gates.get(op.loaded)
            if gate is not None and not (gate in self.complete and self.complete[gate] + self.rules.late <= t):
                return
            load = op.loads[op.loaded]
            op.loaded += 1
            lines = self.send_block(t, op, "READ", *load)
            for store, bias in op.bias.items():
                if bias == load[2]:
                    op.sums[store] += lines
                    op.begun.add(store)
            if op.singly:
                return

    def send_one(self, t):
        if self.todo and self.sent_one < t:
            self.send_pim(t, *self.todo.popleft())
            self.sent_one = t

    def send_pim(self, t, op, channel, request):
        self.paths.send(t, channel, op.port, replace(request))

    def send_block(self, t, op, kind, at, size, group):
        """The lines of a block leave; how many."""
        if not size:
            self.complete[group] = t
            return 0
        rules = self.rules
        begins = self.next_byte if rules.in_order else (op.base + at) % rules.wrap
        lines, after = touched(begins, size, rules.shift, rules.wrap)
        if rules.in_order:
            self.next_byte = after
        if rules.hashed:
            lines = hashed(lines, len(self.channels))
        self.missing[group] += len(lines)
        port = op.stores_port if kind == "WRITE" else op.port
        for line in lines:
            channel, bank, row, column = place(line, len(self.channels))
            self.paths.send(t, channel, port, Request(kind, bank, row, column, tag=group))
        return len(lines)

    def clocks(self, cycles):
        """Clocks of the memory until so many cycles of the NPU are over."""
        return ceil(cycles * self.rules.cycle)

    def push(self, t, task):
        """A step enters the arrays: in which clock its result is there. A step that ends now is out of the pipeline.
        All times of the arrays are in clocks of the memory, and not whole ones if cycles are not."""
        a, cycle, rows = self.array, self.rules.cycle, self.rules.rows
        streams = self.rules.step if task.cycles < 0 else task.cycles
        idle = a.finish <= t
        if self.rules.drained:
            latency = 2 * rows - 1 + streams
            if task.preloads:
                start = t + rows * cycle if idle else a.finish
            else:
                start = t if idle else max(t, a.started + a.streams)
        else:
            latency = 2 * rows - 2 + streams
            if idle:
                start = t + ((2 * rows - 1) * cycle if task.preloads else 0)
            else:
                start = a.started + (max(rows * cycle, a.streams) if task.preloads else a.streams)
                start = max(start, t) if self.rules.waits else start
        self.array = Array(start, streams * cycle, max(start + latency * cycle, a.finish + cycle))
        return ceil(self.array.finish)
