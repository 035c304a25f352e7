"""An NPU and its PIM channels, clock by clock in plain Python, from the specification's sections 3.5 to 3.7.

Every clock, in this order: answers that the channels handed over in the clock before are taken, channel by channel; a
group of requests whose last answer is there is complete, and tasks out of order that waited for it start; one step of
the systolic arrays starts, if its operands are there; tasks end and send their stores; operators end, and those that
waited for them start: they send their loads, then their PIM commands, or, behind those that wait to be sent, one PIM
command of all in each clock; then every
channel takes requests that were sent in earlier clocks, two by each port at most, and goes on by a clock.
"""

from collections import Counter, deque
from dataclasses import dataclass, field, replace

from tests.naive_neupims import BANKS, GROUPS, RANKS, Channel, Request

LINE, COLUMNS, OFFERS = 64, 16, 2
M64 = 2**64 - 1


@dataclass
class Task:
    """On a vector unit for `cycles`; on the arrays, with `preloads`. store: (at, bytes, group), sent in the end."""

    cycles: int
    preloads: bool
    needs: tuple[int, ...]
    store: tuple[int, int, int] | None


@dataclass
class Operator:
    """loads: (at, bytes, group); pim: (channel, request), whose tag is its group; groups: all of them."""

    name: str
    port: int
    in_order: bool
    after: tuple[int, ...]
    bytes: int
    loads: list[tuple[int, int, int]]
    tasks: list[Task]
    pim: list[tuple[int, Request]]
    groups: set[int]
    stores_port: int
    singly: bool = False
    start: int = -1
    end: int = -1
    base: int = 0
    waiting: list[Task] = field(default_factory=list)
    ended_tasks: int = 0


@dataclass
class Array:
    issued: int = -1
    started: int = 0
    ended: int = -1


def hash_order(first, n):
    """Lines of a block as robin_hood's set would hold their addresses: by home, then by the low bits of the hash."""
    places = 8
    while places * 80 // 100 < n:
        places *= 2

    def key(i):
        x = (first + i) * LINE
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            x = ((x ^ x >> 33) * factor) & M64
        x ^= x >> 33
        return (x >> 5) % places, -(x % 32)

    return sorted(range(n), key=key)


class Machine:
    """rows: of an array; step: clocks between two of its steps; wrap: bytes after which addresses begin again."""

    def __init__(self, mode, fixes, operators, *, channels, ports, rows, step, wrap, hashed):
        self.ops, self.rows, self.step, self.wrap, self.hashed = operators, rows, step, wrap, hashed
        self.channels = [Channel(mode, fixes=fixes) for _ in range(channels)]
        self.fifo: list[list[deque]] = [
            [deque() for _ in range(ports)] for _ in range(channels)
        ]  # (first clock, request)
        self.missing: Counter[int] = Counter()  # answers, by group
        self.complete = set()
        self.owner = {group: op for op in operators for group in op.groups}
        self.array = Array()
        self.ending = []  # (clock, operator, task)
        self.next_byte = 0
        self.open_ck = [0, 0]
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
            for channel, fifos in zip(self.channels, self.fifo, strict=True):
                for fifo in fifos:
                    for _ in range(OFFERS):
                        if fifo and fifo[0][0] <= t and channel.offer(fifo[0][1], t):
                            fifo.popleft()
                        else:
                            break
                channel.tick(t)
            self.count_open()
            t += 1
            assert t < most, "it never ends"
        commands = Counter(name for channel in self.channels for _, name, _, _ in channel.log)
        commands["COMP"] += sum(x.count for op in self.ops for _, x in op.pim)  # of COMPS_READRES, all done by now
        return [(op.name, op.start, op.end) for op in self.ops], commands, tuple(self.open_ck), t

    def count_open(self):
        each = GROUPS * BANKS
        for channel in self.channels:
            for r in range(RANKS):
                banks = channel.banks[r * each : (r + 1) * each]
                self.open_ck[0] += any(b.mem >= 0 for b in banks)
                self.open_ck[1] += any(b.pim >= 0 for b in banks)

    def core(self, t):
        for channel in self.channels:
            for request in channel.collect(t):
                self.answer(t, request.tag)
        self.issue_step(t)
        ending = [(op, task) for clock, op, task in self.ending if clock == t]
        self.ending = [x for x in self.ending if x[0] != t]
        self.send_one(t)
        for op, task in ending:
            op.ended_tasks += 1
            if task.store:
                self.send_block(t, op, "WRITE", *task.store)
        for op in self.ops:
            done = op.ended_tasks == len(op.tasks) and op.groups <= self.complete
            if op.start >= 0 and op.end < 0 and done:
                op.end = t
        for op in self.ops:
            if op.start < 0 and all(self.ops[i].end >= 0 for i in op.after):
                self.begin(t, op)

    def answer(self, t, group):
        self.missing[group] -= 1
        if self.missing[group]:
            return
        self.complete.add(group)
        op = self.owner[group]
        if op.in_order:
            return
        ready = [task for task in op.waiting if self.complete.issuperset(task.needs)]
        op.waiting = [task for task in op.waiting if task not in ready]
        self.ending += [(t + task.cycles, op, task) for task in ready]

    def issue_step(self, t):
        """The oldest step starts, when all its operands are there. A step that ends now is out of the pipeline."""
        a = self.array
        for op in self.ops:
            if not (op.in_order and op.waiting and self.complete.issuperset(op.waiting[0].needs)):
                continue
            task = op.waiting.pop(0)
            if a.ended <= t:
                start = t + (2 * self.rows - 1 if task.preloads else 0)
            else:
                start = a.started + (self.rows if task.preloads else self.step)
            finish = start + 2 * self.rows - 2 + self.step
            self.array = Array(t, start, max(finish, a.ended + 1))
            self.ending.append((self.array.ended, op, task))
            return

    def begin(self, t, op):
        op.start, op.base = t, self.next_byte
        self.next_byte = (self.next_byte + op.bytes) % self.wrap
        op.waiting = list(op.tasks)
        for load in op.loads:
            self.send_block(t, op, "READ", *load)
        for _, request in op.pim:
            self.missing[request.tag] += request.kind != "P_HEADER"
        if op.singly:
            self.todo.extend((op, *command) for command in op.pim)
            self.send_one(t)
        else:
            for channel, request in op.pim:
                self.send_pim(t, op, channel, request)

    def send_one(self, t):
        if self.todo and self.sent_one < t:
            self.send_pim(t, *self.todo.popleft())
            self.sent_one = t

    def send_pim(self, t, op, channel, request):
        self.fifo[channel][op.port].append((t + 1, replace(request)))

    def send_block(self, t, op, kind, at, size, group):
        first, last = (op.base + at) // LINE, (op.base + at + size - 1) // LINE
        n = last - first + 1
        self.missing[group] += n
        for i in hash_order(first, n) if self.hashed else range(n):
            line = (first + i) % (self.wrap // LINE)
            line, channel = divmod(line, len(self.channels))
            line, column = divmod(line, COLUMNS)
            row, bank = divmod(line, RANKS * GROUPS * BANKS)
            port = op.stores_port if kind == "WRITE" else op.port
            self.fifo[channel][port].append((t + 1, Request(kind, bank, row, column, tag=group)))
