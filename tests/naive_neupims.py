"""NeuPIMs' memory channel, tick by tick in plain Python, from the specification's sections 3.1 to 3.4.

Slow and simple on purpose: one object a bank, a dictionary of earliest clocks, lists for queues. `mode` is "DUAL"
(MEM and PIM row buffers), "SINGLE" (one buffer, blocked) or "DRAM" (no PIM). It shares nothing with `arch` or
`cycle_sim`; the numbers are the specification's, in clocks of 1 ns. `fixes` holds numbers of its section 8.1;
`precharge` is the scope of PIM_PRECHARGE that its item 23 leaves open. While 13 is repaired, a header whose tile is not
all there counts as no PIM command: reads and writes go on as if the PIM queue were empty, and the tile comes first.
"""

from collections import deque
from dataclasses import dataclass, field

RANKS, GROUPS, BANKS = 2, 4, 4
ALL = range(RANKS * GROUPS * BANKS)
REFI, SLICE = 3900, 1950
MEM = ("READ", "WRITE")
BROADCAST = ("P_HEADER", "COMP", "COMPS_READRES", "READRES")


@dataclass
class Request:
    """One transaction: `bank` is rank * 16 + group * 4 + bank; `count`: COMPs; a header has `comps` and `results`."""

    kind: str
    bank: int = 0
    row: int = 0
    column: int = 0
    count: int = 0
    comps: int = 0
    results: int = 0
    last: bool = False
    tag: int = 0
    begun: bool = False

    @property
    def address(self):
        return self.bank, self.row, self.column


@dataclass
class Bank:
    mem: int = -1
    pim: int = -1
    served: int = 0
    earliest: dict = field(default_factory=dict)


def rank_of(bank):
    return bank // (GROUPS * BANKS)


OF_RANK = [range(first, first + GROUPS * BANKS) for first in range(0, len(ALL), GROUPS * BANKS)]


