"""DRAMsim3's controller, cycle by cycle: an oracle in plain Python, written from an English specification.

It shares nothing with the engine, and asks in every cycle anew what a request or a bank needs. Numbers such as 2.5 are
the sections of that specification, `memory_controllers.md`; the configuration has the form of `config_resolved.json`.
"""

from collections import Counter, deque, namedtuple
from itertools import product
from typing import Any

COMMANDS = {  # names of each command in the tables and in the statistics
    "RD": ("READ", "num_read_cmds"), "RDA": ("READ_PRECHARGE", "num_read_cmds"),
    "WR": ("WRITE", "num_write_cmds"), "WRA": ("WRITE_PRECHARGE", "num_write_cmds"),
    "ACT": ("ACTIVATE", "num_act_cmds"), "PRE": ("PRECHARGE", "num_pre_cmds"),
    "REFab": ("REFRESH", "num_ref_cmds"), "REFpb": ("REFRESH_BANK", "num_refb_cmds"),
    "SRE": ("SREF_ENTER", "num_srefe_cmds"), "SRX": ("SREF_EXIT", "num_srefx_cmds"),
}  # fmt: skip
KEYS = {key: name for name, (key, _) in COMMANDS.items()}
OTHERS = ("num_read_row_hits", "num_write_row_hits", "num_ondemand_pres", "num_reads_done", "num_writes_done")
STATES = {"act_stb": "rank_active_cycles", "pre_stb": "all_bank_idle_cycles", "sref": "sref_cycles"}
TABLES = ("same_bank", "other_banks_same_bankgroup", "other_bankgroups_same_rank", "other_ranks", "same_rank")
READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
COLUMN, RANK_WIDE = (*READS, *WRITES), ("REFab", "SRE", "SRX")
SIZES = {"tFAW": 4, "t32AW": 32}  # how many activations a window has room for
GDDR, HBM = (2, 3, 4), (8, 9)  # values of `protocol`
SIMULTANEOUS, RANKS, BANKS = range(3)  # values of `refresh_policy`

Place = tuple[int, ...]  # rank, bank group, bank, row, column; -1 = not applicable
Request = namedtuple("Request", "number address place write added")  # of a transaction queue
Entry = tuple[str, Place, Request]  # of a command queue


class Livelock(Exception):
    """2.2: a buffered write waits for a read of its address, which waits for the write buffer."""


class Bank:
    """2.4: its open row, if any, the column commands since it was opened, the earliest cycle of every command."""

    def __init__(self) -> None:
        self.row: int | None = None
        self.asleep, self.hits, self.free = False, 0, dict.fromkeys(COMMANDS, 0)

    def needs(self, name: str, row: int) -> str:
        """2.4: the command to issue on the way to `name`."""
        if self.asleep:
            if name not in COLUMN:
                raise RuntimeError(f"a sleeping bank cannot take {name}")
            return "SRX"
        if self.row is None:
            return "ACT" if name in COLUMN else name
        return name if name in COLUMN and self.row == row else "PRE"


