"""An AiM system as its words describe it, a clock at a time, in plain Python: slow and simple, to compare with.

Nothing here reads a table of pimloom: commands, rules and timings are typed again from the published simulator's
description. `run` gives the clocks until EOC is answered, and the channels with their commands.
"""

from collections import Counter, deque
from dataclasses import dataclass
from functools import cache
from typing import Any

BANKS, GROUP = 16, 4
AF_ROW = 1 << 29
T = {
    "BL": 2,
    "CL": 50,
    "RCDRD": 36,
    "RCDMAC": 56,
    "RCDEWMUL": 25,
    "RCDAF": 86,
    "RCDCP": 66,
    "RCDWR": 28,
    "RCDWRCP": 48,
    "RP": 32,
    "RAS": 54,
    "RC": 89,
    "WR": 33,
    "RTP": 12,
    "CWL": 6,
    "CCDS": 2,
    "CCDL": 2,
    "RRDS": 5,
    "RRDL": 6,
    "WTRS": 9,
    "WTRL": 11,
    "MOD": 32,
    "CLREG": 0,
    "CWLREG": 1,
    "CWLGB": 1,
    "WPRE": 1,
    "REFI": 7800,
    "RFC": 210,
}
ALL = ("ACT16", "PREA", "MAC16", "AF16", "EWMUL16", "WRA16", "WRGB", "RDMAC16", "RDAF16", "WRMAC16", "TMOD", "REFab")
FOUR = ("ACT4", "PRE4")
ONE = ("ACT", "PRE", "RD", "WR", "RDA", "WRA", "MAC", "RDCP", "WRCP")
COMMANDS = ALL + FOUR + ONE

OUT = {"RD", "RDA", "RDMAC16", "RDAF16"}
IN = {"WR", "WRA", "WRA16", "WRGB", "WRMAC16"}
SLOW_R, SLOW_ALL = {"RD", "RDA", "MAC", "RDCP"}, {"RDMAC16", "RDAF16", "MAC16", "EWMUL16"}
SLOW_W, SLOW_ALL_W = {"WR", "WRA", "WRCP"}, {"WRA16", "WRMAC16", "EWMUL16"}
ACTS = {"ACT", "ACT4", "ACT16"}