class Channel:
    """One channel; `offer` requests, then `tick`; `log` holds (clock, command, bank, row). per_group: banks of a bank
    group, of which a rank of 16 banks has as many as there is room for."""

    def __init__(self, mode, window=None, fixes=(), precharge="bank", per_group=BANKS):
        self.mode, self.fixes, self.per_group = mode, frozenset(fixes), per_group
        self.scope = {"bank": 1, "group": per_group, "channel": len(ALL)}[precharge]  # banks that a PIM_PRE closes
        self.window = window or (96 if mode == "DRAM" and 5 not in self.fixes else 4352)
        self.banks = [Bank() for _ in ALL]
        self.activates: list[deque[int]] = [deque(maxlen=4) for _ in range(RANKS)]
        self.reads, self.writes, self.pim = [], [], []
        self.queue: list[list[Request]] = [[] for _ in ALL]
        self.pim_queue: deque[Request] = deque()
        self.responses, self.done = [], []  # (clock, request)
        self.flying = 0
        self.drain, self.lock = 0, None
        self.rr, self.refreshes, self.next_rank, self.in_ref = 0, [], 0, None
        self.skip_pim, self.remain, self.reserved = False, 0, None
        self.gwriting, self.gw_bank, self.pim_mode = False, None, False
        self.fill = True  # the next COMP is the first after a READRES
        self.waiting_reads, self.waiting_writes = {}, {}
        self.log = []
        self.asleep: dict[tuple[str, int, int], int] = {}  # what is not ready before a clock unless another issues

    # --- transactions

    def room(self, request):
        """Whether `offer` would accept."""
        if request.kind == "WRITE":  # merged or not
            pending = self.writes
        else:
            pending = self.pim if self.mode == "DUAL" and request.kind not in MEM else self.reads
        if len(pending) >= 32:
            return False
        return request.kind == "P_HEADER" or self.flying < self.window

    def offer(self, request, t):
        """Accept a request in clock t, or not."""
        if not self.room(request):
            return False
        if request.kind == "P_HEADER":
            self._list(request).append(request)
            return True
        self.flying += 1
        if request.kind == "WRITE":
            self._respond(t + 1, request)
            if not self.waiting_writes.get(request.address):
                self.waiting_writes[request.address] = 1
                self.writes.append(request)
        elif request.kind == "READ":
            if self.waiting_writes.get(request.address):
                self._respond(t + 1, request)
                return True
            same = self.waiting_reads.setdefault(request.address, [])
            same.append(request)
            if len(same) == 1:
                self.reads.append(request)
        else:
            self._list(request).append(request)
        return True

    def _list(self, request):
        return self.pim if self.mode == "DUAL" and request.kind not in MEM else self.reads

    def _respond(self, t, request):
        self.responses.append((t, request))

    def collect(self, most=None):
        """Take the responses that were handed over, the oldest `most`."""
        found = self.done[:most]
        del self.done[:most]
        self.flying -= len(found)
        return found

    def move(self):
        """One transaction goes to its command queue."""
        idle = not any(self.queue)
        if self.lock is None and self.drain == 0 and (len(self.writes) == 32 or (len(self.writes) > 8 and idle)):
            self.drain = len(self.writes)
        if self.lock is not None:
            pending = self.reads
        elif self.mode == "DUAL" and self.pim:
            few = len(self.pim_queue) < 2 or self.tile_missing()
            if self.drain > 0 and not few:
                pending = self.writes
            elif few or not self.reads:
                pending = self.pim
            else:
                pending = self.reads
        else:
            pending = self.writes if self.drain > 0 else self.reads
        for i, x in enumerate(pending):
            if x.kind in MEM:
                if len(self.queue[x.bank]) >= 128 or (self.mode == "SINGLE" and self.pim_waits()):
                    continue
            elif len(self.pim_queue) >= 128:
                continue
            if x.kind == "WRITE":
                if self.waiting_reads.get(x.address):  # until that READ has issued
                    self.drain = 0
                    if any(r.kind == "READ" and r.address == x.address for r in self.reads):
                        self.lock = x.address
                    return
                copies = (p for p in (*self.pim, *self.reads, *self.pim_queue) if p.kind == "GWRITE")
                if any(p.address == x.address for p in copies):
                    self.drain = 0
                    return
                self.drain -= 1
            del pending[i]
            if x.kind in MEM:
                self.queue[x.bank].append(x)
            else:
                self.pim_queue.append(x)
            if x.kind == "READ" and self.lock == x.address:
                self.lock = None
            return

    def tile_missing(self):
        """13 repaired: the head is a header, and its tile, up to the command flagged last, is not all in the queue."""
        if 13 not in self.fixes or not self.pim_queue or self.pim_queue[0].kind != "P_HEADER":
            return False
        return len(self.pim_queue) < 128 and not any(x.last for x in self.pim_queue)

    def pim_waits(self):
        """Whether a PIM command waits that may go on."""
        return bool(self.pim_queue) and not self.tile_missing()

    # --- rows and timing

    def closed_with(self, b):
        """The banks that one PIM_PRE at bank b closes."""
        low = b // self.scope * self.scope
        return list(range(low, low + self.scope))

    def needed(self, c, b, row):
        """The command that bank b needs before, or as, command c; None: it can never issue."""
        bank = self.banks[b]
        if c in ("READ", "WRITE", "GWRITE"):
            if bank.mem >= 0:
                return c if bank.mem == row else "PRE"
            return "PIM_PRE" if self.mode == "DUAL" and bank.pim == row else "ACT"
        if c == "P_HEADER":
            if self.mode == "DUAL":
                if bank.pim >= 0:
                    return c if bank.pim == row else "PIM_PRE"
                return "PRE" if bank.mem == row else c
            return c if bank.mem in (-1, row) else "PRE"
        if c in ("COMP", "COMPS_READRES", "READRES"):
            opened = bank.pim if self.mode == "DUAL" else bank.mem
            if opened < 0:
                assert c != "READRES", "READRES of a closed bank"
                return "G_ACT"
            return c
        assert c == "REFRESH"
        if bank.mem >= 0:
            return "PRE"
        return "PIM_PRE" if self.mode == "DUAL" and bank.pim >= 0 else c

    def of_group(self, bank):
        """The banks of a bank's group."""
        first = bank // self.per_group * self.per_group
        return range(first, first + self.per_group)

    def free(self, c, b):
        """First clock in which no rule binds command c at bank b."""
        if c == "PIM_PRE":
            scope = self.closed_with(b)
        elif c == "G_ACT" and 15 in self.fixes:
            scope = self.of_group(b)
        else:
            return self.banks[b].earliest.get(c, 0)
        return max(self.banks[x].earliest.get(c, 0) for x in scope)

    def ready(self, c, bank, row, t):
        """(command, bank) that may issue now for the sake of c, or None."""
        if t < self.asleep.get((c, bank, row), 0):
            return None
        scope, waits = range(bank, bank + 1), []
        if c in BROADCAST:
            scope = ALL
        elif c == "REFRESH":
            scope = OF_RANK[rank_of(bank)]
        counted = 0
        for b in scope:
            x = self.needed(c, b, row)
            if x == "P_HEADER":
                counted += 1
                continue
            free = self.free(x, b)
            if t < free:
                waits.append(free)
                continue
            if x != c:
                if x == "ACT":
                    window = self.activates[rank_of(b)]
                    if len(window) == 4 and t < window[0] + 30:
                        waits.append(window[0] + 30)
                        break
                return x, b
            counted += 1
        if not waits:
            return c, bank
        self.asleep[c, bank, row] = min(waits)
        return None

    def _hold(self, names, banks, until):
        for b in banks:
            e = self.banks[b].earliest
            for name in names:
                if e.get(name, 0) < until:
                    e[name] = until

    def arm(self, c, bank, t, n=0):
        """Every rule of the two tables of section 3.1 that command c starts."""
        dual, hold = self.mode == "DUAL", self._hold
        same = [bank]
        group = self.of_group(bank)
        siblings = [b for b in group if b != bank]
        rank = OF_RANK[rank_of(bank)]
        others = [b for b in rank if b not in group]
        away = [b for b in ALL if rank_of(b) != rank_of(bank)]
        if c == "ACT":
            hold(("READ", "WRITE", "GWRITE"), same, t + 14)
            hold(("PRE",), same, t + 34)
            hold(("ACT",), same, t + 48)
            hold(("ACT", "G_ACT"), siblings, t + 6)
            hold(("ACT", "G_ACT"), others, t + 4)
            hold(("G_ACT",), same, t + (6 if dual else 48))
            if 15 in self.fixes:
                hold(("G_ACT",), rank, t + 30)
        elif c == "READ":
            hold(("READ", "GWRITE"), rank, t + 2)
            hold(("READ",), away, t + 4)
            hold(("WRITE",), ALL, t + 14)
            hold(("PRE",), same, t + 5)
            hold(("COMP", "COMPS_READRES", "READRES"), group, t + (0 if dual else 2))
            hold(("COMP", "COMPS_READRES", "READRES"), others, t + 2)
            hold(("READRES",), away, t + 4)
        elif c == "WRITE":
            hold(("WRITE",), ALL, t + 2)
            hold(("READ", "GWRITE"), group, t + 14)
            hold(("READ", "GWRITE"), others, t + 12)
            hold(("PRE",), same, t + 22)
            hold(("COMP", "COMPS_READRES", "READRES"), group, t + (0 if dual else 14))
            hold(("COMP", "COMPS_READRES", "READRES"), others, t + 12)
        elif c == "PRE":
            hold(("ACT", "REFRESH"), same, t + 14)
            if not dual:
                hold(("G_ACT",), same, t + 14)
        elif c == "PIM_PRE":
            hold(("G_ACT", "REFRESH"), self.closed_with(bank), t + 14)
        elif c == "REFRESH":
            hold(("ACT", "G_ACT", "REFRESH"), rank, t + 260)
        elif c == "G_ACT":
            hold(("ACT",), group, t + (6 if dual else 48))
            hold(("G_ACT",), group, t + 48)
            hold(("COMP", "COMPS_READRES", "READRES"), group, t + 14)
            hold(("PIM_PRE",), group, t + 34)
            hold(("ACT", "G_ACT"), rank, t + 30)
            hold(("COMP", "COMPS_READRES"), rank, t + 14)
            if 16 in self.fixes and not dual:
                hold(("PRE",), group, t + 34)
        elif c == "GWRITE":
            hold(("READ", "WRITE", "PRE", "COMP", "COMPS_READRES"), same, t + 96)
            if 8 in self.fixes:
                hold(("GWRITE",), same, t + 96)
            rest = siblings + others
            hold(("READ",), rest, t + 2)
            hold(("WRITE",), rest, t + 14)
            hold(("GWRITE", "COMP", "COMPS_READRES", "READRES"), rest, t + 96)
        elif c == "COMP":
            hold(("READ", "GWRITE", "COMP", "READRES"), ALL, t + 2)
            hold(("WRITE",), ALL, t + 14)
            hold(("PIM_PRE",), ALL, t + 5)
            hold(("PRE",), ALL, t + (0 if dual else 5))
            if self.fill:
                hold(("READRES",), ALL, t + 6)
        elif c == "READRES":
            hold(("READ",), ALL, t + 4)
            hold(("WRITE",), ALL, t + 14)
            hold(("GWRITE", "COMP", "READRES"), ALL, t + 2)
            hold(("G_ACT",), ALL, t + 19)
            hold(("PIM_PRE", "PRE"), ALL, t + 5)
        elif c == "COMPS_READRES":
            hold(("COMPS_READRES",), ALL, t + 2 * (max(n, 6) + 1))
            hold(("READ",), ALL, t + 4)
            hold(("WRITE",), ALL, t + 14)
            hold(("GWRITE", "COMP", "READRES"), ALL, t + 2)
            hold(("G_ACT",), ALL, t + 19)
            hold(("PIM_PRE",), ALL, t + (5 + 2 * max(n, 6) if 2 in self.fixes else 5))

    # --- refresh and deadline

    def slack(self, t):
        return SLICE - (t if 18 in self.fixes else t + 1) % SLICE

    def estimate(self, h):
        if h.kind == "GWRITE":
            opened = self.banks[h.bank].mem
            return 96 + (28 if opened < 0 else 0 if opened == h.row else 33)
        rows, n = [bank.pim if self.mode == "DUAL" else bank.mem for bank in self.banks], self.per_group
        groups = sum(any(row != h.row for row in rows[low : low + n]) for low in range(0, len(rows), n))
        closes = {tuple(self.closed_with(b)) for b in ALL if rows[b] not in (-1, h.row)}  # commands that take 5 each
        pending = len(closes)
        return 5 * pending + 30 * (groups // 2 - 1) + 14 + 2 * max(h.comps, 6) + 2 * (h.results - 1)

    def deadline_ok(self, h, t):
        s = self.slack(t) - self.estimate(h)
        self.remain = max(s, 0)
        return s > 0

    # --- choice of a command

    def select(self, t):
        """(command, bank, row, request or None) or None; a request is taken off its queue."""
        if self.mode == "SINGLE" and not self.skip_pim and (self.pim_mode or not any(self.queue)):
            if self.in_ref is not None or not self.pim_waits():
                return None
            return self._take_pim(t)
        if self.mode == "DUAL" and not self.skip_pim and self.pim_waits() and self.in_ref is None:
            found = self._take_pim(t)
            if found:
                return found
            if self.remain < 10:
                return None
        for _ in range(1 if self.pim_mode else 32):
            self.rr = (self.rr + 1) % 32
            if not self.queue[self.rr] or (self.in_ref is not None and rank_of(self.rr) == self.in_ref):
                continue
            found = self.first_ready(self.rr, t)
            if found:
                return found
        return None

    def _take_pim(self, t):
        h = self.pim_queue[0]
        r = self.pim_head(h, t)
        if r is None:
            return None
        c, bank = r
        if c == h.kind:
            self.pim_queue.popleft()
            return c, bank, h.row, h
        return c, bank, h.row, None

    def pim_head(self, h, t):
        if self.gwriting:
            return self.ready(h.kind, h.bank, h.row, t) if h.kind == "GWRITE" else None
        if h.kind in ("GWRITE", "P_HEADER"):
            if not self.deadline_ok(h, t):
                self.skip_pim = True
                return None
            if h.kind == "GWRITE":
                self.gwriting, self.gw_bank = True, h.bank
            else:
                self.reserved = h.row
                self.pim_mode = self.mode == "SINGLE"
        return self.ready(h.kind, h.bank, h.row, t)

    def first_ready(self, b, t):
        bank, q = self.banks[b], self.queue[b]
        for i, x in enumerate(q):
            if x.row == self.reserved or (self.gwriting and b == self.gw_bank):
                continue
            r = self.ready(x.kind, b, x.row, t)
            if r is None:
                continue
            c = r[0]
            if c == "PRE":
                hit = any(y.row == bank.mem for y in q)
                if i > 0 or (hit and bank.served < 4):
                    continue
            if c == "WRITE" and any(y.kind == "READ" and y.address == x.address for y in q[:i]):
                continue
            if self.mode == "DUAL" and self.remain > 0 and self.pim_waits():
                if c == "PRE":
                    if self.remain <= 28:
                        continue
                    self.remain -= 14
                if c == "ACT":
                    if self.remain <= 14:
                        continue
                    self.remain -= 14
            if c in MEM:
                del q[i]
                return c, b, x.row, x
            return c, b, x.row, None
        return None

    # --- a clock

    def issue(self, t, c, bank, row, request):
        if c == "G_ACT":
            bank = self.of_group(bank)[0]
        self.log.append((t, c, bank, row))
        self.asleep.clear()
        b = self.banks[bank]
        pim = "pim" if self.mode == "DUAL" else "mem"
        if c == "ACT":
            b.mem, b.served = row, 0
            self.activates[rank_of(bank)].append(t)
        elif c == "PRE":
            b.mem, b.served = -1, 0
        elif c == "PIM_PRE":
            for x in self.closed_with(bank):
                self.banks[x].pim = -1
        elif c == "G_ACT":
            for x in self.of_group(bank):
                setattr(self.banks[x], pim, row)
        elif c in MEM:
            b.served += 1
        self.arm(c, bank, t, request.count if request else 0)
        self.fill = c == "READRES" or (self.fill and c != "COMP")
        if c in ("READ", "READRES", "COMPS_READRES"):
            same = self.waiting_reads.pop(request.address) if c == "READ" else [request]
            late = max(2 * request.count, 6) if c == "COMPS_READRES" and "2r" in self.fixes else 0
            for x in same:
                self._respond(t + 16 + late, x)
        elif c == "WRITE":
            del self.waiting_writes[request.address]
        elif c == "GWRITE":
            self._respond(t + 96, request)
        elif c == "COMP":
            self._respond(t, request)
        if c == "READRES" and request.last:
            self.pim_mode, self.reserved, self.remain = False, None, 0

    def tick(self, t):
        if 18 in self.fixes:
            self.remain = max(self.remain - 1, 0)
        due = [x for x in self.responses if x[0] <= t]
        self.responses = [x for x in self.responses if x[0] > t]
        for _, x in due:
            if x.kind == "GWRITE":
                self.gwriting, self.remain = False, 0
            self.done.append(x)
        if t > 0 and t % SLICE == 0:
            self.refreshes.append(self.next_rank)
            self.next_rank = 1 - self.next_rank
        c = None
        if self.refreshes:
            r = self.in_ref = self.refreshes[0]
            found = self.ready("REFRESH", 16 * r, -1, t)
            if found:
                c = (*found, -1, None)
                if found[0] == "REFRESH":
                    self.refreshes.pop(0)
                    self.in_ref, self.skip_pim, self.remain, self.reserved = None, False, 0, None
        if c is None:
            c = self.select(t)
        if c:
            self.issue(t, *c)
        self.move()
