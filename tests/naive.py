"""An oracle that asks every command every clock: slow, plain, and written from the English of the standards.

It shares nothing with the engine and its tables. For each command a function says what the command waits for;
`simulate` then walks clock by clock. Machines: `gddr6`, `gddr6+aim`, `hbm2`, `ddr4` (of ranks).
"""

from collections.abc import Iterator
from itertools import count, product
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

NEVER, FAR = -(10**9), 10**9
READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
ON_ONE_BANK = ("ACT", "PRE", *READS, *WRITES)
OPENING = ("ACT", "ACTab")
ROW_BUS = ("ACT", "PRE", "PREab", "REFab")
POSTPONED = 8

Place = tuple[int, ...]  # (), (pch,), (pch, rank), (pch, rank, bg) or (pch, rank, bg, bank)


class Order(NamedTuple):
    """One row of a command stream: `count` commands, none before clock `release`."""

    name: str
    pch: int = 0
    rank: int = 0
    bg: int = 0
    bank: int = 0
    row: int = 0
    col: int = 0
    count: int = 1  # type: ignore[assignment]  # hides tuple.count
    release: int = 0


class Outcome(NamedTuple):
    """Clocks of the first and last command of every stream row, (clock, node) of every REFab, or the error.

    error: ("stuck" or "starved", first unfinished stream, its row). idle: every command is over and no rule
    waits, nor will for what was. ready: per refresh node, when a REFab would be legal, FAR while a row is open.
    """

    first: list[list[int]]
    last: list[list[int]]
    refreshes: list[tuple[int, int]]
    error: tuple[str, int, int] | None
    idle: int
    ready: list[int]