class Channel:
    """One controller with its banks."""

    def __init__(self, config: dict[str, Any], number: int):
        self.config, self.number = config, number
        self.ranks, groups, banks = config["ranks"], config["bankgroups"], config["banks_per_group"]
        self.banks: dict[Place, Bank] = {at: Bank() for at in product(*map(range, (self.ranks, groups, banks)))}
        self.of_rank = [[bank for at, bank in self.banks.items() if at[0] == rank] for rank in range(self.ranks)]
        windows = ("tFAW", "t32AW") if config["protocol"] in GDDR else ("tFAW",)
        self.windows = [{name: list[int]() for name in windows} for _ in range(self.ranks)]  # 2.4: when they end
        self.dual = config["protocol"] in HBM and config["enable_hbm_dual_cmd"]
        per_rank = config["queue_structure"] == "PER_RANK"
        self.queue_of = {at: at[0] if per_rank else i for i, at in enumerate(self.banks)}
        self.queues: list[list[Entry]] = [[] for _ in set(self.queue_of.values())]
        self.pointer, self.clock, self.drain = 0, 0, 0
        self.reads, self.writes = list[Request](), list[Request]()  # `reads`: the unified queue, if there is one
        self.pending_reads: dict[int, list[Request]] = {}  # by address
        self.pending_writes, self.blocked = set[int](), set[int]()  # addresses; queues
        self.returns: list[tuple[int, list[Request]]] = []
        each = product(range(banks), range(groups)) if config["refresh_policy"] == BANKS else [(-1, -1)]
        self.turns = deque((rank, group, bank) for rank, (bank, group) in product(range(self.ranks), each))  # 2.5
        self.used, self.idle = [False] * self.ranks, [0] * self.ranks
        self.trace, self.refreshes = list[tuple](), list[tuple[str, Place]]()  # trace: cycle, command, channel, place
        self.n = dict.fromkeys([*(name for _, name in COMMANDS.values()), *OTHERS, "hbm_dual_cmds"], 0)
        self.cycles = {state: [0] * self.ranks for state in STATES.values()}
        self.read_latency, self.write_latency = Counter[int](), Counter[int]()  # how often each occurred

    def accept(self, number: int, address: int, write: bool) -> bool:
        """2.2: writes are answered at once and merged, reads forwarded or merged; refused if the queue is full."""
        queue = self.writes if write and not self.config["unified_queue"] else self.reads
        if len(queue) >= self.config["trans_queue_size"]:
            return False
        request = Request(number, address, self.decode(address), write, self.clock)
        answered = write or address in self.pending_writes
        if address not in (self.pending_writes if answered else self.pending_reads):
            queue.append(request)
        if answered:
            self.returns.append((self.clock + 1, [request]))
        else:
            self.pending_reads.setdefault(address, []).append(request)
        if write:
            self.pending_writes.add(address)
        return True

    def decode(self, address: int) -> Place:
        """Bits of the address."""
        bits, c = address >> self.config["shift_bits"], self.config
        return tuple(bits >> c[f"{f}_pos"] & c[f"{f}_mask"] for f in ("ra", "bg", "ba", "ro", "co"))

    def deliver(self) -> list[Request]:
        """2.7: the requests that are over."""
        over = [request for when, requests in self.returns if when <= self.clock for request in requests]
        self.returns = [entry for entry in self.returns if entry[0] > self.clock]
        for request in over:
            self.n["num_writes_done" if request.write else "num_reads_done"] += 1
        self.read_latency.update(self.clock - request.added for request in over if not request.write)
        return over

    def schedule(self) -> None:
        """2.2: arms the draining of the write buffer, and moves one request to its command queue."""
        c, idle = self.config, not any(self.queues)
        due = len(self.writes) >= c["trans_queue_size"] or (len(self.writes) > 8 and idle)
        self.drain = self.drain or due * len(self.writes)
        source = self.writes if self.drain > 0 else self.reads
        for request in source:
            place = request.place
            queue = self.queues[self.queue_of[place[:3]]]
            if len(queue) >= c["cmd_queue_size"]:
                continue
            if source is self.writes and request.address in self.pending_reads:
                self.drain = 0
                if idle and due:  # nothing will have moved when it is armed again
                    raise Livelock(f"cycle {self.clock}: a write to {request.address:#x} waits for a read of it")
                return
            self.drain -= source is self.writes
            name = ("WR" if request.write else "RD") + ("A" if c["row_buf_policy"] == "CLOSE_PAGE" else "")
            queue.append((name, place, request))
            source.remove(request)
            self.used[place[0]] = True
            return

    def ready(self, place: Place, name: str) -> str | None:
        """2.4: what the bank needs on the way to `name`, if it and the activation windows take it now."""
        bank = self.banks[place[:3]]
        need = bank.needs(name, place[3])
        if self.clock < bank.free[need]:
            return None
        windows = self.windows[place[0]] if need == "ACT" else {}
        full = any(self.clock < ends[0] for name, ends in windows.items() if len(ends) >= SIZES[name])
        return None if full else need

    def scope(self, name: str, place: Place) -> list[tuple[int, ...]]:
        """The banks a command acts on: one, or all of a rank."""
        return [at for at in self.banks if at[0] == place[0]] if name in RANK_WIDE else [place[:3]]

    def own_command(self, name: str, place: Place) -> tuple[str, Place] | None:
        """2.4 and 2.5: the precharge of the first bank that is open and may close, or `name` if all are ready."""
        needs = {at: self.ready((*at, -1, -1), name) for at in self.scope(name, place)}
        for at, need in needs.items():
            if need not in (name, None):
                return need, (*at, -1, -1)
        return (name, place) if all(needs.values()) else None

    def pick(self) -> Entry | None:
        """2.3: goes round the queues, from the one after the last that delivered; a column command leaves its queue."""
        for _ in self.queues:
            self.pointer = (self.pointer + 1) % len(self.queues)
            found = None if self.pointer in self.blocked else self.first_ready(self.queues[self.pointer])
            if found and found[0] in COLUMN:
                self.queues[self.pointer].remove(found)
            if found:
                return found
        return None

    def first_ready(self, queue: list[Entry]) -> Entry | None:
        """2.3: the oldest entry that may go on, as the command it needs now."""
        for i, (name, place, request) in enumerate(queue):
            need = self.ready(place, name)
            if need == "PRE" and not self.may_close(queue, i):
                continue
            self.n["num_ondemand_pres"] += need == "PRE"
            after_read = need in WRITES and any(name in READS and at[1:] == place[1:] for name, at, _ in queue[:i])
            if need and not after_read:
                return need, place, request
        return None

    def may_close(self, queue: list[Entry], i: int) -> bool:
        """2.3: not before an older entry of the bank; a later hit holds it up until four have been served."""
        place, bank = queue[i][1], self.banks[queue[i][1][:3]]
        older = any(at[:3] == place[:3] for _, at, _ in queue[:i])
        return not older and (bank.hits >= 4 or all(at[:4] != (*place[:3], bank.row) for _, at, _ in queue[i:]))

    def queue_refresh(self) -> None:
        """2.5: the next refresh is due every interval; the simultaneous policy only ever finds one rank."""
        policy, refi = self.config["refresh_policy"], self.config["tREFI"]
        interval = (refi, refi // self.ranks, self.config["tREFIb"])[policy]
        if self.clock == 0 or self.clock % interval:
            return
        awake = [rank for rank, banks in enumerate(self.of_rank) if not banks[0].asleep]
        at = (awake[0], -1, -1) if policy == SIMULTANEOUS and awake else self.turns[0]
        self.turns.rotate(-1)
        if at[0] in awake:
            self.refreshes.append(("REFpb" if policy == BANKS else "REFab", (*at, -1, -1)))

    def refresh_command(self) -> tuple[str, Place] | None:
        """2.5: works on the first refresh of the queue, and blocks the command queues it concerns."""
        name, place = self.refreshes[0]
        found = self.own_command(name, place)
        self.blocked = set() if found == (name, place) else {self.queue_of[at] for at in self.scope(name, place)}
        return found

    def issue(self, name: str, place: Place, request: Any = None) -> None:
        """2.6, then 2.4: first the state, then the timing. Commands of the controller's own have no channel."""
        self.trace.append((self.clock, name, self.number if request else -1, *place))
        self.n[COMMANDS[name][1]] += 1
        touched = [self.banks[at] for at in self.scope(name, place)]
        if name in COLUMN:
            self.n["num_read_row_hits" if name in READS else "num_write_row_hits"] += touched[0].hits > 0
            if name in READS:
                self.returns.append((self.clock + self.config["read_delay"], self.pending_reads.pop(request.address)))
            else:
                self.pending_writes.discard(request.address)
                self.write_latency[self.clock - request.added + self.config["write_delay"]] += 1
        if name in ("REFab", "REFpb"):
            self.refreshes.remove((name, place))
        for bank in touched:
            if name in ("SRE", "SRX"):
                bank.asleep = name == "SRE"
            elif name == "ACT":
                bank.row = place[3]
            elif name in ("RDA", "WRA", "PRE"):
                bank.row, bank.hits = None, 0
            elif name in COLUMN:
                bank.hits += 1
        for at, bank in self.banks.items():
            table = TABLES[next((3 - i for i in range(3) if at[i] != place[i]), 0)]
            if name in RANK_WIDE:
                table = "same_rank" if at[0] == place[0] else ""
            for key, cycles in self.config[table][COMMANDS[name][0]].items() if table else ():
                bank.free[KEYS[key]] = max(bank.free[KEYS[key]], self.clock + cycles)
        for span, ends in self.windows[place[0]].items() if name == "ACT" else ():
            if ends and self.clock >= ends[0]:
                ends.pop(0)
            ends.append(self.clock + self.config[span])

    def tick(self) -> None:
        """2.1: the controller's steps of one cycle."""
        self.queue_refresh()
        issued: tuple | None = (self.refresh_command() if self.refreshes else None) or self.pick()
        if issued:
            self.issue(*issued)
        again = self.pick() if issued and self.dual else None
        if issued and again and (again[0] in COLUMN) != (issued[0] in COLUMN):
            self.issue(*again)
            self.n["hbm_dual_cmds"] += 1
        for rank, banks in enumerate(self.of_rank):
            opened = any(bank.row is not None for bank in banks)
            state = "sref_cycles" if banks[0].asleep else "rank_active_cycles" if opened else "all_bank_idle_cycles"
            self.cycles[state][rank] += 1
            self.idle[rank] = 0 if opened else self.idle[rank] + (state == "all_bank_idle_cycles")
        if self.config["enable_self_refresh"] and not issued:
            self.sleep()
        self.schedule()
        self.clock += 1

    def sleep(self) -> None:
        """2.5: puts a rank to sleep that was never used; asking a sleeping rank to wake here is the tool's abort."""
        for rank, banks in enumerate(self.of_rank):
            name = "SRX" if banks[0].asleep else "SRE"
            due = self.used[rank] if banks[0].asleep else self.idle[rank] >= self.config["sref_threshold"]
            if due and self.used[rank] == banks[0].asleep and (found := self.own_command(name, (rank, -1, -1, -1, -1))):
                self.issue(*found)
                return

    @property
    def counters(self) -> dict[str, Any]:
        """2.6, 2.7 and 2.11: the statistics under the tool's names; cycles and energy of the ranks by number."""
        c, total = self.config, 0.0
        n: dict[str, Any] = {"num_cycles": self.clock, **self.n}
        for cause in ("act", "read", "write", "ref", "refb"):
            n[f"{cause}_energy"] = n[f"num_{cause}_cmds"] * c[f"{cause}_energy_inc"]
            total += n[f"{cause}_energy"]
        for cause, state in STATES.items():
            n[state] = {str(rank): count for rank, count in enumerate(self.cycles[state])}
            n[f"{cause}_energy"] = {rank: count * c[f"{cause}_energy_inc"] for rank, count in n[state].items()}
            total += sum(n[f"{cause}_energy"].values())
        mean = sum(cycles * count for cycles, count in self.read_latency.items()) / max(1, n["num_reads_done"])
        return n | {"total_energy": total, "average_read_latency": mean}


def simulate(config: dict[str, Any], requests: list[tuple[int, bool, int]], extra: int = 0) -> tuple:
    """2.1: each cycle a tick, then at most one (address, write, cycle) is sent; `extra` cycles after all callbacks.

    Gives per request the cycles of acceptance and callback, the channels, and the cycles until the last callback.
    """
    channels = [Channel(config, i) for i in range(config["channels"])]
    accept, done = [-1] * len(requests), [-1] * len(requests)
    sent = returned = cycle = last = 0
    while returned < len(requests) or cycle < last + extra:
        for channel in channels:
            for request in channel.deliver():
                done[request.number] = cycle
                returned, last = returned + 1, cycle + 1
            channel.tick()
        if sent < len(requests) and requests[sent][2] <= cycle:
            address, write, _ = requests[sent]
            channel = channels[address >> config["shift_bits"] + config["ch_pos"] & config["ch_mask"]]
            if channel.accept(sent, address, write):
                accept[sent] = cycle
                sent += 1
        cycle += 1
    return accept, done, channels, last
