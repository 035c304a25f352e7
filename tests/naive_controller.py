"""A memory controller that asks every question in every clock: slow, plain, written from docs/controllers.md alone.

Timing is looked up in the whole history of commands: nothing about it is carried from clock to clock. The steps are
numbered as in that text.
"""

from collections import Counter
from typing import NamedTuple

from tests.naive_history import BANK, BANK_GROUP, RANK, History

COLUMN = ("RD", "WR", "RDA", "WRA")
OPEN, CLOSED, ASLEEP = range(3)


class Command(NamedTuple):
    clock: int
    name: str
    bank: int
    row: int
    column: int


class Request:
    """One request and what became of it."""

    def __init__(self, number, when, write, address, bank, row, column):
        self.number, self.when, self.write, self.address = number, when, write, address
        self.bank, self.row, self.column = bank, row, column
        self.accept = self.done = None
        self.same = []  # requests that are done with this one


class Controller:
    """One channel; `tick` is one clock."""

    def __init__(self, rules, names, size, scope, bus, policy, clocks, requests, postponed=8):
        self.postponed = postponed
        self.policy, self.clocks = policy, clocks
        self.bus = dict(zip(names, bus, strict=True))
        self.history = History(rules, names, size, scope)
        self.span, self.n_ranks, self.n_banks = self.history.span, size[RANK], size[BANK]
        self.groups, self.each = size[BANK_GROUP] // size[RANK], size[BANK] // size[BANK_GROUP]
        self.of_refresh = self.history.width.get("REFab", self.span[RANK])
        self.n_refresh = self.n_banks // self.of_refresh
        self.close_all = self.history.width.get("PREab") == self.of_refresh
        self.requests = [Request(number, *fields) for number, fields in enumerate(requests)]
        self.next = 0
        self.reads, self.writes = [], []
        self.n_queues = {"per_bank": self.n_banks, "per_rank": self.n_ranks, "unified": 1}[policy.queues]
        self.queues: list[list] = [[] for _ in range(self.n_queues)]
        self.turn, self.drain = 0, 0
        self.refreshes, self.due, self.blocked = [], 0, set()
        self.row, self.accesses, self.used = {}, {}, {}  # of banks with an open row
        self.asleep, self.closed_since = [False] * self.n_ranks, [0] * self.n_ranks
        self.now, self.log = 0, []
        self.count: Counter = Counter()
        self.rank_ck = [[0, 0, 0] for _ in range(self.n_ranks)]
        self.issued = []

    def home(self, bank):
        """The command queue of a bank."""
        return {"per_bank": bank, "per_rank": bank // self.span[RANK], "unified": 0}[self.policy.queues]

    def waiting(self):
        """Requests that were accepted and wait for their column command."""
        return [*self.reads, *self.writes, *(entry for queue in self.queues for entry in queue)]

    def legal(self, name, bank):
        return self.now >= self.history.legal_from(name, bank)

    def issue(self, name, bank, row=-1, column=-1):
        t, rank = self.now, bank // self.span[RANK]
        self.log.append(Command(t, name, bank, row, column))
        self.history.add(t, name, bank)
        self.issued.append(name)
        if name == "ACT":
            self.row[bank], self.accesses[bank] = row, 0
        elif name in COLUMN:
            self.count["write_row_hits" if "W" in name else "read_row_hits"] += self.accesses[bank] > 0
            self.accesses[bank] += 1
        for b in self.history.banks(name, bank):
            self.used[b] = t
            if name in ("PRE", "PREab", "RDA", "WRA") and self.row.pop(b, None) is not None:
                self.closed_since[b // self.span[RANK]] = t
        if name in ("SRE", "SRX"):
            self.asleep[rank] = name == "SRE"
            self.closed_since[rank] = t

    def tick(self):
        self.issued = []
        slept = list(self.asleep)
        self.refresh_falls_due()
        self.refresh_engine()
        if not self.issued:
            self.command_queues(None)
        if len(set(self.bus.values())) > 1 and self.issued:
            self.command_queues(self.bus[self.issued[0]])
            self.count["paired_commands"] += len(self.issued) > 1
        if self.policy.page == "adaptive" and not self.issued:
            self.idle_rows()
        if self.policy.self_refresh_after_ck is not None and not self.issued and not self.refreshes:
            self.sleep()
        for _ in range(self.policy.requests_per_ck):
            self.move()
        self.accept()
        for rank in range(self.n_ranks):
            is_open = any(bank // self.span[RANK] == rank for bank in self.row)
            state = ASLEEP if slept[rank] and self.asleep[rank] else OPEN if is_open else CLOSED
            self.rank_ck[rank][state] += 1
        self.now += 1

    def refresh_falls_due(self):  # 1
        kind = self.policy.refresh
        if kind == "none" or self.now == 0:
            return
        if kind == "all_bank":
            every = self.clocks["tREFI"]
        elif kind == "staggered":
            every = self.clocks["tREFI"] // self.n_refresh
        else:
            every = max(1, self.clocks["tREFIpb"] // self.n_ranks)
        if self.now % every:
            return
        if kind == "all_bank":
            due = [("REFab", n * self.of_refresh) for n in range(self.n_refresh)]
        elif kind == "staggered":
            due = [("REFab", self.due % self.n_refresh * self.of_refresh)]
        else:
            rest, rank = divmod(self.due, self.n_ranks)
            rest, group = divmod(rest, self.groups)
            due = [("REFpb", rank * self.span[RANK] + group * self.each + rest % self.each)]
        self.due += 1
        self.refreshes += [(*one, self.now) for one in due if not self.asleep[one[1] // self.span[RANK]]]
        self.count["refreshes_due"] += sum(not self.asleep[bank // self.span[RANK]] for _, bank in due)

    def refresh_engine(self):  # 2
        self.blocked = set()
        if not self.refreshes:
            return
        name, first, due = self.refreshes[0]
        banks = self.history.banks(name, first)
        each = self.clocks["tREFIpb"] * self.span[RANK] if name == "REFpb" else self.clocks["tREFI"]
        forced = self.now >= due + (self.postponed - 1) * each
        self.blocked = set(range(self.n_queues)) if forced else {self.home(bank) for bank in banks}
        opened = [bank for bank in banks if bank in self.row]
        if opened and name == "REFab" and self.close_all:
            if self.legal("PREab", first):
                self.issue("PREab", first)
        elif opened:
            ready = [bank for bank in opened if self.legal("PRE", bank)]
            if ready:
                self.issue("PRE", ready[0])
        elif self.legal(name, first):
            self.issue(name, first)
            self.refreshes.pop(0)
            self.count["refresh_lag_max"] = max(self.count["refresh_lag_max"], self.now - due)
            self.blocked = set()

    def offer(self, queue, i):
        """The command that entry i of a queue needs and may have, if the rules allow it, else None."""
        entry = queue[i]
        if self.asleep[entry.bank // self.span[RANK]]:
            return "SRX"
        if entry.bank not in self.row:
            return "ACT"
        opened = self.row[entry.bank]
        older = [e for e in queue[:i] if e.bank == entry.bank]
        if opened == entry.row:
            if entry.write and any(not e.write and (e.row, e.column) == (entry.row, entry.column) for e in older):
                return None
            return ("WR" if entry.write else "RD") + ("A" if self.policy.page == "closed" else "")
        wanted = any(e.bank == entry.bank and e.row == opened for e in queue[i:])
        if older or (wanted and self.accesses[entry.bank] < self.policy.row_hit_cap):
            return None
        return "PRE"

    def choose(self, queue, taken):
        """What a queue would issue now: (entry, command), or None; nothing for the bus that is taken."""
        legal = []
        for i, entry in enumerate(queue):
            name = self.offer(queue, i)
            if name and self.bus[name] != taken and self.legal(name, entry.bank):
                legal.append((entry, name))
        if self.policy.scheduler == "fr_fcfs_row_hit":
            legal = [one for one in legal if one[1] in COLUMN] or legal
        return legal[0] if legal else None

    def command_queues(self, taken):  # 3, 4
        found = {}
        for q, queue in enumerate(self.queues):
            if q not in self.blocked and (one := self.choose(queue, taken)):
                found[q] = one
        if self.policy.scheduler == "fr_fcfs_row_hit":
            found = {q: one for q, one in found.items() if one[1] in COLUMN} or found
        if not found:
            return
        if self.policy.arbiter == "oldest":
            q = min(found, key=lambda q: found[q][0].number)
        else:
            q = min(found, key=lambda q: (q - self.turn - 1) % self.n_queues)
        self.turn = q
        entry, name = found[q]
        self.issue(name, entry.bank, entry.row, entry.column)
        self.count["row_misses_closing"] += name == "PRE"
        if name in COLUMN:
            self.queues[q].remove(entry)
            latency = self.clocks["nCWL" if entry.write else "nCL"] + self.clocks["nBL"]
            for request in (entry, *entry.same):
                request.done = self.now + latency

    def idle_rows(self):  # 5
        due = []
        for bank in sorted(self.row):
            since = max(self.used[bank] + self.policy.page_timeout_ck, self.history.legal_from("PRE", bank))
            if since <= self.now and not any(e.bank == bank for queue in self.queues for e in queue):
                due.append((since, bank))
        if due:
            self.issue("PRE", min(due)[1])

    def sleep(self):  # 6
        for rank in range(self.n_ranks):
            first = rank * self.span[RANK]
            banks = range(first, first + self.span[RANK])
            idle = not self.asleep[rank] and not any(bank in self.row for bank in banks)
            long_enough = self.now >= self.closed_since[rank] + self.policy.self_refresh_after_ck - 1
            if idle and long_enough and self.legal("SRE", first) and not any(e.bank in banks for e in self.waiting()):
                self.issue("SRE", first)
                return

    def move(self):  # 7
        policy, n = self.policy, len(self.writes)
        high, low = (round(mark * policy.write_entries) for mark in (policy.drain_high, policy.drain_low))
        if self.drain == 0 and not policy.unified:
            idle = n > policy.drain_idle and not any(self.queues) and not self.reads
            if n >= max(1, high) or idle:
                self.drain = max(1, n - low)
        if self.drain > 0 and self.move_from(self.writes):
            rest = not self.reads and len(self.writes) > policy.drain_idle
            self.drain = 1 if self.drain == 1 and rest else self.drain - 1
        else:
            self.move_from(self.reads)

    def move_from(self, source):
        """Whether a request of this queue could move to its command queue."""
        read = {e.address for e in self.waiting() if not e.write} if source is self.writes else ()
        for entry in source:
            queue = self.queues[self.home(entry.bank)]
            if len(queue) < self.policy.queue_entries and not (entry.write and entry.address in read):
                source.remove(entry)
                queue.append(entry)
                if self.policy.arbiter == "oldest":
                    queue.sort(key=lambda e: e.number)
                return True
        return False

    def accept(self):  # 8
        policy = self.policy
        for _ in range(policy.requests_per_ck):
            if self.next == len(self.requests) or self.requests[self.next].when > self.now:
                return
            request = self.requests[self.next]
            queue = self.writes if request.write and not policy.unified else self.reads
            if len(queue) >= (policy.write_entries if queue is self.writes else policy.read_entries):
                return
            self.next += 1
            request.accept = self.now
            same = {e.write: e for e in self.waiting() if e.address == request.address}
            if True in same and not request.write:
                request.done = self.now + 1
                self.count["forwarded"] += 1
            elif request.write in same:
                same[request.write].same.append(request)
                self.count["merged"] += 1
            else:
                queue.append(request)

    @property
    def finished(self):
        return self.next == len(self.requests) and all(r.done is not None and r.done < self.now for r in self.requests)