class Device:
    """The banks of one channel and the memory of what was issued; a channel of GDDR6 is its only pseudo channel.

    home: coordinates of the banks that share data path, activation window and refresh: a pseudo channel's, or a rank's.
    """

    names: tuple[str, ...] = (*ON_ONE_BANK, "PREab", "REFab")
    home = 1
    opening: ClassVar[tuple[str, ...]] = OPENING
    on_a_row: ClassVar[tuple[str, ...]] = (*READS, *WRITES, "MACab", "WRAab")

    def __init__(self, size: tuple[int, int, int, int], clocks: dict[str, int]):
        self.k = SimpleNamespace(**clocks)
        self.homes = list(product(*map(range, size[: self.home])))
        self.ranks = range(size[1])
        self.open: dict[Place, int | None] = dict.fromkeys(product(*map(range, size)))
        self.past: dict[tuple[str, Place], list[int]] = {}
        self.known: dict[tuple[object, ...], int] = {}  # answers that hold until the next command
        self.data_in = self.k.nCWL + self.k.nBL  # from WR to the end of its data
        self.recovery = self.data_in + self.k.tWR  # from WR to the PRE of its bank

    def after(self, names: str | tuple[str, ...], place: Place, wait: int, nth: int = 1) -> int:
        """`wait` clocks after the `nth` latest of these commands at this place; no wait at all is no rule."""
        latest = NEVER
        for name in (names,) if isinstance(names, str) else names:
            clocks = self.past.get((name, place), ())
            if len(clocks) >= nth:
                latest = max(latest, clocks[-nth])
        return latest + wait

    def place(self, order: Order) -> Place:
        """The bank the command acts on, or its home where it acts on all banks."""
        whole = (order.pch, order.rank, order.bg, order.bank)
        return whole if order.name in ON_ONE_BANK else whole[: self.home]

    def banks(self, place: Place) -> list[Place]:
        return [bank for bank in self.open if bank[: len(place)] == place]

    def issue(self, name: str, place: Place, row: int, clock: int) -> None:
        """Remember the command and move the rows as it does."""
        self.known.clear()
        for depth in range(len(place) + 1):
            self.past.setdefault((name, place[:depth]), []).append(clock)
        if name in (*self.opening, "PRE", "PREab", "RDA", "WRA", "WRAab"):
            for bank in self.banks(place):
                self.open[bank] = row if name in self.opening else None

    def fits(self, name: str, place: Place, row: int) -> bool:
        """Whether the rows are as the command needs them."""
        rows = {self.open[bank] for bank in self.banks(place)}
        if name in (*self.opening, "REFab"):
            return rows == {None}
        return rows == {row} if name in self.on_a_row else True

    def ready(self, name: str, place: Place) -> int:
        """First clock in which no timing rule binds the command."""
        return max(self.waits(name, place), default=NEVER)

    def waits(self, name: str, place: Place) -> Iterator[int]:
        home, group, k = place[: self.home], place[:3], self.k
        yield self.after("REFab", home, k.tRFC)
        match name:
            case "RD" | "RDA":  # its row, the column path, the data bus free and turned round
                yield self.after("ACT", place, k.tRCDRD)
                yield self.after(READS, home, max(k.nBL, k.tCCD_S))
                yield self.after(READS, group, k.tCCD_L)
                yield self.after(WRITES, home, self.data_in + k.tWTR_S)
                yield self.after(WRITES, group, self.data_in + k.tWTR_L)
            case "WR" | "WRA":
                yield self.after("ACT", place, k.tRCDWR)
                yield self.after(WRITES, home, max(k.nBL, k.tCCD_S))
                yield self.after(WRITES, group, k.tCCD_L)
                yield self.after(READS, home, k.nRTW)
            case "ACT":  # the bank precharged, and the current its neighbours draw
                yield self.after("ACT", place, k.tRC)
                yield self.after("ACT", group, k.tRRD_L)
                yield self.after("ACT", home, k.tRRD_S)
                yield self.after("ACT", home, k.tFAW, nth=4)
                yield from self.closed(place)
                yield self.after("PREab", home, k.tRP)
            case "PRE" | "PREab":  # the row restored, reads out, writes in the cells; for PREab of every bank
                yield self.after("ACT", place, k.tRAS)
                yield self.after("RD", place, k.tRTP)
                yield self.after("WR", place, self.recovery)
            case "REFab":  # every bank idle
                yield self.after("ACT", home, k.tRC)
                yield from self.closed(home)
                yield self.after("PREab", home, k.tRP)

    def closed(self, place: Place) -> Iterator[int]:
        """Banks closed one at a time are precharged."""
        yield self.after("PRE", place, self.k.tRP)
        yield self.after("RDA", place, self.k.tRTP + self.k.tRP)
        yield self.after("WRA", place, self.recovery + self.k.tRP)

    def bus(self, name: str) -> str:
        return "the one command bus"

    def over(self, name: str) -> int:
        """Clocks from issue to the end of the effect."""
        k = self.k
        write = {"WR": self.recovery, "WRA": self.recovery + k.tRP}
        own = {"ACT": k.tRCDRD, "PRE": k.tRP, "PREab": k.tRP, "REFab": k.tRFC, **write}
        return own[name] if name in own else k.nCL + k.nBL

    def legal(self, order: Order, clock: int) -> bool:
        """Whether rows and rules let the command issue now."""
        return bool(self.ask("fits", order)) and self.ask("ready", order) <= clock

    def ask(self, question: str, order: Order) -> int:
        """`fits` or `ready` of an order, remembered until the next command."""
        key = (question, order)
        if key not in self.known:
            more = (order.row,) if question == "fits" else ()
            self.known[key] = getattr(self, question)(order.name, self.place(order), *more)
        return self.known[key]


class Gddr6(Device):
    """One PRE or PREab needs tPPD to the next."""

    def waits(self, name: str, place: Place) -> Iterator[int]:
        yield from super().waits(name, place)
        if name in ("PRE", "PREab"):
            yield self.after(("PRE", "PREab"), place[:1], self.k.tPPD)


class Hbm2(Device):
    """Row and column commands have a bus each; ACT holds the row bus for the clock before its own, too."""

    def waits(self, name: str, place: Place) -> Iterator[int]:
        yield from super().waits(name, place)
        if name == "ACT":
            yield self.after(ROW_BUS, (), 2)

    def bus(self, name: str) -> str:
        return "row" if name in ROW_BUS else "column"