def wait(level, a, b, t):
    """Clocks that b waits for a at the same channel, bank group or bank; 0: no rule."""
    found = [0]

    def rule(after, before, clocks):
        if a in after and b in before:
            found.append(clocks)

    cwl = {"WR": t["CWL"], "WRA": t["CWL"], "WRA16": t["CWL"], "WRGB": t["CWLGB"], "WRMAC16": t["CWLREG"]}
    write_end = t["CWL"] + t["BL"] + t["WR"]
    if level == "channel":
        rule(OUT, OUT, t["BL"])
        rule(IN, IN, t["BL"])
        rule(OUT | {"MAC", "MAC16", "RDCP"}, OUT | {"MAC", "MAC16", "RDCP"}, t["CCDS"])
        rule(IN | {"WRCP"}, IN | {"WRCP"}, t["CCDS"])
        rule(SLOW_R, SLOW_ALL, t["CCDL"])
        rule(SLOW_ALL, SLOW_R | SLOW_ALL, t["CCDL"])
        rule(SLOW_W, SLOW_ALL_W, t["CCDL"])
        rule(SLOW_ALL_W, SLOW_W | SLOW_ALL_W, t["CCDL"])
        if b in cwl:
            rule({"RD", "RDA"}, IN, t["CL"] + t["BL"] + 3 - cwl[b] + t["WPRE"])
            rule({"RDMAC16", "RDAF16"}, IN, t["CLREG"] + t["BL"] + 3 - cwl[b] + t["WPRE"])
        if a in cwl:
            rule(IN, OUT, cwl[a] + t["BL"] + t["WTRS"])
            rule({"WR", "WRA"}, {"RDMAC16", "RDAF16"}, cwl[a] + t["BL"] + t["WTRL"])
            rule({"WRA16", "WRMAC16"}, OUT, cwl[a] + t["BL"] + t["WTRL"])
        rule({"RD", "RDCP", "MAC", "MAC16", "AF16", "EWMUL16"}, {"PREA"}, t["RTP"])
        rule({"MAC16", "AF16", "EWMUL16"}, {"PRE", "PRE4"}, t["RTP"])
        rule({"WR", "WRCP"}, {"PREA"}, write_end)
        rule({"EWMUL16"}, {"PRE", "PRE4", "PREA"}, t["CWL"] + t["WR"])
        rule({"ACT", "ACT4"}, {"ACT", "ACT4"}, t["RRDS"])
        rule({"ACT16"}, ACTS, max(t["RRDL"], t["RC"]))
        rule({"ACT", "ACT4"}, {"ACT16"}, max(t["RRDL"], t["RC"]))
        rule(ACTS, {"PREA"}, t["RAS"])
        rule({"ACT16"}, {"PRE", "PRE4"}, t["RAS"])
        rule({"PRE", "PRE4", "PREA"}, {"ACT16"}, t["RP"])
        rule({"PREA"}, ACTS | {"PRE", "PRE4", "PREA"}, t["RP"])
        rule({"PRE", "PRE4"}, {"PREA"}, t["RP"])
        rule({"PRE4"}, {"PRE", "PRE4"}, t["RP"])
        rule({"PRE"}, {"PRE4"}, t["RP"])
        for one, clocks in (("MAC16", "RCDMAC"), ("AF16", "RCDAF"), ("EWMUL16", "RCDEWMUL"), ("WRA16", "RCDWR")):
            rule(ACTS, {one}, t[clocks])
        for some, clocks in ROWS:
            rule({"ACT16"}, some, t[clocks])
        rule({"RDA"}, {"ACT16"}, t["RTP"] + t["RP"])
        rule({"WRA"}, {"ACT16"}, write_end + t["RP"])
        rule({"WRA16"}, ACTS, write_end + t["RP"])
        rule({"TMOD"}, set(COMMANDS), t["MOD"])
        rule(ACTS, {"REFab"}, t["RC"])
        rule({"PRE", "PRE4", "PREA"}, {"REFab"}, t["RP"])
        rule({"WRA16"}, {"REFab"}, write_end + t["RP"])
        rule({"REFab"}, set(COMMANDS), t["RFC"])
    if level == "group":
        rule({"RD", "RDA", "MAC", "RDCP"}, {"RD", "RDA", "MAC", "RDCP"}, t["CCDL"])
        rule({"WR", "WRA", "WRCP"}, {"WR", "WRA", "WRCP"}, t["CCDL"])
        rule({"WR", "WRA"}, {"RD", "RDA"}, t["CWL"] + t["BL"] + t["WTRL"])
        rule({"ACT", "ACT4"}, {"ACT", "ACT4"}, t["RRDL"])
        for some, clocks in ROWS:
            rule({"ACT4"}, some, t[clocks])
    if level == "bank":
        for some, clocks in ROWS:
            rule({"ACT"}, some, t[clocks])
        rule({"RDA"}, ACTS, t["RTP"] + t["RP"])
        rule({"WRA"}, ACTS, write_end + t["RP"])
        rule({"RD", "RDCP", "MAC"}, {"PRE"}, t["RTP"])
        rule({"WR", "WRCP"}, {"PRE"}, write_end)
        rule({"ACT"}, {"ACT"}, t["RC"])
        rule({"ACT"}, {"PRE"}, t["RAS"])
        rule({"PRE"}, {"ACT"}, t["RP"])
    return max(found)


ROWS = (
    ({"MAC"}, "RCDMAC"), ({"RDCP"}, "RCDCP"), ({"RD", "RDA"}, "RCDRD"), ({"WRCP"}, "RCDWRCP"), ({"WR", "WRA"}, "RCDWR"),
)  # fmt: skip


@cache
def waiting(timings, level, a):
    """What waits for a at a level, and how long."""
    t = dict(timings)
    return {b: clocks for b in COMMANDS if (clocks := wait(level, a, b, t))}


@dataclass
class Request:
    command: str
    bank: int = -1
    row: int = -1
    mode: bool = False  # needs register mode
    blocking: bool = False
    arrive: int = 0


LATENCY = {
    "WR": ("CWL", "BL"), "WRGB": ("CWLGB", "BL"), "WRMAC16": ("CWLREG", "BL"), "RDMAC16": ("CLREG", "BL"),
    "RDAF16": ("CLREG", "BL"), "RD": ("CL", "BL"), "WRA16": ("CWL", "BL", "RP"),
}  # fmt: skip
READERS = {"RD", "RDMAC16", "RDAF16"}
ALL_ROW = {"MAC16", "EWMUL16", "WRA16", "AF16"}
ONE_ROW = {"RD", "WR", "MAC", "RDCP", "WRCP"}
QUEUE = 33


