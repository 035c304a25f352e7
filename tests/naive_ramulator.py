"""Ramulator 2.1's controllers, tick by tick: an oracle in plain Python, written from an English specification.

It shares nothing with the engine, and asks in every tick anew what a request or a bank needs. Numbers such as 3.5 are
the sections of that specification, `memory_controllers.md`. Covers GenericDDR and HBM12, FRFCFS and FRFCFS-RowHit,
Open and ClosedCAP, AllBank and NoRefresh, RoBaRaCoCh.
"""

import struct
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

COMMANDS = {  # 3.12: by number
    "DDR4": ("ACT", "PREpb", "PREab", "RD", "WR", "RDA", "WRA", "REFab"),
    "HBM2": ("ACT", "PREpb", "PREab", "RD", "WR", "RDA", "WRA", "REFab", "REFpb"),
    "GDDR6": ("ACT", "PREab", "PREpb", "RD", "WR", "RDA", "WRA", "REFab", "REFpb"),
}
# Levels down to the bank, requests of a prefetch, places of nREFI and tCK_ps in the timing vector (3.11, 3.12).
DEPTH, PREFETCH, NREFI, TCK_PS = (
    dict(zip(COMMANDS, values, strict=True)) for values in ((4, 4, 3), (8, 4, 16), (18, 21, 20), (20, 23, 21))
)
COLUMN = ("RD", "WR", "RDA", "WRA")
CLOSING = ("PREpb", "PREab", "RDA", "WRA")
KINDS = ("row_hits", "row_misses", "row_conflicts")
OPS = ("read", "write", "maintenance")
QUEUES = ("queue_len", "read_queue_len", "write_queue_len", "priority_queue_len")
PATIENCE = 100_000  # ticks without a callback, after which none is expected any more

Place = tuple[int, ...]  # one index per level, then row and column; -1 = all


def single(value: float) -> float:
    """The nearest number of single precision."""
    return struct.unpack("f", struct.pack("f", value))[0]


class Request:
    """A read, a write, or upkeep: a refresh, or a precharge that the row policy asked for."""

    def __init__(self, kind: int, final: str, place: Place, arrive: int, index: int = -1, address: int = -1):
        self.kind, self.final, self.place, self.arrive = kind, final, place, arrive  # kind: 0 RD, 1 WR, -1 upkeep
        self.index, self.address, self.counted = index, address, False


class Node:
    """3.8: a node of the timing tree: the earliest clock of every command, and when each was issued here."""

    def __init__(self, rules: list[dict[str, list]], counts: list[int], level: int = 0, index: int = 0):
        self.rules, self.level, self.index = rules, level, index
        self.ready = dict.fromkeys(rules[level], 0)
        self.history: dict[str, list[int]] = {name: [] for name in rules[level]}
        below = range(counts[level + 1]) if level + 1 < len(rules) else ()
        self.children = [Node(rules, counts, level + 1, i) for i in below]

    def issue(self, name: str, place: Place, clock: int) -> None:
        """3.8: an addressed node follows its ordinary rules and goes down; any other only the sibling rules."""
        addressed = place[self.level] in (-1, self.index)
        past = self.history[name]
        if addressed:
            past.append(clock)
        for after, cycles, window, sibling in self.rules[self.level][name]:
            if addressed and not sibling and len(past) >= window:
                self.ready[after] = max(self.ready[after], past[-window] + cycles)
            if sibling and not addressed:
                self.ready[after] = max(self.ready[after], clock + cycles)
        for child in self.children if addressed else ():
            child.issue(name, place, clock)  # no rule applies where neither the place nor a sibling rule leads

    def touched(self, place: Place) -> Iterator["Node"]:
        """This node and all below it that a command at `place` must find ready."""
        yield self
        for child in self.children:
            if place[child.level] in (-1, child.index):
                yield from child.touched(place)