class Ddr4(Device):
    """The ranks of a channel share its data pins: bursts never meet there, and the pins pause where the rank changes.

    A read has its data on the pins nCL after RD, a write nCWL after WR, each for nBL; the pause is nRTRS.
    """

    home = 2

    def waits(self, name: str, place: Place) -> Iterator[int]:
        yield from super().waits(name, place)
        pch, own = place[:2]
        pause = self.k.nBL + self.k.nRTRS
        for other in ((pch, rank) for rank in self.ranks if rank != own):
            if name in READS:
                yield self.after(READS, other, pause)
                yield self.after(WRITES, other, self.k.nCWL + pause - self.k.nCL)
            if name in WRITES:
                yield self.after(WRITES, other, pause)
                yield self.after(READS, other, self.k.nCL + pause - self.k.nCWL)


class Gddr6Aim(Gddr6):
    """All-bank PIM commands: each bank multiplies its open row with the global buffer into its result register."""

    names = (*Gddr6.names, "ACTab", "MACab", "WRAab", "WRGB", "RDMAC", "WRMAC", "TMOD")

    def waits(self, name: str, place: Place) -> Iterator[int]:
        yield from super().waits(name, place)
        k, home = self.k, place[:1]
        yield self.after("TMOD", home, k.nMODCH)
        match name:
            case "RD" | "RDA":
                yield self.after("ACTab", home, k.tRCDRD)
                yield self.after("MACab", home, k.tCCD_L)
            case "WR" | "WRA":
                yield self.after("ACTab", home, k.tRCDWR)
            case "ACT" | "ACTab" | "REFab":  # all banks precharged
                yield self.after("ACTab", home, k.tRC)
                yield self.after("WRAab", home, self.recovery + k.tRP)
            case "PRE" | "PREab":
                yield self.after("ACTab", home, k.tRAS)
                yield self.after("MACab", home, k.tRTP)
            case "MACab":
                yield self.after(OPENING, home, k.tRCDMAC)
                yield self.after((*READS, "MACab"), home, k.tCCD_L)
                yield self.after("WRAab", home, self.data_in + k.tWTR_L)
                yield self.after("RDMAC", home, k.nRESMAC)
            case "WRAab":
                yield self.after(OPENING, home, k.tRCDWR)
            case "RDMAC":
                yield self.after("MACab", home, k.nMACRES)
        if name == "ACTab":
            yield self.after("ACT", home, k.tRC)
            yield from self.closed(home)
            yield self.after("PREab", home, k.tRP)
            yield self.after("WRGB", home, k.nGBACT)
        if name in ("WRGB", "RDMAC"):
            yield self.after("PREab", home, k.nPREIO)
        yield from self.data_pins(name, home)

    def data_pins(self, name: str, home: Place) -> Iterator[int]:
        """One burst at a time in each direction, and a pause between the directions."""
        k, inward = self.k, ("WRGB", "WRMAC", "WRAab")
        if name in READS or name == "RDMAC":
            yield self.after("RDMAC", home, k.nBL)
            yield self.after("WRAab", home, self.data_in + k.tWTR_L)
            yield self.after("WRMAC", home, k.nCWLREG + k.nBL + k.tWTR_L)
            yield self.after("WRGB", home, k.nCWLGB + k.nBL + k.tWTR_S)
        if name in WRITES or name in inward:
            yield self.after(inward, home, k.nBL)
            yield self.after("RDMAC", home, k.nRTWREG + k.nCWLGB - self.write_latency(name))
        if name == "RDMAC":
            yield self.after(READS, home, k.nBL)
            yield self.after(WRITES, home, self.data_in + k.tWTR_L)
        if name in inward:
            yield self.after(WRITES, home, k.nBL)
            yield self.after(READS, home, k.nRTW + k.nCWL - self.write_latency(name))

    def write_latency(self, name: str) -> int:
        """From the command to its data on the pins: the pause between the directions is between data."""
        return {"WRGB": self.k.nCWLGB, "WRMAC": self.k.nCWLREG}.get(name, self.k.nCWL)

    def over(self, name: str) -> int:
        k = self.k
        own = {"ACTab": k.tRCDMAC, "MACab": k.tCCD_L, "WRAab": self.recovery + k.tRP, "WRGB": k.nCWLGB + k.nBL}
        own |= {"RDMAC": k.nCLREG + k.nBL, "WRMAC": k.nCWLREG + k.nBL, "TMOD": k.nMODCH}
        return own[name] if name in own else super().over(name)


MACHINES = {"gddr6": Gddr6, "gddr6+aim": Gddr6Aim, "hbm2": Hbm2, "ddr4": Ddr4}


