"""AttAcc as its words describe it, in plain Python: the requests as the released generator lists them, and the
controller of a channel a clock at a time. Slow and simple, to compare with.

Nothing here reads a table of pimloom: geometry, commands, rules and timings are typed again. Banks are numbered through
pseudo channel, stack ID, bank group and bank; two, two, four and four of them.
"""

from functools import cache, partial
from math import ceil

T = {
    "BL": 2, "RCD": 19, "RP": 19, "RAS": 45, "RC": 64, "RTP": 8, "CCDS": 2, "CCDL": 4, "CCDAB": 6, "CCDSB": 6,
    "RFC": 456, "REFI": 5070,
}  # fmt: skip
KINDS = {"bank": "AB", "bg": "SB", "buffer": "PB"}
PREVIOUS = {"AB": "PREA", "SB": "PRESB", "PB": "PREPB"}
MOVES = ("WRGB", "MVSB", "MVGB", "SFM")
ACTS, MACS, PRES = ("ACTAB", "ACTSB", "ACTPB"), ("MACAB", "MACSB", "MACPB"), ("PREA", "PRESB", "PREPB")


# Requests, by byte addresses

COLUMN, ROW, BANK, GROUP, SID, CHANNEL = 1 << 5, 1 << 10, 1 << 24, 1 << 26, 1 << 28, 1 << 30


def place(address: int) -> tuple[int, int]:
    """Bank of the channel, and row."""
    return (address % CHANNEL) // BANK, (address % BANK) // ROW


def mac_address(placement: str, index: int) -> int:
    if placement == "bank":
        return index * COLUMN
    if placement == "bg":
        row, column = index // 32, index % 32
        return row % 4 * BANK + row // 4 * ROW + column * COLUMN
    group, rest = index % 8, index // 8
    return group * GROUP + rest % 4 * BANK + rest // 4 % 32 * COLUMN + rest // 128 * ROW


def head_lists(placement: str, i: int, channels: int, context: int, width: int, size: int) -> dict[str, list]:
    """What one iteration of heads asks for: lists of (kind, channel, address), in each list channels in turn."""
    lanes = 32 // size
    units = {"bank": 16, "bg": 16, "buffer": 2}[placement]
    groups = ceil(width / (lanes * (4 if placement == "bank" else 1)))
    positions = ceil(context / units)
    key = i * ceil(4096 * width / 64)
    value = key + (1 << 23)
    units_of = {
        "query": [b * BANK for b in range(4 if placement == "bank" else 1) for _ in range(groups)],
        "scores": [0] if placement == "buffer" else [g * GROUP + r * SID for g in range(4) for r in range(2)],
        "early": [0] if placement == "buffer" else [g * GROUP + r * SID for r in range(2) for g in range(4)],
        "context": {
            "bank": [b * BANK + r * SID for b in range(4) for r in range(2)], "bg": [0, SID], "buffer": [0],
        }[placement],
    }  # fmt: skip

    def each(kind, addresses):
        return [(kind, c, a) for a in addresses for c in range(channels)]

    found = {"query": each("WRGB", units_of["query"]), "softmax": each("SFM", [0])}
    entries = ceil(context / (units * lanes))
    found["probabilities"] = each("MVGB", [u for u in units_of["early"] for _ in range(entries)])
    scores = [range(p * groups, (p + 1) * groups) for p in range(positions)]
    found["scores"] = []
    for first in range(0, positions, 16):
        indices = [n for p in scores[first : first + 16] for n in p]
        found["scores"].append(each("MAC", [key + mac_address(placement, n) for n in indices]))
    found["scores moved"] = [each("MVSB", units_of["scores"])] * len(found["scores"])
    found["context"] = [
        each("MAC", [value + mac_address(placement, g * positions + p) for p in range(positions)])
        for g in range(groups)
    ]
    found["context moved"] = [each("MVSB", units_of["context"])] * groups
    return found


def requests(placement: str, heads: int, context: int, width: int, size: int) -> list[list[tuple[str, int, int]]]:
    """The released requests of each of 16 channels: (kind, bank, row)."""
    trace: list[tuple[str, int, int]] = []
    barrier = [("BARRIER", c, 0) for c in range(16)]
    iterations = [min(16, heads - done) for done in range(0, heads, 16)]
    lists = [head_lists(placement, i, v, context, width, size) for i, v in enumerate(iterations)]

    def chunks(macs, moved, beside):
        for k in range(len(macs) + 1):
            if k < len(macs):
                trace.extend(macs[k])
            if k > 0:
                trace.extend(moved[k - 1])
            trace.extend(beside[k] if k < len(beside) else [])
            if k < len(macs):
                trace.extend(barrier)

    def dealt(entries, pieces):
        each = len(entries) // pieces
        return [entries[k * each : (k + 1) * each] for k in range(pieces)]

    def behind_softmax(head, pieces):
        half = pieces // 2
        beside = [[] for _ in range(half)] + dealt(head["probabilities"], pieces - half)
        return [head["softmax"] + beside[0], *beside[1:]]

    for i in range(0, len(lists) - 1, 2):
        one, two = lists[i], lists[i + 1]
        trace.extend(one["query"])
        if i == 0:
            trace.extend(one["scores"][0][: iterations[0]])
        trace.extend(barrier)
        chunks(one["scores"], one["scores moved"], dealt(two["query"], len(one["scores"])))
        chunks(two["scores"], two["scores moved"], behind_softmax(one, len(two["scores"])))
        chunks(one["context"], one["context moved"], behind_softmax(two, len(one["context"])))
        chunks(one["context"], one["context moved"], [])
    if len(lists) % 2:
        last = lists[-1]
        trace.extend(last["query"] + barrier)
        chunks(last["scores"], last["scores moved"], [])
        trace.extend(last["softmax"] + last["probabilities"] + barrier)
        chunks(last["context"], last["context moved"], [])
    found: list[list[tuple[str, int, int]]] = [[] for _ in range(16)]
    for kind, channel, address in trace:
        found[channel].append((kind, *place(address)))
    return found