class Channel:
    """One controller with its DRAM."""

    def __init__(self, config: dict[str, Any], number: int):
        dram = config["dram"]
        self.config, self.standard, self.number = config, dram["impl"], number
        self.names, self.depth = COMMANDS[self.standard], DEPTH[self.standard]
        self.counts, self.latency = dram["org"]["count"], dram["read_latency"]
        self.bytes = PREFETCH[self.standard] * dram["channel_width"] // 8  # of a request
        self.refi, self.tck_ps = dram["timing"][NREFI[self.standard]], dram["timing"][TCK_PS[self.standard]]
        self.cap = config["row_policy"].get("cap", 4) if config["row_policy"]["impl"] == "ClosedCAP" else float("inf")
        rules: list[dict[str, list]] = [{name: [] for name in self.names} for _ in range(self.depth)]
        for level, before, after, cycles, *rest in dram["timing_constraints"]:
            window, sibling = rest + [1, False][len(rest) :]
            for a, b in product(before, after):
                rules[level][self.names[a]].append((self.names[b], cycles, window, sibling))
        self.tree = Node(rules, [1, *self.counts[1:]])
        self.path = cache(lambda place: list(self.tree.touched(place)))
        self.banks = list(product((0,), *map(range, self.counts[1 : self.depth])))  # 3.11: in flat order
        self.open: dict[Place, int | None] = dict.fromkeys(self.banks)  # the row
        self.active_count, self.accesses = dict.fromkeys(self.banks, 0), dict.fromkeys(self.banks, 0)
        self.closing: set[Place] = set()  # 3.10: banks whose injected precharge is under way
        self.reads, self.writes, self.priority, self.active = (list[Request]() for _ in range(4))
        self.pending: list[tuple[int, Request]] = []  # reads on their way back, and when they arrive
        self.done: list[tuple[int, int]] = []  # index and depart clock of requests that called back in this tick
        self.write_mode, self.clock = False, 0
        self.trace: list[tuple] = []  # clock, command, place, kind of the request
        names = [f"{op}{kind}" for op in ("", "read_", "write_") for kind in KINDS]
        names += [f"num_{op}_reqs{served}" for served in ("", "_served") for op in OPS]
        names += ["num_read_reqs_forwarded", "num_write_reqs_coalesced", "read_latency", *QUEUES]
        self.n = dict.fromkeys(names, 0)

    def decode(self, address: int) -> Place:
        """3.11, from the lowest bit: offset, column, rank or pseudo channel, bank group, bank, row."""
        left, fields = address // self.bytes, []
        for size in (self.counts[-1] // PREFETCH[self.standard], *self.counts[1:-1]):
            left, field = divmod(left, size)
            fields.append(field)
        return (0, *fields[1:], fields[0])

    def send(self, index: int, write: bool, address: int) -> bool:
        """3.2: forwarded, absorbed, put into a buffer, or refused."""
        request = Request(int(write), "WR" if write else "RD", self.decode(address), self.clock, index, address)
        op, buffer = ("write", self.writes) if write else ("read", self.reads)
        buffered = any(address == other.address for other in self.writes)
        if buffered and write:
            self.n["num_write_reqs_coalesced"] += 1
            self.done.append((index, self.clock))
        elif buffered:
            self.n["num_read_reqs_forwarded"] += 1
            self.pending.append((self.clock + 1, request))
        elif len(buffer) >= self.config[f"{op}_buffer_size"]:
            return False
        else:
            buffer.append(request)
        self.n[f"num_{op}_reqs"] += 1
        return True

    def hit(self, place: Place) -> list[Place]:
        """The banks at a place that may hold -1."""
        if -1 not in place[: self.depth]:
            return [place[: self.depth]]
        return [b for b in self.banks if all(want in (-1, i) for want, i in zip(place, b, strict=False))]

    def needs(self, request: Request) -> str:
        """3.4: the command that brings the request on."""
        if request.final == "REFab":
            return "PREab" if any(self.open[bank] is not None for bank in self.hit(request.place)) else "REFab"
        if request.final == "PREpb":
            return "PREpb"
        row = self.open[request.place[: self.depth]]
        if row is None:
            return "ACT"
        return request.final if row == request.place[self.depth] else "PREpb"

    def is_ready(self, name: str, place: Place) -> bool:
        """3.8: every node on the way lets the command through, and every child where the place says all."""
        return all(self.clock >= node.ready[name] for node in self.path(place[: self.depth]))

    def would_close(self, name: str, place: Place) -> bool:
        """3.3: does the command close a bank under a request of the active buffer?"""
        return bool(self.active) and name in CLOSING and any(self.active_count[bank] > 0 for bank in self.hit(place))

    def best(self, buffer: list[Request], may: Callable[[str, Request], bool]) -> Request | None:
        """3.5: ready goes before not ready, then the smaller `arrive`, then the place in the list; or None."""
        spares = self.config["scheduler"]["impl"] == "FRFCFS-RowHit"  # a row that an older request hits
        winner, ready = None, False
        for r in buffer:
            name = self.needs(r)
            if not may(name, r) or (spares and name == "PREpb" and self.spared(r, buffer)):
                continue
            now = self.is_ready(name, r.place)
            if winner is None or (now and not ready) or (now == ready and r.arrive < winner.arrive):
                winner, ready = r, now
        return winner if ready else None

    def spared(self, r: Request, buffer: list[Request]) -> bool:
        """3.5: whether a request that is no younger hits the row of r's bank."""
        bank = r.place[: self.depth]
        older = (o for o in buffer if o.arrive <= r.arrive and o.place[: self.depth] == bank)
        return any(self.needs(o) == o.final for o in older)

    def choose(self, names: tuple[str, ...], use_active: bool) -> tuple[Request | None, list[Request]]:
        """3.3, step 4: a request whose next command is among `names` and can go, and its buffer."""
        found = self.best(self.active, lambda name, r: name in names) if use_active else None
        if found:
            return found, self.active
        if self.priority:
            front = self.priority[0]
            name = self.needs(front)
            may = name in names and self.is_ready(name, front.place) and not self.would_close(name, front.place)
            return (front if may else None), self.priority
        self.write_mode = self.is_write_mode()
        buffer = self.writes if self.write_mode else self.reads
        return self.best(buffer, lambda name, r: name in names and not self.would_close(name, r.place)), buffer

    def is_write_mode(self) -> bool:
        """3.6: on above the high mark or without reads, off below the low mark if there are reads."""
        mark = self.config["wr_low_watermark" if self.write_mode else "wr_high_watermark"]
        limit = single(single(mark) * self.config["write_buffer_size"])
        return not self.reads or (len(self.writes) >= limit if self.write_mode else len(self.writes) > limit)

    def tick(self) -> None:
        """3.3, in its order; HBM12 has a slot for a column command and one for a row command."""
        self.clock += 1
        lengths = [len(self.reads), len(self.writes), len(self.priority)]
        for name, length in zip(QUEUES, (sum(lengths), *lengths), strict=True):
            self.n[name] += length
        while self.pending and self.pending[0][0] <= self.clock:
            depart, r = self.pending.pop(0)
            self.n["read_latency"] += depart - r.arrive
            self.done.append((r.index, depart))
        upkeep: list[tuple[str, Place]] = []
        if self.config["refresh_manager"]["impl"] != "NoRefresh" and self.clock % self.refi == 0:
            # 3.9: for each rank or pseudo channel, or for the channel if it has neither.
            upkeep += [("REFab", scope) for scope in product((0,), *map(range, self.counts[1 : self.depth - 2]))]
        for bank in self.banks:  # 3.10: at its cap, and could be closed now
            if self.accesses[bank] >= self.cap and bank not in self.closing and self.is_ready("PREpb", bank):
                upkeep.append(("PREpb", bank))
                self.closing.add(bank)
        for final, place in upkeep[: self.config["priority_buffer_size"] - len(self.priority)]:
            self.priority.append(Request(-1, final, place + (-1,) * (self.depth + 2 - len(place)), self.clock))
            self.n["num_maintenance_reqs"] += 1
        self.slot(COLUMN if self.config["impl"] == "HBM12" else self.names, True)
        if self.config["impl"] == "HBM12":
            self.slot(tuple(name for name in self.names if name not in COLUMN), False)

    def slot(self, names: tuple[str, ...], use_active: bool) -> None:
        """3.3, steps 4 and 5: chooses a command among `names` and issues it."""
        r, buffer = self.choose(names, use_active)
        if not r:
            return
        name, place, bank = self.needs(r), r.place, r.place[: self.depth]
        if name in ("RD", "WR") and self.accesses[bank] >= self.cap and self.is_ready(f"{name}A", place):  # 3.10
            name = r.final = f"{name}A"
        if r.kind >= 0 and not r.counted:  # 3.13: by what its first command meets
            r.counted = True
            kind = KINDS[{place[self.depth]: 0, None: 1}.get(self.open[bank], 2)]
            self.n[kind] += 1
            self.n[f"{OPS[r.kind]}_{kind}"] += 1
        self.trace.append((self.clock, name, self.number, *place[1:], r.kind))
        self.tree.issue(name, place, self.clock)
        for hit in self.hit(place):
            if name == "ACT":
                self.open[hit] = place[self.depth]
            elif name in CLOSING:
                self.open[hit], self.accesses[hit] = None, 0
                self.closing.discard(hit)
            elif name in COLUMN:
                self.accesses[hit] += 1
        # 3.7: a final command retires the request, an ACT moves it to the active buffer if that has room.
        promoted = name == "ACT" and len(self.active) < len(self.banks)
        if promoted or name == r.final:
            buffer.remove(r)
        if promoted:
            self.active.append(r)
            self.active_count[bank] += 1
        elif name == r.final:
            if buffer is self.active:
                self.active_count[bank] -= 1
            self.n[f"num_{OPS[r.kind]}_reqs_served"] += 1
            if r.kind == 0:
                self.pending.append((self.clock + self.latency, r))
            elif r.kind == 1:
                self.done.append((r.index, self.clock - 1))

    @property
    def counters(self) -> dict[str, float]:
        """3.13: the statistics under the tool's names."""
        n: dict[str, float] = {"cycles": self.clock, **self.n}
        n |= {f"{name}_avg": n[name] / self.clock for name in QUEUES}
        n["avg_read_latency"] = single(n["read_latency"] / max(1, n["num_read_reqs_served"]))
        for op in ("read", "write"):
            n[f"{op}_throughput_MBps"] = n[f"num_{op}_reqs_served"] * self.bytes * 1e6 / (self.clock * self.tck_ps)
        return n | {"total_throughput_MBps": n["read_throughput_MBps"] + n["write_throughput_MBps"]}


def simulate(config: dict[str, Any], requests: list[tuple[int, bool]], extra: int = 0) -> tuple:
    """3.1: each clock one attempt to send the next (address, write), then a tick; `extra` ticks after all callbacks.

    Gives per request the clocks of acceptance and departure, the channels, and the clock of the last callback.
    3.11: the bits above those of a request's bytes and of the interleaving choose among several channels.
    """
    memory = config["memory_system"]
    channels = [Channel(controller, i) for i, controller in enumerate(memory["controllers"])]
    unit = channels[0].bytes << memory["channel_mapper"].get("interleave_bits", 0)
    accept, depart = [-1] * len(requests), [-1] * len(requests)
    sent = returned = clock = last = 0
    while returned < len(requests) or clock < last + extra:
        if sent < len(requests):
            block, offset = divmod(requests[sent][0], unit)
            if channels[block % len(channels)].send(sent, requests[sent][1], block // len(channels) * unit + offset):
                accept[sent] = clock
                sent += 1
        clock += 1
        for channel in channels:
            channel.tick()
            for index, at in channel.done:
                depart[index], last = at, clock
            returned += len(channel.done)
            channel.done.clear()
        if returned < len(requests) and clock - last > PATIENCE:
            raise RuntimeError(f"no request has called back since clock {last}")
    return accept, depart, channels, last