class Channel:
    def __init__(self, t, refresh=False):
        self.t = t
        self.owed, self.next_due = 0, t["REFI"] if refresh else None
        self.open = [None] * BANKS
        channel: dict[str, int] = {}  # when each may come
        groups = [dict[str, int]() for _ in range(BANKS // GROUP)]
        self.nodes = [
            (("channel", channel), ("group", groups[b // GROUP]), ("bank", dict[str, int]())) for b in range(BANKS)
        ]
        self.aim: deque[Request] = deque()
        self.reads: list[Request] = []
        self.writes: list[Request] = []
        self.active: list[Request] = []
        self.pending_reads: deque[tuple[int, Request]] = deque()
        self.pending_writes: list[int] = []
        self.write_mode = self.register_mode = False
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[int, str, int, int]] = []
        self.timings = tuple(t.items())

    def accepts(self, request):
        if request.command in ("RD", "WR"):
            return not self.aim and len(self.reads if request.command == "RD" else self.writes) < QUEUE
        return not self.reads and not self.writes and len(self.aim) < QUEUE

    def take(self, request, now):
        request.arrive = now
        if request.command == "RD" and self.writes:
            self.pending_reads.append((now + 1, request))
        else:
            {"RD": self.reads, "WR": self.writes}.get(request.command, self.aim).append(request)

    def needs(self, r):
        """The next command that the request needs."""
        if r.command in ALL_ROW:
            if self.open.count(None) + self.open.count(r.row) < BANKS:
                return "PREA"
            return "ACT16" if None in self.open else r.command
        if r.command in ONE_ROW:
            row = self.open[r.bank]
            return "ACT" if row is None else r.command if row == r.row else "PRE"
        return r.command

    def ready(self, command, bank, now):
        for _, free in self.nodes[bank][:1] if command in ALL else self.nodes[bank]:
            if now < free.get(command, 0):
                return False
        return True

    def issue(self, command, bank, row, now):
        self.counts[command] += 1
        self.log.append((now, command, bank, row))
        for node, free in self.nodes[bank][:1] if command in ALL else self.nodes[bank]:
            for later, clocks in waiting(self.timings, node, command).items():
                free[later] = max(free.get(later, 0), now + clocks)
        if command == "ACT16":
            self.open = [row] * BANKS
        elif command in ("PREA", "WRA16"):
            self.open = [None] * BANKS
        elif command == "REFab":
            self.owed -= 1
        elif command == "ACT":
            self.open[bank] = row
        elif command == "PRE":
            self.open[bank] = None

    def best(self, queue, now):
        """First ready, then first come; and whether it is ready."""
        waits, _, i = min([(not self.ready(self.needs(r), r.bank, now), r.arrive, i) for i, r in enumerate(queue)])
        return queue[i], not waits

    def tick(self, now, answered):
        if self.pending_reads and self.pending_reads[0][0] <= now:
            _, first = self.pending_reads[0]
            if first.command not in ("EOC", "SYNC") or not self.pending_writes:
                self.pending_reads.popleft()
                if first.blocking:
                    answered()
        if self.pending_writes:
            self.pending_writes = [end for end in self.pending_writes if end > now]
        if now == self.next_due:
            self.owed, self.next_due = self.owed + 1, now + self.t["REFI"]
        queue: Any = None
        if self.active:
            r, ready = self.best(self.active, now)
            if ready:
                queue = self.active
        if queue is None and self.owed:
            if not self.active:
                self.refresh(now)
            return
        if queue is None:
            if self.aim:
                r = self.aim[0]
                if r.command in ("EOC", "SYNC"):
                    self.aim.popleft()
                    self.pending_reads.append((now, r))
                    return
                if self.ready(self.needs(r), r.bank, now):
                    queue = self.aim
            else:
                self.choose_mode()
                waiting = self.writes if self.write_mode else self.reads
                if waiting:
                    r, ready = self.best(waiting, now)
                    if ready:
                        queue = waiting
        if queue is None:
            return
        command = self.needs(r)
        if command in ("PRE", "PREA") and any(a.bank == r.bank for a in self.active):
            return
        if r.mode != self.register_mode:
            command, self.register_mode = "TMOD", not self.register_mode
        self.issue(command, r.bank, r.row, now)
        if command == r.command:
            queue.remove(r)
            end = now + sum(self.t[n] for n in LATENCY[command]) if command in LATENCY else now + 1
            if command in READERS:
                self.pending_reads.append((end, r))
            else:
                self.pending_writes.append(end)
        elif command == "ACT" and r.command in ("RD", "WR"):
            queue.remove(r)
            self.active.append(r)

    def refresh(self, now):
        """All banks are closed, in array mode, then refreshed."""
        command = "REFab" if self.open == [None] * BANKS else "PREA"
        if self.ready(command, 0, now):
            if self.register_mode:
                command, self.register_mode = "TMOD", False
            self.issue(command, -1, -1, now)
            if command == "REFab":
                self.pending_writes.append(now + 1)

    def choose_mode(self):
        if not self.write_mode:
            self.write_mode = len(self.writes) > 0.8 * 32 or not self.reads
        else:
            self.write_mode = not (len(self.writes) < 0.2 * 32 and self.reads)


LONGEST = 40_000
STILL = 2000  # clocks without a command after which nothing will come any more
MODE = {"WR_GB": "WRGB", "WR_BIAS": "WRMAC16", "RD_MAC": "RDMAC16", "RD_AF": "RDAF16"}
ROWED = {"MAC_ABK": "MAC16", "EWMUL": "EWMUL16", "WR_ABK": "WRA16"}
BANKED = {"MAC_SBK": "MAC", "COPY_BKGB": "RDCP", "COPY_GBBK": "WRCP", "WR_SBK": "WR", "RD_SBK": "RD"}
SIZED = ("WR_GB", "MAC_ABK", "MAC_SBK", "EWMUL", "COPY_BKGB", "COPY_GBBK")


def program_lines(lines):
    """The words of each instruction."""
    return [line.partition("#")[0].replace(",", " ").split() for line in lines if line.partition("#")[0].strip()]


def channels_of(mask, n):
    return [n - 1 - bit for bit in range(n) if mask >> bit & 1]


def run(lines, timings=None, channels=32, refresh=False):
    t = T | (timings or {})
    every = [Channel(t, refresh) for _ in range(channels)]
    left = deque(program_lines(lines))
    unsent: list[deque[Request]] = [deque() for _ in range(channels)]
    stalled, afm, now, last = 0, 0, 0, 0
    end = False

    def answered():
        nonlocal stalled, end
        stalled -= 1
        if not stalled:
            words = left.popleft()
            end = words[1].removeprefix("ISR_") == "EOC" if words[0] == "AiM" else False

    while not end:
        now += 1
        if now > last + STILL:
            last = max((c.log[-1][0] for c in every if c.log), default=0)
            if now > last + STILL:
                return None, every
        if now > LONGEST:
            raise TimeoutError
        had = any(unsent)
        for c, queue in enumerate(unsent):
            while queue and every[c].accepts(queue[0]):
                every[c].take(queue.popleft(), now - 1)
        if not stalled:
            if had:
                if not any(unsent):
                    left.popleft()
            elif left:
                words = left[0]
                found = []
                if words[0] == "AiM":
                    name, args = words[1].removeprefix("ISR_"), [int(w, 0) for w in words[2:]]
                    if name in ("SYNC", "EOC"):
                        found = [(c, Request(name, blocking=True)) for c in range(channels)]
                    elif name == "EWADD":
                        pass
                    elif name == "AF":
                        found = [(c, Request("AF16", row=AF_ROW + afm)) for c in channels_of(args[0], channels)]
                    else:
                        times = args.pop(0) if name in SIZED else 1
                        if name in ("WR_SBK", "RD_SBK", "WR_ABK", "WR_GB", "WR_BIAS", "RD_MAC", "RD_AF"):
                            args.pop(0)
                        mask = args.pop(0)
                        bank = args.pop(0) if name in BANKED else -1
                        row = args.pop(0) if args else -1
                        command = {**MODE, **ROWED, **BANKED}[name]
                        found = [
                            (c, Request(command, bank, row, name in MODE, name in ("RD_MAC", "RD_AF")))
                            for _ in range(times)
                            for c in channels_of(mask, channels)
                        ]
                elif words[1] == "MEM":
                    c, bank, row = (int(w, 0) for w in words[2:])
                    found = [(c, Request("WR" if words[0] == "W" else "RD", bank, row))]
                elif words[1] == "CFR" and int(words[2]) == 2 and words[0] == "W":
                    afm = int(words[3])
                for c, r in found:
                    stalled += r.blocking
                    if not unsent[c] and every[c].accepts(r):
                        every[c].take(r, now - 1)
                    else:
                        unsent[c].append(r)
                if not stalled and not any(unsent):
                    left.popleft()
        for channel in every:
            channel.tick(now, answered)
    return now, every