def simulate(
    machine: str,
    size: tuple[int, int, int, int],
    clocks: dict[str, int],
    streams: list[list[Order]],
    *,
    refresh: bool = True,
    due: int | None = None,
    apart: int = 0,
    refreshed: int | None = None,
) -> Outcome:
    """Walk the streams clock by clock; size: pseudo channels, ranks, bank groups, banks of a group.

    A REFab of a stream's own is a command like any other: it serves no refresh that is due and is not in the log.
    """
    dev = MACHINES[machine](size, clocks)
    interval = clocks["tREFI"]
    next_due = [(interval if due is None else due) + apart * node for node, _ in enumerate(dev.homes)]
    if refreshed is not None:
        for home in dev.homes:
            dev.issue("REFab", home, 0, refreshed)
    refreshes = [Order("REFab", *home) for home in dev.homes]
    ends, bus_free = [0], dict[str, int]()
    log: list[tuple[int, int]] = []
    first: list[list[int]] = [[] for _ in streams]
    last: list[list[int]] = [[] for _ in streams]
    at, left = [0] * len(streams), [s[0].count if s else 0 for s in streams]

    def act(order: Order, clock: int, busy: set[str]) -> None:
        dev.issue(order.name, dev.place(order), order.row, clock)
        busy.add(dev.bus(order.name))
        bus_free[dev.bus(order.name)] = clock + 1
        ends.append(clock + max(dev.over(order.name), 1))

    def is_due(node: int, clock: int) -> bool:
        return refresh and next_due[node] <= clock

    def held(order: Order, clock: int) -> bool:
        home = (order.pch, order.rank)[: dev.home]
        return order.name in dev.opening and is_due(dev.homes.index(home), clock)

    def lifted(clock: int) -> bool:
        """All wait for rows that the due refreshes keep from opening, and no refresh is near."""
        near = any(is_due(node, clock) and dev.ask("fits", order) for node, order in enumerate(refreshes))
        heads = [stream[i] for stream, i in zip(streams, at, strict=True) if i < len(stream)]
        return not near and all(held(head, clock) or not dev.ask("fits", head) for head in heads)

    def result(error: tuple[str, int, int] | None = None) -> Outcome:
        places = {(n, b if n in ON_ONE_BANK else b[: dev.home]) for n in dev.names for b in dev.open}
        rules_over = [dev.ready(name, place) for name, place in places]
        rules_over += [dev.after("ACT", home, clocks["tFAW"]) for home in dev.homes]
        closed = [dev.fits("REFab", home, 0) for home in dev.homes]
        ready = [max(dev.ready("REFab", home), bus_free.get(dev.bus("REFab"), 0)) for home in dev.homes]
        ready = [clock if shut else FAR for clock, shut in zip(ready, closed, strict=True)]
        return Outcome(first, last, log, error, max(ends + rules_over), ready)

    for clock in count():
        todo = [s for s in range(len(streams)) if at[s] < len(streams[s])]
        if not todo:
            return result()
        if not any(dev.ask("fits", streams[s][at[s]]) for s in todo):
            return result(("stuck", todo[0], at[todo[0]]))
        starved = any(is_due(node, clock - POSTPONED * interval) for node in range(len(dev.homes)))
        busy = set[str]()

        for node, order in enumerate(refreshes):
            if not is_due(node, clock) or dev.bus("REFab") in busy or not dev.legal(order, clock):
                continue
            if starved:
                return result(("starved", todo[0], at[todo[0]]))
            act(order, clock, busy)
            next_due[node] += interval
            log.append((clock, node))

        for s in todo:
            head = streams[s][at[s]]
            if dev.bus(head.name) in busy or clock < head.release or not dev.legal(head, clock):
                continue
            if held(head, clock) and (busy or not lifted(clock)):
                continue
            if starved:
                return result(("starved", todo[0], at[todo[0]]))
            act(head, clock, busy)
            if left[s] == head.count:
                first[s].append(clock)
            left[s] -= 1
            if left[s] == 0:
                last[s].append(clock)
                at[s] += 1
                left[s] = streams[s][at[s]].count if at[s] < len(streams[s]) else 0
    raise AssertionError("unreachable")