# The controller


def wait(a: str, at: int, b: str, to: int, t: dict[str, int]) -> int:
    """Clocks that command b of bank `to` waits for a of bank `at`."""
    found = [0]
    data, row = ("WRGB", "MVSB", "MVGB", "SFM"), (*ACTS, *PRES, "REFab")
    if a in ACTS and b in row:
        found.append(2)
    for kind, pre in PREVIOUS.items():
        if kind == "AB" or at == to:
            act, mac = f"ACT{kind}", f"MAC{kind}"
            found += [t[w] for x, y, w in (
                (act, act, "RC"), (act, mac, "RCD"), (act, pre, "RAS"), (mac, pre, "RTP"), (pre, act, "RP"),
            ) if (a, b) == (x, y)]  # fmt: skip
    if (a, b) == ("MACAB", "MACAB"):
        found.append(t["CCDAB"])
    if (a, b) == ("MACSB", "MACSB"):
        found.append(t["CCDSB"])
    for group in (data, ("MACPB",)):
        if a in group and b in group:
            shared = at // 32 == to // 32 or group == ("MACPB",)
            found.append(t["BL"] if shared else 0)
            found.append(t["CCDS"] if at // 16 == to // 16 else 0)
            found.append(t["CCDL"] if at // 4 == to // 4 else 0)
    if b == "PREA":
        found += [t["RAS"] if a in ACTS else t["RTP"] if a in MACS else 0]
    if a == "PREA" and b in ACTS:
        found.append(t["RP"])
    if b == "REFab":
        found += [t["RP"] if a in PRES else t["RC"] if a in ACTS else 0]
    if a == "REFab":
        found.append(t["RFC"] if b in ACTS or (b == "REFab" and at == to) else 0)
    return max(found)


class Controller:
    """One channel. dual: "always", "beside" a command that issued, or "one" command a clock."""

    def __init__(self, placement: str, asked: list[tuple[str, int, int]], t: dict[str, int], dual: str, refresh: bool):
        self.kind, self.t, self.dual = KINDS[placement], t, dual
        self.wait = cache(partial(wait, t=t))  # asked for in every clock
        self.asked, self.now = list(asked), 0
        self.queue: list[tuple[str, int, int]] = []
        self.last: dict[tuple[str, int], int] = {}
        self.rows: dict[int, int] = {}
        self.due = t["REFI"] if refresh else None
        self.to_refresh: list[int] = []
        self.log: list[tuple[int, str, int, int]] = []
        self.known: dict[tuple[str, int], int] = {}  # when a command may issue, until another one does

    def run(self, limit: int = 200_000) -> int:
        end = 0
        while True:
            while len(self.queue) < 33 and self.asked:
                self.queue.append(self.asked.pop(0))
            if not self.queue:
                return end
            if self.now == self.due:
                self.to_refresh += [0, 16, 32, 48]
                self.due += self.t["REFI"]
            if self.tick():
                end = self.now + 1
            self.now += 1
            if self.now > limit:
                raise TimeoutError

    def tick(self) -> bool:
        if self.to_refresh:
            command = ("PREA", 0, -1) if self.rows else ("REFab", self.to_refresh[0], -1)
            kind: str | None = "row"
            issued = self.ready(*command[:2])
            if issued:
                self.issue(*command)
                if command[0] == "REFab":
                    self.to_refresh.pop(0)
        else:
            kind = self.serve(None)
            issued = kind is not None
        if kind is not None and (self.dual == "always" or (self.dual == "beside" and issued)):
            issued = self.serve(kind) is not None or issued
        return issued

    def serve(self, other_than: str | None) -> str | None:
        while self.queue and self.queue[0][0] == "BARRIER":
            self.queue.pop(0)
        next_of = [self.next_command(*r) for r in self.queue]
        hits = {r[1] for r, c in zip(self.queue, next_of, strict=True) if c in MACS}
        behind = False
        for i, (request, command) in enumerate(zip(self.queue, next_of, strict=True)):
            behind |= command == "BARRIER"
            is_row = command[:3] in ("ACT", "PRE")
            if command == "BARRIER" or (behind and not is_row):
                continue
            if i > 0 and command not in MACS and request[1] in hits:
                continue
            if not self.ready(command, request[1]):
                continue
            if (kind := "row" if is_row else "column") == other_than:
                return None
            self.issue(command, *request[1:])
            if not is_row:
                self.queue.pop(i)
            return kind
        return None

    def next_command(self, kind: str, bank: int, row: int) -> str:
        if kind != "MAC":
            return kind
        if bank not in self.rows:
            return f"ACT{self.kind}"
        return f"MAC{self.kind}" if self.rows[bank] == row else PREVIOUS[self.kind]

    def ready(self, command: str, bank: int) -> bool:
        if (command, bank) not in self.known:
            waits = (at + self.wait(a, b, command, bank) for (a, b), at in self.last.items())
            self.known[command, bank] = max(waits, default=0)
        return self.now >= self.known[command, bank]

    def issue(self, command: str, bank: int, row: int) -> None:
        self.last[command, bank] = self.now
        self.known.clear()
        self.log.append((self.now, command, bank, row))
        if command == "ACTAB":
            self.rows = dict.fromkeys(range(64), row)
        elif command == "PREA":
            self.rows = {}
        elif command in ACTS:
            self.rows[bank] = row
        elif command in PRES:
            del self.rows[bank]
